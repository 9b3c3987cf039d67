"""The child process of ``launch_simulator``: its one argument is a configuration as JSON, its one
line of output the URL, or what is wrong, as JSON.

People start a simulator with ``agentx-replay simulate``.
"""

import sys

import orjson

from agentx_replay.errors import UsageError
from agentx_replay.simulator.process import config_from_json, serve


def _announce(url: str) -> None:
    _say({"url": url})


def _say(line: dict[str, str]) -> None:
    print(orjson.dumps(line).decode(), flush=True)


def main() -> None:
    """Serve until the parent ends or says so."""
    try:
        serve(config_from_json(sys.argv[1]), _announce, end_with_stdin=True)
    except UsageError as error:
        _say({"code": error.code, "what": error.what, "what_to_do": error.what_to_do})
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
