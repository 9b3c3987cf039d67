"""The page, read as text and opened in a real browser."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from chromium import CHROMIUM, Browser, browser
from golden_files import Goldens, text_of_page
from made_runs import Level, make_run, write_instrument
from record_cases import SECOND, server_rows, write_rows

from agentx_replay.replay.ports import Status
from agentx_replay.report.rebuild import Report
from agentx_replay.results.layout import Measurement, point_directory
from agentx_replay.results.schema import SERVER

EVIL = "</script><script>alert(1)</script><img src=http://127.0.0.1:1/x onerror=alert(2)>"
LEVELS = (Level(12, 160.0, 1500.0), Level(16, 60.0, 6000.0), Level(20, 40.0, 9000.0))

# A figure is drawn where its SVG has a size and something beside the grid has a path.
DRAWN = """
[...document.querySelectorAll('figure')].filter(f => f.offsetParent !== null).map(f => {
  const svg = f.querySelector('svg').getBoundingClientRect();
  const paths = [...f.querySelectorAll('svg path:not(.grid):not(.fill)')];
  const shown = paths.filter(p => p.getAttribute('d') && getComputedStyle(p).stroke !== 'none');
  return [f.querySelector('h4').textContent, svg.width > 100 && svg.height > 10, shown.length > 0];
})
"""
SMALLEST_TEXT_PX = """
Math.min(...[...document.querySelectorAll('main *')]
  .filter(e => e.offsetParent !== null && e.childElementCount === 0 && e.textContent.trim())
  .map(e => parseFloat(getComputedStyle(e).fontSize)))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything a page can show, and hostile texts where a server or trace has them."""
    path = make_run(
        tmp_path_factory.mktemp("page") / "run",
        [*LEVELS[:2], Level(20, 40.0, 9000.0, session=lambda lane: f"{EVIL}{lane}")],
        target={"kind": "server", "url": "http://127.0.0.1:8000/v1", "model": EVIL},
        corpus=EVIL,
        command=[EVIL],
        calibration={"source": "usage", "words": 1024, "cost": {"assistant": 4}},
    )
    for level in LEVELS:
        point = point_directory(path, Measurement(level.concurrency))
        lag = [(level.concurrency, 0, s * SECOND, 200_000, s * SECOND // 10) for s in range(100)]
        write_instrument(point, lag)
        write_rows(point, SERVER, server_rows(_scrapes()), Measurement(level.concurrency))
    return path


def _scrapes() -> Iterator[tuple[str, int, list[str]]]:
    for second in range(101):
        lines = [
            f'vllm:num_requests_running{{m="{EVIL}"}} {second % 7}',
            "vllm:num_requests_waiting 1",
            "vllm:kv_cache_usage_perc 0.5",
            f"vllm:num_preemptions_total {second // 50}",
            f"vllm:prefix_cache_queries_total {second * 1000}",
            f"vllm:prefix_cache_hits_total {second * 900}",
            f"vllm:spec_decode_num_drafts_total {second * 100}",
            f"vllm:spec_decode_num_draft_tokens_total {second * 400}",
            f"vllm:spec_decode_num_accepted_tokens_total {second * 236}",
            *(
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{k}"}} {second * n}'
                for k, n in enumerate((80, 66, 54, 36))
            ),
        ]
        yield "http://127.0.0.1:8000/metrics", second * SECOND, lines


@pytest.fixture(scope="module")
def page(made: Path) -> Path:
    return Report.of(made, (50.0, 150.0, 500.0)).write()


def test_the_page_has_every_part(page: Path, goldens: Goldens) -> None:
    """Its headings, the titles of its figures, and what the curve's legend says."""
    figures = re.findall(r"<h4>([^<]*)</h4>", page.read_text())
    assert len(figures) == 5 + 5 * len(LEVELS)
    headings = re.findall(r"<(h[234])>([^<]*)</", page.read_text())
    lines = [f"{level} {title}" for level, title in headings]
    lines += [f"legend {said}" for said in legend(page)]
    goldens.check_text("words/page-headings", "\n".join(lines) + "\n")


def test_what_came_from_a_server_or_a_trace_stays_text(page: Path) -> None:
    html = page.read_text()
    assert "&lt;script&gt;" in html
    for tag in ("<script", "<img", "<link", "<iframe", "<object", "url("):
        assert tag not in html.lower()


def test_a_target_that_is_not_reached_is_said_and_nothing_is_extrapolated(page: Path) -> None:
    cards = r">at (\d+) [^<]*</p>\s*<p class=\"number\">([^<]*)<"
    numbers = dict(re.findall(cards, page.read_text()))
    assert numbers["500"] == "every level is slower"
    # Half-way between 60 and 40: (6,000 + 9,000) / 2.
    assert numbers["50"] == "7,500 "


def test_speculative_decoding_shows_tokens_a_cycle_and_what_one_more_draft_may_cost(
    page: Path,
) -> None:
    section = page.read_text().split("<h2>Speculative decoding</h2>")[1].split("</table>")[0]
    rows = [re.findall(r"<t[dh][^>]*>([^<]*)<", row) for row in section.split("<tr>")[1:]]
    # The published case: 3 drafts commit 3.00 tokens a cycle, 4 commit 3.36, so the fourth pays
    # while the cycle grows by less than 12 %; a fifth at most for 0.36 / 3.36.
    # Every response made here has its 101 tokens in three events.
    shown = ["33.67", "4.00", "3.36", "80 66 54 36", "+12.0% cycle time", "+10.7% cycle time"]
    assert rows[1:] == [[concurrency, *shown] for concurrency in ("12", "16", "20")]


def test_memory_in_use_is_said_in_a_number_too(page: Path) -> None:
    assert re.search(r" 50\.0% [^<]*\. 2 requests preempted ", page.read_text())


def test_client_and_server_are_looked_at_together_where_the_server_tells(page: Path) -> None:
    assert "Averages over time." not in page.read_text()


def test_without_the_servers_metrics_the_client_is_averaged_over_time(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", [Level(4, 50.0, 100.0)])
    html = Report.of(path, (50.0,)).write().read_text()
    assert "Averages over time." in html
    assert "counters move" not in html


def legend(page: Path) -> list[str]:
    curve = page.read_text().split("<h2>Curve</h2>")[1].split("</figure>")[0]
    return re.findall(r"<li><i class=\"[^\"]*\"></i>([^<]*)</li>", curve)


def test_the_curves_legend_has_what_is_drawn_and_no_more(
    page: Path, tmp_path: Path, goldens: Goldens
) -> None:
    of_one = legend(page)
    assert len(of_one) == 3
    # Two levels, since one reaches no target but its own speed.
    two = make_run(
        tmp_path / "r",
        [Level(k, 240.0 / k, 100.0 * k, start=n) for n in (1, 2) for k in (4, 8)],
    )
    of_two = legend(Report.of(two, (50.0,)).write())
    assert [said for said in of_two if said in of_one] == of_one
    goldens.check_text("words/page-legend", "\n".join(of_two) + "\n")


def test_a_levels_name_leaves_the_line_of_a_target_beside_it_free(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", [Level(4, 60.0, 100.0), Level(8, 30.0, 200.0)])
    html = Report.of(path, (31.0,)).write().read_text()
    names = re.findall(r'<span class="label([^"]*)" style="[^"]*">(4|8)</span>', html)
    assert [(style.strip(), name) for style, name in names[:2]] == [("flip", "4"), ("flip", "8")]


def test_a_level_that_is_not_valid_is_seen_with_its_reason_and_in_no_interpolation(
    tmp_path: Path,
) -> None:
    bad = Level(64, 20.0, 20_000.0, status=Status.LENGTH_MISMATCH)
    path = Report.of(make_run(tmp_path / "r", [*LEVELS, bad]), (30.0,)).write()
    curve = path.read_text().split("<h2>Curve</h2>")[1].split("</figure>")[0]
    assert curve.count('class="dot ring"') == 1
    assert ">64: not valid</span>" in curve
    assert "<title>64 agents: not valid: 64 of 64 requests" in curve
    assert len([said for said in legend(path) if said.startswith("not valid")]) == 1
    assert " at 30 tok/s/user" not in curve  # 20 is not valid, so 40 is the slowest


def test_the_picture_of_the_curve_is_there_as_a_file(page: Path) -> None:
    (picture,) = re.findall(r'download="curve.svg" href="data:image/svg\+xml,([^"]*)"',
                            page.read_text())  # fmt: skip
    root = ElementTree.fromstring(unquote(picture))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "16" in [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_load_tells_what_prompts_were_made_of(page: Path) -> None:
    (told,) = re.findall(r">Prompts, as calibrated</th><td>([^<]*)</td>", page.read_text())
    assert told == "Source usage; words 1,024; cost assistant 4"


def test_a_run_without_a_success_has_a_page_that_says_so(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", [Level(4, 50.0, 100.0, status=Status.FAILED)])
    html = Report.of(path, (50.0,)).write().read_text()
    assert "0 of 1 level valid" in html
    findings = Report.of(path, (50.0,)).plain()["points"][0]["findings"]
    (failed,) = [each["text"] for each in findings if each["code"] == "requests-failed"]
    assert f"4 agents: not valid: {failed}" in html


def test_a_run_that_measured_nothing_says_so_in_every_part(
    tmp_path: Path, goldens: Goldens
) -> None:
    path = make_run(tmp_path / "r", [Level(4, 50.0, 100.0, failure="warm-up failed: refused")])
    page = text_of_page(Report.of(path, (50.0,)).write().read_text())
    goldens.check_text("words/page-nothing", page.replace(str(tmp_path), "PLACE"))


def test_a_card_read_off_few_responses_bears_the_warning(page: Path) -> None:
    cards = [part.split("</div>")[0] for part in page.read_text().split('<div class="card')[2:5]]
    # 50 is read off 16 and 20 agents, 150 off 12 and 16, 500 off nothing.
    found = [re.findall(r"warnings on ([^<]*)<", card) for card in cards]
    assert found == [["16, 20 agents"], ["12, 16 agents"], []]
    assert "! see the warnings</span>" in page.read_text()


def test_a_token_itl_not_to_be_trusted_is_marked_where_it_stands(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", LEVELS)
    # Lag of 20 ms throughout; P90 ITL of 16 lanes is 16.7 ms, of 12 and 20 lanes no samples.
    late = [(16, 0, s * SECOND, 20_000_000, s * SECOND // 10) for s in range(100)]
    write_instrument(point_directory(path, Measurement(16)), late)
    html = Report.of(path, (50.0,)).write().read_text()
    figure = html.split("<h4>Token ITL</h4>")[1].split("</figure>")[0]
    assert "~16 agents" in figure
    assert "~12 agents" not in figure
    assert "Dashed and marked ~" in figure
    assert "NO (~)" in html
    assert "~: 16 agents: " in html


def test_sessions_played_are_counted_from_what_was_sent(tmp_path: Path) -> None:
    level = Level(6, 50.0, 100.0, session=lambda lane: f"session-{lane % 4}")
    html = Report.of(make_run(tmp_path / "r", [level]), (50.0,)).write().read_text()
    assert "<td>6: 4</td>" in html


STARTS = tuple(
    Level(level, speed, 1000.0, start=start)
    for level, speed in ((8, 62.0), (12, 60.0), (1024, 20.0))
    for start in (1, 2, 3)
)


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of three starts of three levels."""
    run = make_run(tmp_path_factory.mktemp("starts") / "run", STARTS)
    return Report.of(run, (50.0,)).write()


def test_a_latencys_lines_are_all_in_its_legend_and_bear_a_levels_name_once(starts: Path) -> None:
    html = starts.read_text()
    figure = html.split("<h4>Response ITL</h4>")[1].split("</figure>")[0]
    lines = re.findall(r"<li><i class=\"ramp [^\"]*\"></i>([^<]*)</li>", figure)
    assert lines == [
        f"{level} agents{start}" for level in ("8", "12", "1024")
        for start in ("", ", start 2", ", start 3")
    ]  # fmt: skip
    # 8 lanes end where 12 do, within a few pixels: the higher level's name stands.
    labels = re.findall(r'<span class="label[^>]*>([^<]*)<', figure)
    assert labels == ["1024", "12"]


# --- in a browser --------------------------------------------------------------------------------

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Run a coroutine in the loop in which the browser is."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="module")
def tab(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> Iterator[Browser]:
    opened = browser()
    yield run(opened.__aenter__())
    run(opened.__aexit__(None, None, None))


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_opens_whole_silent_and_alone(
    page: Path, tab: Browser, run: Callable[..., None], width: int, dark: bool
) -> None:
    async def main() -> None:
        await tab.open(page, width, dark=dark)
        figures = 0
        for number in range(len(LEVELS)):
            await tab.evaluate(f"document.getElementById('level-{number}').click()")
            drawn = await tab.evaluate(DRAWN)
            figures = len(drawn)
            assert [title for title, sized, shown in drawn if not (sized and shown)] == []
        assert figures == 10  # the curve, four latencies, five of the level that is shown
        assert await tab.evaluate("document.documentElement.scrollWidth") == width
        assert await tab.evaluate(SMALLEST_TEXT_PX) >= 11
        background = await tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(20, 22, 26)") == dark
        assert tab.errors == []
        assert tab.requests == [page.resolve().as_uri()]

    run(main())


OUT_OF_THEIR_CARD = """
[...document.querySelectorAll('figure .label')].filter(e => e.offsetParent !== null)
  .filter(e => e.getBoundingClientRect().right > e.closest('figure').getBoundingClientRect().right)
  .map(e => e.textContent)
"""


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
def test_a_levels_name_stays_in_its_card(
    starts: Path, tab: Browser, run: Callable[..., None], width: int
) -> None:
    async def main() -> None:
        await tab.open(starts, width, dark=False)
        assert await tab.evaluate("document.querySelectorAll('figure .label').length") > 3
        assert await tab.evaluate(OUT_OF_THEIR_CARD) == []

    run(main())


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_a_wide_table_has_a_shadow_where_it_goes_on(
    page: Path, tab: Browser, run: Callable[..., None], dark: bool
) -> None:
    async def main() -> None:
        await tab.open(page, 390, dark=dark)
        await tab.evaluate(
            "table = [...document.querySelectorAll('.scroll')]"
            ".find(each => each.scrollWidth > each.clientWidth)"
        )
        await tab.evaluate("table.firstChild.style.visibility = 'hidden'")
        box = await tab.evaluate("table.getBoundingClientRect().toJSON()")
        height = await tab.evaluate("scrollY") + box["y"]

        async def strip(x: float) -> object:
            clip = {"x": x, "y": height, "width": 4, "height": 40, "scale": 1}
            told = await tab.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
            return told["data"]

        left, right = box["x"], box["x"] + box["width"] - 4
        plain = await strip(left + box["width"] / 2)
        assert await strip(left) == plain
        assert await strip(right) != plain
        await tab.evaluate("table.scrollLeft = table.scrollWidth")
        assert await strip(left) != plain
        assert await strip(right) == plain

    run(main())


def test_the_page_says_what_happened_to_events_on_their_way(page: Path) -> None:
    said = text_of_page(page.read_text())
    assert "| P90 ITL could move by | P90 TTFT could be shorter by | range of the P90 ITL" in said
    assert "| 12 | 0 | 0 | - | 0.0% | 0.0% | 0.0%" in said
