"""A headless Chromium that opens one page and tells what happened, over its debugging protocol."""

import asyncio
import base64
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-port=0",
)  # fmt: skip
_START_S = 30.0


@dataclass(slots=True)
class Browser:
    """One tab: what it was told to do, and what it said meanwhile."""

    socket: aiohttp.ClientWebSocketResponse
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _loaded: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _answers: dict[int, "asyncio.Future[dict[str, Any]]"] = field(default_factory=dict)

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        await self.socket.send_json({"id": number, "method": method, "params": parameters})
        return await answer

    async def listen(self) -> None:
        async for message in self.socket:
            said = message.json()
            if "id" in said:
                answer = self._answers.pop(said["id"])
                if "error" in said:
                    answer.set_exception(RuntimeError(said["error"]["message"]))
                else:
                    answer.set_result(said["result"])
            else:
                self._hear(said["method"], said["params"])

    def _hear(self, method: str, told: dict[str, Any]) -> None:
        match method:
            case "Log.entryAdded":
                self.errors.append(told["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.errors.append(str(told["args"]))
            case "Runtime.exceptionThrown":
                self.errors.append(str(told["exceptionDetails"]))
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])
            case "Page.loadEventFired":
                self._loaded.set()

    async def open(self, path: Path, width: int, *, dark: bool) -> None:
        """Open a file on a screen of that width and wait until it has loaded."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded.clear()
        await self.call("Page.navigate", url=path.resolve().as_uri())
        await self._loaded.wait()

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        told = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return told["result"].get("value")

    async def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page."""
        told = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(told["data"]))


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """A tab in a Chromium of its own, gone with the context."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            port = await asyncio.wait_for(_port(process), _START_S)
            async with aiohttp.ClientSession() as session, _tab(session, port) as tab:
                yield tab
        finally:
            process.terminate()
            await process.communicate()


async def _port(process: asyncio.subprocess.Process) -> int:
    """Return the port that Chromium says it listens on."""
    assert process.stderr is not None
    async for line in process.stderr:
        _, found, address = line.decode().partition("DevTools listening on ws://127.0.0.1:")
        if found:
            return int(address.partition("/")[0])
    raise RuntimeError("chromium ended before it listened")


@asynccontextmanager
async def _tab(session: aiohttp.ClientSession, port: int) -> AsyncIterator[Browser]:
    async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
        pages = [each for each in await answer.json() if each["type"] == "page"]
    async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
        tab = Browser(socket)
        listening = asyncio.create_task(tab.listen())
        try:
            for domain in ("Page", "Runtime", "Log", "Network"):
                await tab.call(f"{domain}.enable")
            yield tab
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
