"""The command line as it may be kept: header values and credentials taken out.

Not for: the API key, which no option carries (``--api-key-env`` names a variable).
"""

import re
from collections.abc import Iterator, Sequence

_HIDDEN = "***"
_CREDENTIALS = re.compile(r"//[^/?#\s]*@")


def redacted_command(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments with every header's value hidden, its name kept, and every URL's user
    name and password.
    """
    return tuple(_CREDENTIALS.sub(f"//{_HIDDEN}@", shown) for shown in _without_headers(arguments))


def _without_headers(arguments: Sequence[str]) -> Iterator[str]:
    is_header = False
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if is_header:
            yield _header_name(argument)
        elif option == "--header" and equals:
            yield f"--header={_header_name(value)}"
        else:
            yield argument
        is_header = not is_header and argument == "--header"


def _header_name(header: str) -> str:
    name, colon, _ = header.partition(":")
    return f"{name}: {_HIDDEN}" if colon else _HIDDEN
