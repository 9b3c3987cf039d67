"""Options from a TOML file: each by its long name, with a value of the kind that the option takes.

Not for: what an option's value means; that is checked where the command line's is.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from agentx_replay.cli.sections import OPTION_NAMES
from agentx_replay.errors import UsageError, shown
from agentx_replay.given_files import read_given
from agentx_replay.scenario import MOST_TOML_BYTES, parsed_toml


def read_config(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Make a TOML file's keys the defaults of the command's options; those that another command
    has are passed over, so that one file serves all.

    Raises ``UsageError`` for a file that is no TOML, an option that is none, one that is named
    twice and a value of another kind than the option's.
    """
    if path is None:
        return
    values = _read(path)
    options = {
        _long_name(each): each
        for each in ctx.command.params
        if isinstance(each, click.Option) and not each.is_eager  # which --config itself is
    }
    defaults: dict[str, Any] = {}
    named: set[str] = set()
    for key, value in values.items():
        name = key.replace("_", "-")
        if name not in OPTION_NAMES:
            raise UsageError(
                "config-option-unknown",
                f"{path} has an unknown option {shown(key)}",
                _way_out(name),
            )
        if name in named:
            raise UsageError(
                "config-option-twice",
                f"{path} names {key} twice, with _ and with -",
                "keep one of them",
            )
        named.add(name)
        option = options.get(name)
        if option is None or option.name is None:
            continue
        fits, wanted = _kind(option)
        if not fits(value):
            if isinstance(value, str) and "\0" in value:
                wanted = f"{wanted} without NUL"
            raise UsageError(
                "config-value-unfit",
                f"{path}: {key} is {shown(value)}, not {wanted}",
                f"give {wanted}",
            )
        alone = option.multiple and isinstance(value, str)
        defaults[option.name] = [value] if alone else value
    ctx.default_map = defaults


def _read(path: Path) -> Mapping[str, Any]:
    what = f"the config file {path}"
    raw = read_given(path, what, "check the path", most_bytes=MOST_TOML_BYTES, pipe=True)
    try:
        return parsed_toml(raw.decode())
    except ValueError as error:
        raise UsageError(
            "config-not-toml", f"{path} is not TOML ({error})", "mend that line"
        ) from None


def _way_out(name: str) -> str:
    from difflib import get_close_matches  # for a mistake alone: a start does without

    nearest = get_close_matches(name, sorted(OPTION_NAMES), n=1)
    return f"use {nearest[0]}" if nearest else "use the long option names of --help"


def _long_name(option: click.Option) -> str:
    return max(option.opts, key=len).lstrip("-")


def _kind(option: click.Option) -> tuple[Callable[[object], bool], str]:
    """Return what tells a value that the option takes, and how a person would call it.

    An option that has a reading of its own is given lists and numbers, too.
    """
    if option.multiple:
        return _is_text_or_texts, "a text or a list of texts"
    if option.is_flag:
        return _is_flag, "true or false"
    if isinstance(option.type, click.types.IntParamType):
        return _is_whole, "a whole number"
    if isinstance(option.type, click.types.FloatParamType):
        return _is_number, "a number"
    if option.name in _LISTS:
        return _LISTS[option.name]
    return _is_text, "a text"


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    """Whether it is a text that a command line could hold, which has no NUL."""
    return isinstance(value, str) and "\0" not in value


def _is_text_or_texts(value: object) -> bool:
    return _is_text(value) or (isinstance(value, list) and all(map(_is_text, value)))


def _is_whole_text_or_list(value: object) -> bool:
    one = _is_whole(value) or _is_text(value)
    return one or (isinstance(value, list) and all(map(_is_whole, value)))


def _is_whole_or_text(value: object) -> bool:
    return _is_whole(value) or _is_text(value)


def _is_number_text_or_list(value: object) -> bool:
    one = _is_number(value) or _is_text(value)
    return one or (isinstance(value, list) and all(map(_is_number, value)))


_LISTS: Mapping[str | None, tuple[Callable[[object], bool], str]] = {
    "concurrency": (_is_whole_text_or_list, "a whole number or a list of whole numbers"),
    "at": (_is_number_text_or_list, "a number or a list of numbers"),
    "workers": (_is_whole_or_text, 'a whole number or "auto"'),
}
"""Options whose text is read by the command itself, by name."""
