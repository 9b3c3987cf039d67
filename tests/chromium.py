"""A headless Chromium that opens one page and tells what happened, over its debugging protocol."""

import asyncio
import base64
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_START_S = 30.0


@dataclass(slots=True)
class Browser:
    """One tab: what it was told to do, and what it said meanwhile."""

    reader: asyncio.StreamReader
    write_to: int
    session: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _loaded: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _answers: dict[int, "asyncio.Future[dict[str, Any]]"] = field(default_factory=dict)

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        order = {"id": number, "method": method, "params": parameters, **self.session}
        os.write(self.write_to, json.dumps(order).encode() + b"\0")
        return await answer

    async def listen(self) -> None:
        while message := await self.reader.readuntil(b"\0"):
            said = json.loads(message[:-1])
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
        self.errors.clear()
        self.requests.clear()
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
    """A tab in a Chromium of its own, gone with the context. Both talk over a pair of pipes."""
    assert CHROMIUM is not None
    theirs_in, our_out = os.pipe()
    our_in, theirs_out = os.pipe()

    def in_their_places() -> None:
        os.dup2(theirs_in, 3)
        os.dup2(theirs_out, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank",
            stderr=asyncio.subprocess.DEVNULL, preexec_fn=in_their_places, pass_fds=(3, 4),
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            async with _tab(our_in, our_out) as tab:
                yield tab
        finally:
            os.close(our_out)
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


@asynccontextmanager
async def _tab(our_in: int, our_out: int) -> AsyncIterator[Browser]:
    reader = asyncio.StreamReader(limit=1 << 26)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_in, "rb")
    )
    tab = Browser(reader, our_out)
    listening = asyncio.create_task(tab.listen())
    try:
        async with asyncio.timeout(_START_S):
            pages: list[dict[str, Any]] = []
            while not pages:
                targets = (await tab.call("Target.getTargets"))["targetInfos"]
                pages = [target for target in targets if target["type"] == "page"]
        attached = await tab.call(
            "Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True
        )
        tab.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            await tab.call(f"{domain}.enable")
        yield tab
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        transport.close()
