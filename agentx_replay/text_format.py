"""How texts are written and read: things counted, lines wrapped, quantities with their units."""

import re
import textwrap
from collections.abc import Mapping
from unicodedata import category

UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
UNITS_TOKENS = {"k": 1e3, "K": 1e3, "M": 1e6}
_WITH_UNIT = re.compile(r"(\d+\.?\d*|\.\d+)\s*([A-Za-z]+)", re.ASCII)


_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of control, format and surrogate characters and of line separators."""


def escaped(text: str) -> str:
    """Escape control and format characters, which hide text or turn it round; keep line ends."""
    unseen = {each for each in set(text) if category(each) in _UNSEEN} - {"\n"}
    return text.translate({ord(each): each.encode("unicode_escape").decode() for each in unseen})


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 request``, ``1,234 requests``, ``2 are`` of ``1 is``.

    ``plural`` is the noun's where it is not the noun and an s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def beyond(value: float, limit: float, digits: int, unit: str = "%") -> str:
    """Return a value beyond a limit with at least so many ``digits`` after the point, and as many
    as tell it from the limit: ``2.52%`` where the limit is ``2.5%``.

    Shares in per cent; in another ``unit`` the values as they are.
    """
    kind, ending = ("%", "") if unit == "%" else ("f", unit)
    while digits < 9 and f"{value:.{digits}{kind}}" == f"{limit:.{digits}{kind}}":
        digits += 1
    return f"{value:.{digits}{kind}}{ending}"


def lasting(seconds: float) -> str:
    """A length of time to two digits or so: 90 s, 61 min, 5 h 20 min."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 2:
        return f"{60 * hours + minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def wrapped(line: str, width: int = 100) -> list[str]:
    """Return a line in lines of at most ``width`` columns, broken between words alone; those that
    follow stand two columns further in than it begins.
    """
    begins = len(line) - len(line.lstrip())
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * (begins + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def in_units(text: str, units: Mapping[str, float]) -> float | None:
    """Return a quantity with a unit, such as ``90s``, in the unit that counts 1; None for any other
    text.
    """
    found = _WITH_UNIT.fullmatch(text.strip())
    if found is None or found[2] not in units:
        return None
    return round(float(found[1]) * units[found[2]], 9)
