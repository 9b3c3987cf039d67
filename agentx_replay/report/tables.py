"""One list of sections, and how it is written for a terminal, as Markdown and as CSV.

The page writes the same sections (``page.html.j2``). Not for what stands in them.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from agentx_replay.text_format import wrapped

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of ``rank`` 2 or 3, and what stands under it, in the order of the fields.

    A line break in a text of ``heads`` separates a name from its unit. ``facts`` are names with
    sentences, ``reasons`` findings, ``notes`` small print. ``figures`` is HTML, for the page alone.
    """

    heading: str
    lead: Sequence[str] = ()
    reasons: Sequence[str] = ()
    figures: str = ""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    rank: int = 2

    @property
    def has_words(self) -> bool:
        """Whether anything of it can be read without a figure; notes explain what is above them."""
        return bool(self.lead or self.reasons or self.rows or self.facts)


def by_heading(rows: Sequence[Mapping[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the cells of rows that have their cells by heading."""
    heads = list(rows[0]) if rows else []
    return heads, [[row[head] for head in heads] for row in rows]


def sections_text(sections: Sequence[Section], width: int) -> str:
    """Return sections in lines of at most ``width`` columns; a wider table goes on below itself."""
    blocks = (_block(section, width) for section in sections if section.has_words)
    return "\n\n".join("\n".join(lines) for lines in blocks)


def _block(section: Section, width: int) -> Iterator[str]:
    yield section.heading
    for line in (*section.lead, *section.reasons):
        yield from wrapped(line, width)
    if section.rows:
        yield from table_lines(section.heads, section.rows, width)
    for line in (*(f"{name}: {said}" for name, said in section.facts), *section.notes):
        yield from wrapped(line, width)


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield a table whose first column is repeated before the columns that did not fit."""
    for above, below in tables_side_by_side(heads, rows, width):
        yield from above
        yield "-" * max(map(len, (*above, *below)))
        yield from below


def tables_side_by_side(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the lines of headings and of rows of as many tables as the width demands, each of which
    has the first column.
    """
    columns = zip((head.split("\n") for head in heads), zip(*rows, strict=True), strict=True)
    for group in _groups(list(columns), width):
        deep = max(len(head) for head, _ in group)
        padded = [[*head, *[""] * (deep - len(head)), *cells] for head, cells in group]
        lines = columns_lines(padded)
        yield lines[:deep], lines[deep:]


_Headed = tuple[Sequence[str], Sequence[str]]


def _groups(columns: Sequence[_Headed], width: int) -> Iterator[list[_Headed]]:
    """Yield the columns that stand beside each other, the first one in each group."""
    first, *others = columns
    least = _width([*first[0], *first[1]])
    group, used = [first], least
    for head, cells in others:
        wide = len(_GAP) + _width([*head, *cells])
        if used + wide > width and len(group) > 1:
            yield group
            group, used = [first], least
        group.append((head, cells))
        used += wide
    yield group


def _width(column: Sequence[str]) -> int:
    return max(map(len, column))


def columns_lines(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return columns of equal length side by side, the first to the left, others to the right."""
    widths = [_width(column) for column in columns]
    return [
        _GAP.join(
            cell.rjust(wide) if number else cell.ljust(wide)
            for number, (cell, wide) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in zip(*columns, strict=True)
    ]


def sections_markdown(sections: Sequence[Section]) -> str:
    return "\n\n".join(block for section in sections for block in _markdown(section))


def _markdown(section: Section) -> Iterator[str]:
    yield f"### {section.heading}"
    yield from map(_cell, (*section.lead, *section.reasons))
    if section.rows:
        rule = ["---", *["---:"] * (len(section.heads) - 1)]
        rows = [[_cell(text) for text in row] for row in (section.heads, *section.rows)]
        yield "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))
    for name, said in section.facts:
        yield _cell(f"{name}: {said}")
    yield from map(_cell, section.notes)


def _cell(text: str) -> str:
    text = text.replace("\n", " ")
    for special in ("\\", "|", "<", "*", "_", "`", "["):
        text = text.replace(special, f"\\{special}")
    return text


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of the same keys as CSV with a heading; what is None is empty, a list is JSON."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({
            key: orjson.dumps(value).decode() if isinstance(value, list) else value
            for key, value in row.items()
        })  # fmt: skip
    return out.getvalue().rstrip("\n")
