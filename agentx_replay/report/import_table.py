"""What an import wrote, assumed and left out, as sections and as plain values."""

from dataclasses import asdict

from agentx_replay.report.tables import Section
from agentx_replay.text_format import counted
from agentx_replay.traces.importing.importing import Import


def import_dict(done: Import, out: str) -> dict[str, object]:
    return {
        "out": out,
        "formats": [{"name": each.name, "tried": each.tried} for each in done.formats],
        **asdict(done.totals),
        "reuse": done.totals.reuse,
        "facts": dict(done.notes.facts),
        "assumed": dict(done.notes.assumed),
        "left_out": dict(done.ledger.left_out),
        "refused": done.ledger.refused,
        "remarks": done.ledger.remarks,
    }


def import_sections(done: Import, out: str) -> list[Section]:
    """Return totals, what was assumed, what was left out, and what such logs cannot hold."""
    totals, ledger = done.totals, done.ledger
    facts = [
        ("sessions", f"{totals.sessions:,}"),
        ("requests", f"{totals.requests:,}"),
        ("subagents", f"{totals.subagents:,}"),
        ("input tokens", f"{totals.input_tokens:,}"),
        ("output tokens", f"{totals.output_tokens:,}"),
        ("reuse within sessions", f"{totals.reuse:.2%} of whole blocks"),
        *((name, f"{number:,}") for name, number in done.notes.facts.items()),
    ]
    left_out = [
        f"{number:,} × {what}" + (f", first {ledger.places[what]}" if what in ledger.places else "")
        for what, number in ledger.left_out.items()
    ]
    formats = ", ".join(
        each.name if each.tried else f"{each.name} (not tried on a real file)"
        for each in done.formats
    )
    return [
        Section(f"{out}: {counted(totals.sessions, 'session')} from {formats}", facts=facts),
        Section("Assumed", reasons=[f"{n:,} × {what}" for what, n in done.notes.assumed.items()]),
        Section("Mind", reasons=ledger.remarks),
        Section("Left out", reasons=[*left_out, *ledger.refused]),
        Section(
            "Not in such logs",
            facts=[(each.name, each.absent) for each in done.formats if each.absent],
        ),
    ]
