"""Tests that are coroutines, or that ask for ``run``, run on both event loops."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

import pytest
from client_cases import LOOPS

LIMIT_S = 30.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if inspect.iscoroutinefunction(metafunc.function):
        metafunc.fixturenames.append("loop_name")
        metafunc.parametrize("loop_name", LOOPS)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    names = inspect.signature(pyfuncitem.function).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    run_on(LOOPS[str(pyfuncitem.callspec.params["loop_name"])], test)
    return True


def run_on(loops: Callable[[], asyncio.AbstractEventLoop], test: Awaitable[None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await test

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(limited())


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    return lambda test: run_on(LOOPS[request.param], test)


@pytest.fixture(autouse=True)
def _brief_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is asked whether it speaks TLS and never says so is left sooner."""
    monkeypatch.setattr("agentx_replay.endpoint.asking._HANDSHAKE_S", 0.3)
