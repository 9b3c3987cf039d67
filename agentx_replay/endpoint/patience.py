"""How long a server's answer is waited for before a run, and what is said meanwhile.

A server that accepts and never answers must not hang a command, nor one that sends a byte now and
then. Not for: measured requests, which nothing cuts off (``EndpointSettings.timeout_s``).
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.errors import UsageError

_UNUSABLE = 3
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: until a person is told of the wait, that ``/v1/models`` may take in all, and that
    any other request may, which a server may have to load a model for, or to queue.
    """

    told_after_s: float = 5.0
    models_s: float = 60.0
    request_s: float = 600.0


LIMITS = Limits()


class Patience:
    """Waits for one server's answers; says once that it does."""

    def __init__(self, url: BaseUrl, limits: Limits) -> None:
        self.limits = limits
        self._url = url
        self._told = False

    @asynccontextmanager
    async def at_most(self, limit_s: float) -> AsyncIterator[None]:
        """Give up what is awaited within after so many seconds: ``UsageError``, exit code 3."""
        told = asyncio.get_running_loop().call_later(self.limits.told_after_s, self._tell)
        try:
            async with asyncio.timeout(limit_s) as limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise UsageError(
                "server-silent",
                f"{self._url} has not answered a request within {limit_s:g} s",
                "see the server's log, and that the URL is the one it serves; try again when it "
                "answers",
                exit_code=_UNUSABLE,
            ) from None
        finally:
            told.cancel()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            _log.warning("waiting for %s to answer", self._url)
