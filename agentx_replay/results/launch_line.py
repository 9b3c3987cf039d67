"""Facts as they may be kept: the line that launched an engine, and free texts, without secrets.

A secret is known by the name it stands under (a flag's, a variable's, a header's, a JSON field's),
by its place in a URL and by its shape. Not for: a secret without any of these
(``secret_texts.without_secrets`` hides a known value).
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

_SAFE = re.compile(r"[\w@%+=:,./*?~-]+", re.ASCII)
_SUBSTITUTION = re.compile(r"[$<>]\([^()`]*\)|`[^`]*`|\$\{[^{}]*\}")
"""An innermost one: of a command, a process or a variable."""
_FIRST_MARK = 0xF0000
_MARKS = re.compile("[\U000f0000-\U000fffff]")
"""Characters of private use, each of which stands for a substitution while a line is split."""
_NAME = re.compile(r"""(?<![\w/.-])(?:(-[\w.-]+)(?:\s*=\s*|\s+(?!-))|([\w.-]+)["']?\s*[=:]\s*)""")
_VALUE = re.compile(
    r"""(?:(?:basic|bearer|digest)\s+)?(?:\*{3}|"[^"]*"|'[^']*'|\$\([^()]*\)|`[^`]*`|\S+)""",
    re.IGNORECASE,
)


def hidden_text(text: str) -> str:
    """Return a text of any form with hidden values behind flags, variables and fields of a
    secret's name, credentials of URLs, and tokens.
    """
    text = _TOKEN.sub(HIDDEN, without_credentials(text))
    parts, end = [], 0
    for name in _NAME.finditer(text):
        value = _VALUE.match(text, name.end())
        if value and name.start() >= end and is_secret_field(name[1] or name[2]):
            parts += [text[end : name.end()], HIDDEN]
            end = value.end()
    return "".join([*parts, text[end:]])


def hidden_launch(line: str) -> str:
    """Return a command line with the values of all flags and variables of a secret's name, and the
    credentials of URLs, hidden; its words on one line, quoted for a shell.

    Of a flag all words up to the next flag are its value, since some take several keys; a
    substitution (``$(cat FILE)``) is a part of the word that it stands in. Raises ``ValueError``
    for a line that no shell could split.
    """
    shown: list[str] = []

    def mark(found: re.Match[str]) -> str:
        shown.append(_hidden_substitution(found[0]))
        return chr(_FIRST_MARK + len(shown) - 1)

    line, count = _MARKS.sub("", line), 1
    while count:  # from the innermost outwards
        line, count = _SUBSTITUTION.subn(mark, line)
    if re.search(r"[$<>]\(|`", line):
        raise ValueError("No closing of a substitution")
    try:
        line = _hidden_line(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    while _MARKS.search(line):
        line = _MARKS.sub(lambda found: shown[ord(found[0]) - _FIRST_MARK], line)
    return line


def _hidden_substitution(text: str) -> str:
    if text.startswith("${"):
        name, default, _ = text[2:-1].partition(":")
        return f"${{{name}:-{HIDDEN}}}" if default and is_secret_field(name) else hidden_text(text)
    opening, inner = (text[0], text[1:-1]) if text[0] == "`" else (text[:2], text[2:-1])
    return f"{opening}{_hidden_line(inner)}{text[-1]}"


def _hidden_line(line: str) -> str:
    return " ".join(_quoted(word) for word in _hidden(_words(line)))


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
    return _hidden_plain(word) if hidden is None else hidden


def _hidden_plain(word: str) -> str:
    """Hide what stands behind ``=`` or ``:`` in a word, or in the command that a word is."""
    word = _TOKEN.sub(HIDDEN, without_credentials(word))
    name, equals, value = word.partition("=")
    if equals and not re.search(r"\s", name):
        return f"{name}={HIDDEN if is_secret_field(name) else _hidden_word(value)}"
    name, colon, _ = word.partition(":")
    if colon and not re.search(r"\s", name) and is_secret_field(name):
        return f"{name}: {HIDDEN}"
    if re.search(r"\s", word):
        return _hidden_line(word)
    return word


def _quoted(word: str) -> str:
    """Quote a word where a shell needs it; operators, variables and ``***`` stay as they are."""
    plain = _MARKS.sub("", word)
    as_it_is = not plain or _is_operator(plain) or _SAFE.fullmatch(plain) or plain.startswith("$")
    return word if as_it_is else shlex.quote(word)


def _is_operator(word: str) -> bool:
    return bool(word) and set(word) <= _OPERATORS
