"""What happened to events between server and client, on the page: what somebody gathered, and
tokens that no event showed.
"""

from agentx_replay.analysis.findings import MAX_ITL_ERROR
from agentx_replay.analysis.itl_error import ItlError
from agentx_replay.analysis.run import Run
from agentx_replay.report.numerals import ABSENT
from agentx_replay.report.page_text import paragraphs, table


def arrivals_section(run: Run) -> str:
    """Return by how much this may have moved the latencies of each level; nothing if no window
    opened.
    """
    rows = [
        [point.name, *_cells(point.summary.itl_error)]
        for point in run.points
        if point.summary is not None
    ]
    if not rows:
        return ""
    heads = (
        "concurrency", "responses in one read", "responses gathered", "most events in a read",
        "P90 ITL could move by", "P90 TTFT could be shorter by", "range of the P90 ITL",
    )  # fmt: skip
    text = (
        "Gathered: somebody between server and client brought several events in one read. Range: "
        "by tokens that no event showed. A point is not valid where one of the last three is over "
        f"{MAX_ITL_ERROR:.1%}."
    )
    return f"<h3>On the way</h3>{table(heads, rows)}{paragraphs([text], 'small')}"


def _cells(of: ItlError) -> list[str]:
    shares = (of.gathered_error, of.ttft_error, of.unshown_range)
    return [
        str(of.in_one_arrival),
        str(of.gathered),
        str(of.most_events or ABSENT),
        *(ABSENT if share is None else f"{share:.1%}" for share in shares),
    ]
