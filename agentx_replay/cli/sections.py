"""Help in sections: a command with thirty options shows them by what they are about."""

import re

import click

_RANGE = re.compile(r"  \[[\d.<=>]*x[\d.<=>]*\]$")
"""What click adds where a number is bounded: the bounds are far, and told to who passes them."""

_SECTIONS = {
    "What is replayed": (
        "concurrency", "traces", "scenario", "override", "max_context", "max_context_policy",
        "keep_one_of_duplicates", "skip_bad", "starts", "salt", "simulate",
    ),
    "The server": (
        "url", "model", "api_key_env", "endpoint", "header", "body", "session_headers", "ca_file",
        "insecure", "keepalive", "timeout", "timestamps", "metrics_url", "virtual",
        "gpus",
    ),
    "Prompts": ("tokenizer", "calibration", "tool_messages", "live_history"),
    "Running and reporting": (
        "out", "resume", "workers", "at", "json", "config", "help",
    ),
}  # fmt: skip
"""Titles, and under each the options by the first long name, ``-`` as ``_``."""

_OF_CHECK = frozenset({"streams", "rate"})
OPTION_NAMES = frozenset(
    name.replace("_", "-") for name in _OF_CHECK.union(*_SECTIONS.values()) - {"config", "help"}
)
"""The options that ``run``, ``sweep``, ``plan`` or ``check`` take from a config file, any of them
in the file of any, by the long name: known without reading in the other commands.
"""


class SectionedCommand(click.Command):
    """A command whose help groups its options; what has no section comes last, as it is."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections that have any option of this command."""
        rows = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                rows[_long_name(parameter)] = (record[0], _RANGE.sub("", record[1]))
        for title, names in _SECTIONS.items():
            of_section = [rows.pop(name) for name in names if name in rows]
            if of_section:
                with formatter.section(title):
                    formatter.write_dl(of_section)
        if rows:
            with formatter.section("More"):
                formatter.write_dl(list(rows.values()))


def _long_name(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len).lstrip("-").replace("-", "_")
