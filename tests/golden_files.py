"""Values and outputs that are frozen in files under ``tests/goldens``.

``pytest --update-goldens`` writes the files anew: read what git then shows as changed, since every
difference is a number or a sentence that a person will see.
"""

import math
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson

DIRECTORY = Path(__file__).with_name("goldens")
TOLERANCE = 1e-9
"""Relative difference that two processors may have between sums of the same floats."""

_FLAG = "run pytest with --update-goldens if the change is meant"


@dataclass(frozen=True, slots=True)
class Goldens:
    """The frozen files; with ``update`` they are written in place of compared."""

    update: bool

    def check_values(self, name: str, values: Any) -> None:
        """Compare plain values with ``name``.json: floats within ``TOLERANCE``, the rest exactly.

        Texts of several words are wording, which is not compared: each stands as one mark.
        """
        found = orjson.loads(orjson.dumps(without_wording(values)))
        file = DIRECTORY / f"{name}.json"
        if self.update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(orjson.dumps(found, option=_READABLE) + b"\n")
        different = list(differences(orjson.loads(file.read_bytes()), found))
        assert not different, "\n".join([f"{file.name}: {_FLAG}", *different[:20]])

    def check_text(self, name: str, text: str) -> None:
        """Compare a whole output with ``name``.txt."""
        self._check_file(DIRECTORY / f"{name}.txt", text)

    def check_page(self, name: str, text: str) -> None:
        """Compare a generated page with ``name``.md of the docs."""
        self._check_file(DIRECTORY.parents[1] / "docs" / f"{name}.md", text)

    def _check_file(self, file: Path, text: str) -> None:
        if self.update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        assert text == file.read_text(), f"{file.name}: {_FLAG}"


_READABLE = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
_WORDING = "(text)"


def without_wording(values: Any) -> Any:
    """Return plain values with every text of several words replaced by one mark."""
    if isinstance(values, dict):
        return {key: without_wording(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [without_wording(value) for value in values]
    return _WORDING if isinstance(values, str) and " " in values else values


def differences(expected: Any, found: Any, where: str = "") -> list[str]:
    """Return where two plain values differ, a line each."""
    if isinstance(expected, dict) and isinstance(found, dict):
        names = sorted(expected.keys() | found.keys())
        parts = [(f"{where}.{n}", expected.get(n, _LACKING), found.get(n, _LACKING)) for n in names]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        parts = [(f"{where}[{n}]", *pair) for n, pair in pairs]
    else:
        return [] if _same(expected, found) else [f"{where}: {expected!r} → {found!r}"]
    return [line for at, one, other in parts for line in differences(one, other, at)]


class _Lacking:
    def __repr__(self) -> str:
        return "(lacking)"


_LACKING = _Lacking()


def _same(expected: Any, found: Any) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, float) or isinstance(found, float):
        numbers = isinstance(expected, (int, float)) and isinstance(found, (int, float))
        return numbers and math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=1e-15)
    return bool(expected == found)


def numbers_of_page(page: str) -> dict[str, list[list[str]]]:
    """Return the numbers of a page's tables by the heading that they stand under, a list a row."""
    reader = _Tables()
    reader.feed(page)
    return reader.found


def text_of_page(page: str) -> str:
    """Return what a page says: a line for each heading, paragraph, list item and table row."""
    reader = _Text()
    reader.feed(page)
    lines = (" ".join(line.split()) for line in "".join(reader.parts).splitlines())
    return "\n".join(line for line in lines if line) + "\n"


_NUMBER = re.compile(r"[-−+]?\d[\d,]*(?:\.\d+)?%?")
_HEADINGS = ("h2", "h3", "h4")
_NOT_TEXT = ("style", "svg", "title")
_BLOCKS = (*_HEADINGS, "h1", "p", "li", "tr", "dt", "dd", "figcaption", "caption")


class _Tables(HTMLParser):
    """Collects the numbers of table rows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self._heading = ""
        self._in_heading = self._in_row = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _HEADINGS:
            self._heading, self._in_heading = "", True
        elif tag == "tr":
            self._in_row = True
            self.found.setdefault(self._heading, []).append([])

    def handle_endtag(self, tag: str) -> None:
        self._in_heading = self._in_heading and tag not in _HEADINGS
        self._in_row = self._in_row and tag != "tr"

    def handle_data(self, data: str) -> None:
        if self._in_heading:
            self._heading += data
        elif self._in_row:
            self.found[self._heading][-1] += _NUMBER.findall(data)


class _Text(HTMLParser):
    """Collects what can be read, figures left out."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in _NOT_TEXT
        if tag in _BLOCKS:
            self.parts.append("\n")
        elif tag in ("td", "th"):
            self.parts.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _NOT_TEXT

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)
