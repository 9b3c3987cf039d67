"""``python -m agentx_replay`` is the command line."""

from agentx_replay.cli import main

main()
