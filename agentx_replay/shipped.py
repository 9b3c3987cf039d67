"""Where the files shipped with the package lie: bundled corpus, scenario files, documentation.

An installed wheel carries them under ``_shipped``; a checkout (and an editable install) has them
at the top of the repository.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def shipped_directory(name: str) -> Path:
    """Return the directory of shipped ``traces``, ``scenarios`` or ``docs``."""
    installed = _PACKAGE / "_shipped" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
