"""Each of these tests runs on both event loops."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from client_cases import LOOPS


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    def run_it(test: Awaitable[None]) -> None:
        async def main() -> None:
            await test

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main())

    return run_it
