"""The child process of ``launch_simulator``: its one argument is a configuration as JSON.

People start a simulator with ``agentx-replay simulate``.
"""

import sys

from agentx_replay.errors import UsageError
from agentx_replay.simulator.process import config_from_json, say, serve

if __name__ == "__main__":
    try:
        serve(config_from_json(sys.argv[1]), lambda url: say(url=url), end_with_stdin=True)
    except UsageError as error:
        say(code=error.code, what=error.what, what_to_do=error.what_to_do)
        sys.exit(error.exit_code)
