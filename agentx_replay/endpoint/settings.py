"""What is the same for every request of a run: the server, the model, headers and body fields.

Not for: anything that differs from request to request (requests.py), or talking to the server.
"""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from agentx_replay.endpoint.kernel_stamps import Timestamps
from agentx_replay.endpoint.url import BaseUrl
from agentx_replay.errors import UsageError
from agentx_replay.given_files import refuse_unfit
from agentx_replay.secret_texts import is_secret_name, secret_fields, worth_hiding

MIN_TIMEOUT_S = 21_600.0
"""AgentX: no client timeout below six hours; real agents wait, and cutting hides the slow."""

OWN_FIELDS = frozenset(
    {"model", "messages", "prompt", "stream", "max_tokens", "max_completion_tokens"}
)
Api = Literal["chat", "completions"]
"""Chat completions from messages, or completions from a prompt as it stands."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")
_FRAMING_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How the server's certificate is checked. ``insecure`` means not at all."""

    ca_file: str | None = None
    insecure: bool = False

    def context(self) -> ssl.SSLContext:
        """Return the context for every connection. Raises UsageError for an unusable CA file."""
        what = f"the CA file {self.ca_file}"
        way_out = "give a PEM file with the certificate of the authority"
        if self.ca_file is not None:
            refuse_unfit(Path(self.ca_file), what, way_out)
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise UsageError(
                "certificates-unusable",
                f"{what} cannot be used ({error.strerror or error})",
                way_out,
            ) from error
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """One server and how to ask it.

    ``api_key_env`` is the environment variable that the key is from, for messages.
    ``max_tokens_field`` is the name of the body field that limits the output of chat;
    ``refused_fields`` the server was found to take none of. ``extra_body`` and ``extra_headers``
    pass through; a null in the body leaves a field out. ``session_headers`` adds what routers keep
    a session together by (``requests.id_headers``). ``keepalive_s`` is how long
    an idle connection may be used again where neither the server's announcement nor a measurement
    says less. ``timeout_s`` limits one response; None is no limit. ``wait_s`` is how long a server
    that refuses connections before a run is asked again. ``continuous_usage`` asks for
    usage in every event, which costs the server time. ``keeps_answers`` keeps what is said, to be
    fed back. ``timestamps`` says who stamps what arrives; None: the kernel where it can.
    """

    url: BaseUrl
    model: str
    api_key: str | None = field(default=None, repr=False)
    api_key_env: str = "OPENAI_API_KEY"
    max_tokens_field: str = "max_completion_tokens"
    refused_fields: tuple[str, ...] = ()
    extra_body: dict[str, Any] = field(default_factory=dict)
    extra_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    session_headers: bool = False
    tls: TlsSettings = TlsSettings()
    keepalive_s: float | None = None
    timeout_s: float | None = None
    wait_s: float = 10.0
    continuous_usage: bool = False
    api: Api = "chat"
    keeps_answers: bool = False
    timestamps: Timestamps | None = None

    @property
    def completions_path(self) -> str:
        return "/completions" if self.api == "completions" else "/chat/completions"

    @property
    def limit_field(self) -> str:
        """The body field that limits the output, of completions always the same."""
        return "max_tokens" if self.api == "completions" else self.max_tokens_field

    @property
    def sent_extras(self) -> dict[str, Any]:
        return {name: value for name, value in self.extra_body.items() if value is not None}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must reach no file and no screen: the key, the values of headers that by their name
        carry one, with their scheme (``Bearer …``) and without, and such texts in the body.
        """
        values = [value for name, value in self.extra_headers if is_secret_name(name)]
        bare = [value.split(" ", 1)[1] for value in values if " " in value]
        found = (self.api_key or "", *values, *bare, *secret_fields(self.extra_body))
        return worth_hiding(found)

    def __post_init__(self) -> None:
        _check_body(self.extra_body)
        _check_headers(self.extra_headers, self.api_key, self.api_key_env)
        if self.timeout_s is not None and self.timeout_s < MIN_TIMEOUT_S:
            raise UsageError(
                "timeout-too-short",
                f"a timeout of {self.timeout_s:g} s would cut off responses and hide slow ones",
                f"leave it out or give at least {MIN_TIMEOUT_S:.0f} s",
            )


def _check_body(fields: dict[str, Any]) -> None:
    clash = sorted(OWN_FIELDS & fields.keys())
    if clash:
        raise UsageError(
            "body-field-of-replay",
            f"the body field {clash[0]!r} is decided by the replay",
            "leave it out of the extras",
        )
    try:
        orjson.dumps(fields)
    except TypeError as error:
        raise UsageError(
            "body-unwritable",
            f"the extra body fields cannot be written as JSON ({error})",
            "give plain JSON values",
        ) from error


def _check_headers(
    headers: tuple[tuple[str, str], ...], api_key: str | None, api_key_env: str
) -> None:
    for name, value in headers:
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise UsageError(
                "header-unfit",
                f"the header {name!r} cannot be sent",
                "use a plain name and a value of printable ASCII on one line",
            )
        if name.lower() in _FRAMING_HEADERS:
            raise UsageError(
                "header-of-connection",
                f"the header {name!r} is set by the connection",
                "leave it out",
            )
    if api_key is not None and not _HEADER_VALUE.fullmatch(api_key):
        raise UsageError(
            "api-key-unfit",
            "the API key holds characters that no header can carry",
            f"check {api_key_env} for a stray line break or quote",
        )
