"""The levels of a sweep that have no point to show, and why: nothing that was asked goes unsaid."""

from agentx_replay.analysis.findings import Kind
from agentx_replay.analysis.run import Run
from agentx_replay.report.numerals import agents
from agentx_replay.results.layout import Measurement, measurement_of, point_file
from agentx_replay.results.resume_command import resume_command, typed_again

_NOT_BEGUN = "not begun"


def unmeasured(run: Run) -> dict[Measurement, str]:
    """Return why each level that was asked for, or has a directory, has no point, or none that can
    be read; by level and start.
    """
    shown = {point.measurement for point in run.points}
    found = {
        of: f"{directory.name} has no {point_file(directory).name}"
        for directory in run.path.glob("c*")
        if directory.is_dir() and (of := measurement_of(directory)) is not None
    }
    missing = {of: found.get(of, _NOT_BEGUN) for of in (_asked(run) | found.keys()) - shown}
    return dict(sorted({**missing, **run.refused}.items()))


def _asked(run: Run) -> set[Measurement]:
    """Return what ``sweep.json`` says was to be measured."""
    return {
        Measurement(level, start)
        for level in run.sweep.get("levels", [])
        for start in range(1, run.sweep.get("starts", 1) + 1)
    }


def left_out(run: Run) -> dict[Measurement, str]:
    """Return why each level, or start of one, is on no curve: it was not measured, or it is not
    valid.
    """
    invalid = {
        point.measurement: "; ".join(point.texts(Kind.INVALID))
        for point in run.points
        if not point.valid
    }
    return dict(sorted({**unmeasured(run), **invalid}.items()))


def unmeasured_lines(run: Run) -> list[str]:
    """Return what to say of them: levels not begun in one line, each other one in its own.

    Where that is the last line, ``go_on_lines`` has what it announces.
    """
    missing = unmeasured(run)
    not_begun = [level for level, why in missing.items() if why == _NOT_BEGUN]
    lines = [
        f"{agents([level])}: cannot be measured: {why}"
        if level in run.refused
        else f"{agents([level])}: missing: {why}, so its records are in no table"
        for level, why in missing.items()
        if why != _NOT_BEGUN
    ]
    if not_begun:
        lines.append(f"not measured: {agents(not_begun)}; this goes on{typed_again(run.sweep)}:")
    return lines


def go_on_lines(run: Run) -> list[str]:
    """Return the command that measures the levels not begun, to be copied: a line not wrapped."""
    return [_command(run)] if _NOT_BEGUN in unmeasured(run).values() else []


def _command(run: Run) -> str:
    return resume_command(run.path)
