"""The command line as it may be kept: header values, credentials and keys in bodies taken out.

Not for: the API key, which no option carries (``--api-key-env`` names a variable).
"""

import re
from collections.abc import Callable, Iterator, Sequence

from agentx_replay.secret_texts import HIDDEN, hidden_body, hidden_header

_CREDENTIALS = re.compile(r"//[^/?#\s]*@")


def redacted_command(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments with every header's value hidden, its name kept, every text in a body
    under a name that speaks of a secret, and every URL's user name and password.
    """
    return tuple(_CREDENTIALS.sub(f"//{HIDDEN}@", shown) for shown in _without_values(arguments))


def _without_values(arguments: Sequence[str]) -> Iterator[str]:
    shown = None
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if shown is not None:
            yield shown(argument)
            shown = None
        elif equals and option in _SHOWN:
            yield f"{option}={_SHOWN[option](value)}"
        else:
            yield argument
            shown = _SHOWN.get(argument)


_SHOWN: dict[str, Callable[[str], str]] = {"--header": hidden_header, "--body": hidden_body}
