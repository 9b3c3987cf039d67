"""The line that launched an engine as it may be kept: split as a shell splits it, secrets out.

A secret is known by the name it stands under: a flag's, a variable's, a header's, a JSON field's,
and by its place in a URL. Not for: secrets that stand under no such name.
"""

import re
import shlex
from collections.abc import Iterator

from agentx_replay.secret_texts import (
    HIDDEN,
    hidden_json,
    is_secret_field,
    without_credentials,
)

_OPERATORS = frozenset("();<>|&")
_TOKEN = re.compile(r"(?<=\bbearer )\S+|\b(?:sk|hf|ghp)[-_][\w-]{8,}", re.IGNORECASE)
"""What is a token by its own form, whatever stands before it."""

_SAFE = re.compile(r"[\w@%+=:,./*?-]+", re.ASCII)


def hidden_launch(line: str) -> str:
    """Return a command line with the values of all flags and variables of a secret's name, and the
    credentials of URLs, hidden; its words on one line, quoted for a shell.

    Of a flag all words up to the next flag are its value, since some take several keys. Raises
    ``ValueError`` for a line that no shell could split.
    """
    try:
        return " ".join(_quoted(word) for word in _hidden(_words(line)))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def _hidden(words: list[str]) -> Iterator[str]:
    in_value = False
    for word in words:
        if word.startswith("-") or _is_operator(word):
            in_value = word.startswith("-") and "=" not in word and is_secret_field(word)
            yield _hidden_word(word)
        else:
            yield HIDDEN if in_value else _hidden_word(word)


def _hidden_word(word: str) -> str:
    hidden = hidden_json(word)
    return _hidden_text(word) if hidden is None else hidden


def _hidden_text(word: str) -> str:
    """Hide what stands behind ``=`` or ``:`` in a word, or in the command that a word is."""
    word = _TOKEN.sub(HIDDEN, without_credentials(word))
    name, equals, value = word.partition("=")
    if equals and not re.search(r"\s", name):
        return f"{name}={HIDDEN if is_secret_field(name) else _hidden_word(value)}"
    name, colon, _ = word.partition(":")
    if colon and not re.search(r"\s", name) and is_secret_field(name):
        return f"{name}: {HIDDEN}"
    if re.search(r"\s", word):
        return hidden_launch(word)
    return word


def _quoted(word: str) -> str:
    """Quote a word where a shell needs it; operators, variables and ``***`` stay as they are."""
    as_it_is = _is_operator(word) or _SAFE.fullmatch(word) or word.startswith("$")
    return word if as_it_is else shlex.quote(word)


def _is_operator(word: str) -> bool:
    return bool(word) and set(word) <= _OPERATORS
