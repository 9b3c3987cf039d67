"""One table of options: what click parses, how help groups it and what a TOML file may hold.

Not for: what an option's value means; commands with options of their own declare those beside.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from agentx_replay.cli.values import (
    MOST_GPUS,
    MOST_LANES,
    MOST_STARTS,
    Levels,
    NamedPath,
    Note,
    Range,
    Real,
    Seconds,
    Speeds,
    Tag,
    Text,
    Tokens,
    Whole,
    Workers,
)
from agentx_replay.errors import UsageError, shown
from agentx_replay.given_files import read_given
from agentx_replay.scenario import MOST_TOML_BYTES, parsed_toml, rule_names

_MOST_COLUMNS = 26
"""Of an option's name; what is told of it stands on the right, or below a longer name."""
_EVERY_OPTION = "agentx_replay.every_option"
"""Key of a context in which rare options are shown."""
ALONE = ""
"""What ``--override`` without a value gives."""

COMMANDS = ("run", "sweep", "capacity", "plan", "check", "system", "report", "compare")
"""Those whose options the table has."""
_RUN = "run sweep capacity"
_PLAN = f"{_RUN} plan"
_SERVER = f"{_RUN} check"
_ASKED = f"{_SERVER} system"
_FILE: Any = {"type": NamedPath(path_type=Path, dir_okay=False), "metavar": "FILE"}
_MANY: Any = {"multiple": True}
_FLAG: Any = {"is_flag": True}


class Option(click.Option):
    """An option whose help says no bounds: they are far, and told to who passes them.

    ``--help`` leaves out one that is ``rare``, and what is told ``more`` of another.
    """

    def __init__(self, *arguments: Any, more: str = "", **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.rare = False
        self._more = more

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        more = self._more if record and ctx.meta.get(_EVERY_OPTION) else ""
        return (record[0], f"{record[1]} {more}") if record and more else record

    def get_help_extra(self, ctx: click.Context) -> Any:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra

    @property
    def long_name(self) -> str:
        return max(self.opts, key=len).lstrip("-")


def read_config(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Make a TOML file's keys the defaults of the command's options; those that another command
    has are passed over, so that one file serves all.

    Raises ``UsageError`` for a file that is no TOML, an unknown option, one that is named twice
    and a value of another kind than the option's.
    """
    if path is None:
        return
    options = {each.long_name: each for each in ctx.command.params if isinstance(each, Option)}
    defaults: dict[str, Any] = {}
    named: set[str] = set()
    for key, value in _read(path).items():
        name = key.replace("_", "-")
        if name not in OPTION_NAMES:
            raise UsageError(
                "config-option-unknown", f"{path} has an unknown option {shown(key)}", _near(name)
            )
        if name in named:
            raise UsageError(
                "config-option-twice",
                f"{path} names {key} twice, with _ and with -",
                "keep one of them",
            )
        named.add(name)
        if name in options:
            _check_kind(options[name], value, f"{path}: {key}")
            alone = options[name].multiple and isinstance(value, str)
            defaults[str(options[name].name)] = [value] if alone else value
    ctx.default_map = defaults


def _print_every_option(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        ctx.meta[_EVERY_OPTION] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _row(of: str, *names: str, **attributes: Any) -> tuple[frozenset[str], Option]:
    """Return an option and the commands that have it."""
    return frozenset(of.split()), Option(names, **attributes)


def _rare(of: str, *names: str, **attributes: Any) -> tuple[frozenset[str], Option]:
    """Return a row that ``--help-all`` alone shows."""
    commands, option = _row(of, *names, **attributes)
    option.rare = True
    return commands, option


_LEVELS: Any = {"type": Levels(), "metavar": "N,N,…"}
_TOKENS: Any = {"type": Tokens(), "metavar": "TOKENS"}
_SPEEDS: Any = {"type": Speeds(), "metavar": "SPEED,…"}
_AT = "Interactivities in tokens/s/user at which throughput is read off the curve"
_SCENARIO: Any = {"default": "quick", "metavar": "NAME"}
_SCENARIOS = "agentx, agentx-faithful, agentx-fast, fixed, quick, demo, or a .toml. Default: quick"

_TABLE = {
    "What is replayed": (
        _row("run", "-c", "--concurrency", type=Levels(single=True), default="8", metavar="N",
             show_default=True, help="Sessions alive at all times."),
        _row("sweep", "-c", "--concurrency", type=Levels(auto=True), metavar="N,N,…",
             help="Levels in this order, or auto: find those between which --at lies. "
             "Default: auto with --url, else 2,12,32."),
        _row("sweep", "--like", type=NamedPath(path_type=Path), metavar="RUN",
             help="Take the levels of another run."),
        _row("plan", "-c", "--concurrency", **_LEVELS, default="8", show_default=True,
             help="Levels, each planned on its own."),
        _row(_PLAN, "--traces", type=NamedPath(path_type=Path), metavar="PATH",
             help="Recorded sessions: a directory or file. Default: the bundled ones."),
        _row("run plan", "--scenario", **_SCENARIO, help=f"{_SCENARIOS}."),
        _row("sweep", "--scenario", **_SCENARIO, help=f"{_SCENARIOS}, "
             "and demo without --url, --concurrency and --override."),
        _row("capacity", "--scenario", metavar="NAME",
             help=f"{_SCENARIOS.removesuffix('quick')}agentx-fast."),
        _row(_PLAN, "--window", type=Seconds(0.001), metavar="DURATION",
             help="Measured time of a level, as in 60s or 1h."),
        _row(_PLAN, "--override", **_MANY, is_flag=False, flag_value=ALONE, metavar="RULE=VALUE",
             help="Change one rule; recorded, not comparable any more.",
             more="Bare: let --resume go on although something has changed. Rules: "
             f"{', '.join(rule_names())}."),
        _row(_RUN, "--max-context", **_TOKENS, help="Leave out sessions that need more. Default: "
             "what the server says it holds."),
        _row("plan", "--max-context", **_TOKENS,
             help="Leave out sessions that need more. Default: none."),
        _rare(_PLAN, "--max-context-policy", type=click.Choice(["session", "request"]),
              default="session", metavar="WHAT",
             help="Leave out each session or request that needs more. Default: session."),
        _rare(_PLAN, "--keep-one-of-duplicates", **_FLAG,
             help="Replay only one of each group of near-duplicate sessions."),
        _rare(f"{_PLAN} stats", "--skip-bad", **_FLAG,
             help="Leave out trace files that cannot be read."),
        _row("run sweep plan", "--starts", type=Whole(1, MOST_STARTS), metavar="K",
             help="Starts of each level, from other points of other sessions. Default: 1."),
        _row("capacity", "--starts", type=Whole(1, MOST_STARTS), metavar="K",
             help="Starts, from other points of other sessions. Default: 3."),
        _rare(_RUN, "--salt", type=Text(), metavar="TEXT",
             help="Same seed and salt: same bytes. Default: random."),
        _row("plan", "--lanes", **_FLAG, help="Also say what each lane plays, and from where."),
        _row("plan", "--simulate", **_FLAG,
             help="Play it in virtual time on the simulator, too."),
    ),
    "The objective": (
        _row(f"{_RUN} report compare", "--slo", **_MANY, type=Text(), metavar="OBJECTIVE",
             help="Bounds a level has to keep, as 'itl:p90<=33ms,ttft:p95<=5s'; repeatable as "
             "'NAME=…'. Metrics: itl, full-itl, ttft, e2e, speed, play, failed, cut, hit."),
        _row("capacity", "--from", "first", type=Whole(1, MOST_LANES), metavar="N",
             help="Level to begin with. Default: 8."),
        _row("capacity", "--range", "between", type=Range(), metavar="LOW,HIGH",
             help="Levels to stay between. Default: 1,512."),
        _row("capacity", "--budget", type=Seconds(0.001), metavar="DURATION",
             help="Begin no level that would not end within it, as in 4h."),
        _rare("capacity", "--no-early-stop", **_FLAG,
             help="Measure levels whole that clearly fail, too."),
    ),
    "The server": (
        _row(_RUN, "--url", **_MANY, metavar="URL", help="The server; repeat it for replicas of "
             "one. Default: the built-in simulator."),
        _row("check", "--url", **_MANY, metavar="URL",
             help="A server to look at; repeatable. Default: none."),
        _row(_SERVER, "--model", type=Text(), metavar="NAME",
             help="Default: the one the server lists."),
        _row(_ASKED, "--api-key-env", default="OPENAI_API_KEY", metavar="NAME",
             help="Variable of the API key. Default: OPENAI_API_KEY."),
        _rare(_SERVER, "--endpoint", type=click.Choice(["chat", "completions"]), default="chat",
             metavar="API", help="chat or completions. Default: chat."),
        _rare(_ASKED, "--header", **_MANY, metavar="NAME:VALUE", help="Send a header along."),
        _rare(_SERVER, "--body", metavar="JSON",
              help="Add to every body; null leaves a field out."),
        _rare(_RUN, "--session-headers", **_FLAG,
              help="Name each session in headers, for routers."),
        _rare(_ASKED, "--ca-file", **_FILE, help="Trust this certificate authority."),
        _rare(_ASKED, "--insecure", **_FLAG, help="Accept any certificate."),
        _rare(_RUN, "--keepalive", type=Seconds(), metavar="DURATION",
             help="Close connections idle for this long, as in 4s."),
        _rare(_RUN, "--timeout", type=Seconds(), metavar="DURATION",
             help="Give up on a response, after 6h at least. Default: never."),
        _rare(_SERVER, "--wait", type=Seconds(), default=10.0, metavar="DURATION",
             help="Wait for a server that refuses connections. Default: 10s."),
        _rare(_SERVER, "--timestamps", type=click.Choice(["auto", "kernel", "process"]),
             default="auto", metavar="WHO",
             help="kernel or process. Default: auto."),
        _rare(f"{_RUN} system", "--metrics-url", **_MANY, metavar="URL",
             help="Metrics page to record. Default: the server's."),
        _row(_RUN, "--anyway", **_FLAG, help="Measure even if no run can be valid."),
        _row(_RUN, "--virtual", **_FLAG, help="Replay in virtual time on a modelled engine."),
        _row(_RUN, "--gpus", type=Whole(1, MOST_GPUS), metavar="N",
             help="Total GPUs, for per-GPU throughput."),
    ),
    "The system": (
        _row(f"{_RUN} report", "--system", **_FILE,
             help="Facts of the system and its price, as TOML."),
        _row(f"{_RUN} report", "--fact", **_MANY, metavar="KEY=VALUE",
             help="One fact, as --fact hw=b300; repeatable."),
    ),
    "Prompts": (
        _rare(_RUN, "--tokenizer", **_FILE, help="Take one-token words from a tokenizer.json."),
        _rare(_RUN, "--calibration", **_FILE,
             help="Prove and use an earlier run's calibration.json."),
        _rare(f"{_PLAN} check", "--tool-messages", **_FLAG,
             help="Send answers as tool calls, and then their results."),
        _rare(_PLAN, "--live-history", **_FLAG,
             help="Feed what the server answers back into later prompts."),
    ),
    "This client": (
        _row("check", "--streams", default=64, show_default=True, type=Whole(1, 1024),
             help="Streams at once."),
        _row("check", "--rate", default=50.0, show_default=True, type=Real(1.0, 1000.0),
             metavar="TOK/S", help="Tokens per second of each stream."),
    ),
    "Running and reporting": (
        _row(_RUN, "--out", type=NamedPath(path_type=Path), metavar="DIR",
             help="Default: results/TIME."),
        _row(_RUN, "--note", type=Note(), metavar="TEXT", help="Put a note on record and page."),
        _row(_RUN, "--tag", **_MANY, type=Tag(), metavar="KEY=VALUE",
             help="Put a tag on record and page; repeatable."),
        _row("sweep capacity", "--resume", **_FLAG,
             help="Go on with the run in --out, by its options."),
        _row("sweep capacity", "--again", **_FLAG,
             help="With --resume: measure levels that are not valid again."),
        _row(_RUN, "--workers", type=Workers(), default="auto", metavar="N",
             help="Processes. Default: auto, one for 128 sessions."),
        _rare(_SERVER, "--ray", type=Text(), metavar="HOST:PORT",
             help="Play on the machines of this Ray cluster: docs/several-machines.md."),
        _rare("run sweep plan check", "--nodes", type=Whole(1, 1024), metavar="N",
             help="Client machines. Default: all of the cluster that are fit."),
        _rare(_SERVER, "--insecure-ray", **_FLAG,
             help="Allow a Ray cluster without a token, and the API key to go there in clear."),
        _row(_RUN, "--at", default="30,50,150", show_default=True, **_SPEEDS,
             help=f"{_AT}."),
        _row("report", "--at", **_SPEEDS, help=f"{_AT}. Default: as the run was asked for."),
        _row("compare", "--at", **_SPEEDS,
             help=f"{_AT}. Default: as the first run was asked for."),
        _row("report compare", "--csv", "as_csv", **_FLAG, help="Print CSV and nothing else."),
        _row(f"{_PLAN} check report compare stats", "--json", "as_json", **_FLAG,
             help="Print one JSON object and nothing else."),
        _row(f"{_PLAN} check", "--config", **_FILE, callback=read_config, is_eager=True,
             expose_value=False, help="Read options from a TOML file; the command line wins."),
        _row(f"{_PLAN} check system", "--help-all", **_FLAG, callback=_print_every_option,
             is_eager=True, expose_value=False, help="Show every option, rare ones too."),
    ),
}  # fmt: skip
"""Options by the title of their group: of each the commands that have it."""

OPTION_NAMES = frozenset(
    option.long_name
    for rows in _TABLE.values()
    for of, option in rows
    if of & {"run", "sweep", "capacity", "plan", "check"}
    and option.long_name not in ("config", "help-all")
)
"""The options that a config file may name, whichever of these commands reads it."""


def options_of(command: str) -> list[click.Parameter]:
    """Return the table's options of a command, for click's ``params``."""
    return [option for rows in _TABLE.values() for of, option in rows if command in of]


def _names_of(command: str) -> set[str]:
    return {name for option in options_of(command) for name in option.opts}


class GroupedCommand(click.Command):
    """A command whose help groups its options as the table does, its own before."""

    def invoke(self, ctx: click.Context) -> Any:
        """Refuse two forms of one output."""
        if ctx.params.get("as_json") and ctx.params.get("as_csv"):
            raise UsageError(
                "json-with-csv",
                "--json and --csv are two forms of one output",
                "leave one of them out",
            )
        return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name the commands that have an option which this one lacks."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            commands = [name for name in COMMANDS if error.option_name in _names_of(name)]
            if not commands:
                raise
            raise UsageError(
                "option-of-another-command",
                f"{ctx.info_name} has no {error.option_name}",
                f"leave it out: it is an option of {', '.join(commands)}",
            ) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups that have any option of this command; ``--help`` ends the last."""
        *own, about_help = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        group_of: dict[click.Option, str] = {
            option: title for title, rows in _TABLE.items() for _, option in rows
        }
        groups: dict[str, list[click.Option]] = {title: [] for title in ("Options", *_TABLE)}
        for each in own:
            if ctx.meta.get(_EVERY_OPTION) or not getattr(each, "rare", False):
                groups[group_of.get(each, "Options")].append(each)
        sections = [(title, options) for title, options in groups.items() if options]
        sections[-1][1].append(about_help)
        for title, options in sections:
            records = [each.get_help_record(ctx) for each in options]
            with formatter.section(title):
                formatter.write_dl([each for each in records if each is not None], _MOST_COLUMNS)


def _read(path: Path) -> Mapping[str, Any]:
    what = f"the config file {path}"
    raw = read_given(path, what, "check the path", most_bytes=MOST_TOML_BYTES, pipe=True)
    try:
        return parsed_toml(raw.decode())
    except ValueError as error:
        raise UsageError("config-not-toml", f"{path}: invalid TOML: {error}", "mend it") from None


def _near(name: str) -> str:
    from difflib import get_close_matches  # for a mistake alone: a start does without

    nearest = get_close_matches(name, sorted(OPTION_NAMES), n=1)
    return f"use {nearest[0]}" if nearest else "use the long option names of --help"


def _check_kind(option: Option, value: object, where: str) -> None:
    """Raise ``UsageError`` for a value of a TOML file that is of no kind the option takes."""
    plain: tuple[type, ...] = getattr(option.type, "plain", (str,))
    listed: tuple[type, ...] = getattr(option.type, "listed", ())
    wanted: str = getattr(option.type, "wanted", "a text")
    if option.multiple:
        listed, wanted = (str,), "a text or a list of texts"
    elif option.is_flag:
        plain, wanted = (bool,), "true or false"
    values, kinds = (value, listed) if listed and isinstance(value, list) else ([value], plain)
    if all(type(each) in kinds for each in values):
        if "\0" not in str(value):
            return
        wanted = f"{wanted} without NUL"  # a command line could not hold it either
    raise UsageError(
        "config-value-unfit", f"{where} is {shown(value)}, not {wanted}", f"give {wanted}"
    )
