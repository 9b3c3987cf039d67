"""Secrets known by the name they stand under, and taken out of texts in whatever form they come.

A server may echo a secret in another form: JSON, a page or a URL escape characters, and
a long line is broken. So a secret is found through escapes and line breaks. Not for: forms that
cannot be told from other words (another case's letters are found, base64 or a part of it is not).
"""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import orjson

HIDDEN = "***"

_SECRET_NAME = re.compile(
    "auth|bearer|key|token|secret|passw|passphrase|pwd|credential|cookie", re.IGNORECASE
)
_OF_THE_MODEL = re.compile(r"tokens|token_?ids?|tokeniz\w*|tokenis\w*", re.IGNORECASE)
_CREDENTIALS = re.compile(r"//[^/?#\s]*@")
_HEADER = re.compile(r"[\w-]+")
_LEAST_CHARACTERS = 6
_BETWEEN = r"(?:\s|\\[nrt])*"


def without_credentials(text: str) -> str:
    """Return ``text`` with user name and password of every URL in it hidden."""
    return _CREDENTIALS.sub(f"//{HIDDEN}@", text)


def is_secret_name(name: str) -> bool:
    """Whether a header of that name carries something to be kept to oneself."""
    return _SECRET_NAME.search(name) is not None


def is_secret_field(name: str) -> bool:
    """Whether a body field of that name does: as for headers, but ``max_tokens`` and its like are
    about the model's tokens.
    """
    return is_secret_name(_OF_THE_MODEL.sub("", name))


def hidden_fields(value: Any, name: str = "") -> Any:
    """Return a JSON value in which ``***`` stands for each secret text, at any depth: one under a
    secret name, and what follows one in ``NAME: VALUE``.
    """
    if isinstance(value, dict):
        return {name: hidden_fields(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [hidden_fields(each) for each in value]
    secret = _secret_of(name, value) if isinstance(value, str) else ""
    return value.replace(secret, HIDDEN) if secret else value


def _secret_of(name: str, text: str) -> str:
    """Return the part of a text under a name that is a secret; empty if none is."""
    if is_secret_field(name):
        return text
    header, _, value = text.partition(":")
    return value.strip() if _HEADER.fullmatch(header) and is_secret_field(header) else ""


def hidden_header(header: str) -> str:
    """Return ``NAME: VALUE`` with its value, whatever it is, as ``***``."""
    name, colon, _ = header.partition(":")
    return f"{name}: {HIDDEN}" if colon else HIDDEN


def hidden_body(text: str) -> str:
    """Return a JSON text with its secrets hidden, unchanged if it has none; ``***`` for a text that
    is not JSON.
    """
    hidden = hidden_json(text)
    return HIDDEN if hidden is None else hidden


def hidden_json(text: str) -> str | None:
    """Return a JSON text with its secrets hidden, unchanged if it has none; None if not JSON."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    hidden = hidden_fields(value)
    try:
        return text if hidden == value else orjson.dumps(hidden).decode()
    except TypeError:  # deeper than it writes
        return HIDDEN


def secret_fields(value: Any, name: str = "") -> list[str]:
    """Return the texts that ``hidden_fields`` hides."""
    if isinstance(value, list):
        return [text for each in value for text in secret_fields(each)]
    if isinstance(value, dict):
        return [text for name, each in value.items() for text in secret_fields(each, name)]
    secret = _secret_of(name, value) if isinstance(value, str) else ""
    return [secret] if secret else []


def worth_hiding(texts: Collection[str]) -> tuple[str, ...]:
    """Return which of these are secrets: a placeholder such as ``EMPTY`` is none, and cutting it
    out would spoil other words.
    """
    return tuple(text for text in texts if len(text) >= _LEAST_CHARACTERS)


def without_secrets(text: str, secrets: Collection[str], mark: str = HIDDEN) -> str:
    """Return ``text`` with every secret replaced by ``mark``: as it is, escaped for JSON, HTML or a
    URL, in other case, and with blanks or line breaks in it.
    """
    for secret in secrets:
        if secret:
            text = _pattern(secret).sub(lambda _: mark, text)
    return text


@lru_cache(maxsize=64)
def _pattern(secret: str) -> re.Pattern[str]:
    return re.compile(_BETWEEN.join(map(_forms, secret.replace(" ", ""))), re.IGNORECASE)


def _forms(character: str) -> str:
    """Return a pattern of the ways in which a character may be written."""
    code = ord(character)
    return (
        rf"(?:\\?{re.escape(character)}|\\u{code:04x}|\\x{code:02x}|%{code:02x}"
        rf"|&\#x0*{code:x};|&\#0*{code};)"
    )
