"""Where a server is: a URL as a person types it, taken apart once.

Not for: opening connections, or asking the server anything.
"""

import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from agentx_replay.errors import UsageError
from agentx_replay.secret_texts import without_credentials

_LOOPBACK = re.compile(r"localhost|::1|127(\.\d{1,3}){3}")
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1", "0.0.0.0", "::"}  # noqa: S104 (to connect to)
_PORTS = {"http": 80, "https": 443}
_QUERY = re.compile(r"[?#]")
_UNSAFE = re.compile(r"[^\x21-\x7e]")


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """The base of an OpenAI-compatible API. ``path`` has no trailing slash (usually ``/v1``)."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def tls(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Host and port as a Host header says them; the scheme's own port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def place(self) -> tuple[str, int, str]:
        """What two URLs of one server have in common, as far as names alone tell: a machine's port
        is one server's under any name that means the machine itself, and an address is one however
        it is written. Other names, also of one address, may be several servers behind a proxy.
        """
        host = _address(self.host)
        return "localhost" if host in _THIS_MACHINE else host, self.port, self.path

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def _address(host: str) -> str:
    """Return an IPv4 address as four numbers, as connecting reads it (127.1 is 127.0.0.1); a name
    as it is.
    """
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return host


def parse_base_url(text: str) -> BaseUrl:
    """Return the base that ``text`` names.

    With no scheme http is meant, with no path ``/v1``; a trailing slash, or ``/chat/completions``
    pasted along, is dropped; any other path is taken as it stands. Raises UsageError for what is
    not an http(s) URL, and for credentials or a query inside it, which it never repeats.
    """
    text = text.strip() if "://" in text else f"http://{text.strip()}"
    query = _QUERY.search(text)
    if query:
        raise UsageError(
            "url-with-query",
            f"the URL {without_credentials(text[: query.start()])} goes on with a query or "
            f"fragment ({query[0]}…), which would not be sent",
            "leave it out, and put what it says into --header or --body",
        )
    parts, port = _split(text)
    if parts.scheme not in _PORTS or not parts.hostname or _UNSAFE.search(text):
        raise UsageError(
            "url-not-of-server",
            f"{without_credentials(text)!r} is not the URL of a server",
            "give it as http://HOST:PORT or https://HOST/v1",
        )
    if parts.username is not None:
        raise UsageError(
            "url-with-password",
            f"the URL {without_credentials(text)} carries a user name or password",
            "leave them out: a key is taken from OPENAI_API_KEY, or from the variable that "
            "--api-key-env names, and a password is sent by an Authorization --header",
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return BaseUrl(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path or "/v1")


def refuse_twice(option: str, urls: Sequence[BaseUrl]) -> None:
    """Raise UsageError where two of an option's URLs are one place."""
    seen: dict[tuple[str, int, str], BaseUrl] = {}
    for url in urls:
        before = seen.setdefault(url.place, url)
        if before is not url:
            named = f"{url} twice" if before == url else f"one place twice, as {before} and {url}"
            raise UsageError("url-twice", f"{option} names {named}", "give each once")


def _split(text: str) -> tuple[SplitResult, int | None]:
    try:
        return (parts := urlsplit(text)), parts.port
    except ValueError as error:
        raise UsageError(
            "url-malformed",
            f"{without_credentials(text)!r} is not a URL",
            "give it as http://HOST:PORT or https://HOST/v1",
        ) from error


def refuse_proxy(url: BaseUrl, environment: Mapping[str, str] = os.environ) -> None:
    """Raise UsageError where the environment sends this URL through a proxy.

    A proxy would be measured along with the server. Loopback is always direct, and so is what
    ``NO_PROXY`` covers.
    """
    names = (f"{url.scheme}_proxy", "all_proxy")
    lowered = {name.lower(): value for name, value in environment.items() if value}
    name = next((name for name in names if name in lowered), None)
    if name is None or is_loopback(url):
        return
    if not _excepted(url, lowered.get("no_proxy", "")):
        raise UsageError(
            "proxy-set",
            f"{name.upper()} is set, and a proxy would be measured along with {url.host}",
            f"unset it or add {url.host} to NO_PROXY",
        )


def is_loopback(url: BaseUrl) -> bool:
    """Whether only this machine itself reaches the server by this URL."""
    return _LOOPBACK.fullmatch(_address(url.host)) is not None


def _excepted(url: BaseUrl, no_proxy: str) -> bool:
    """Whether NO_PROXY (names, with their subdomains, ports allowed, or ``*``) covers the host."""
    for entry in (part.strip().lower().lstrip(".") for part in no_proxy.split(",")):
        if entry in ("*", url.host, f"{url.host}:{url.port}"):
            return True
        if entry and url.host.endswith("." + entry):
            return True
    return False
