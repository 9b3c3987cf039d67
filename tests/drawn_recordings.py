"""Recordings drawn at random: a request is its input tokens, its output tokens and its blocks, a
letter each.
"""

from hypothesis import strategies as st

Line = tuple[int, int, str]


@st.composite
def recordings(draw: st.DrawFn) -> list[Line]:
    """Return requests that grow, cut back, fork, repeat, start again and share nothing."""
    lines: list[Line] = []
    letter = iter(range(0x100, 0x1000))
    for _ in range(draw(st.integers(1, 8))):
        base = draw(st.sampled_from([line[2] for line in lines] + [""]))
        kept = draw(st.one_of(st.just(len(base)), st.integers(0, len(base))))
        grown = base[:kept] + "".join(chr(next(letter)) for _ in range(draw(st.integers(0, 4))))
        missing = draw(st.sampled_from([0, 0, 0, 2]))
        partial = draw(st.integers(0, 63))
        tokens = max(1, 64 * (len(grown) + missing) + partial)
        lines.append((tokens, draw(st.integers(0, 300)), grown))
        if draw(st.booleans()):
            lines.append(lines[-1])
    return lines


SYSTEM_TOKENS = st.sampled_from([0, 64, 130, 200])
