"""The line in which a run says how its calibration went.

How many probes prove it depends on how fast the server is: none begins after 1.5 s, and there are
at least eight (docs/calibration.md). So a test may ask that all were exact, not how many they were.
"""

import re

_LINE = re.compile(r"^prompt lengths exact on (\d+) of \1 probes \((.+)\)$", re.MULTILINE)
_LEAST_PROBES = 8


def exact_by(said: str) -> str | None:
    """Return what the line says of words and counting; None where not every probe was exact."""
    line = _LINE.search(said)
    return line[2] if line is not None and int(line[1]) >= _LEAST_PROBES else None
