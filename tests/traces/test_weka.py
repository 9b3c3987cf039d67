"""How one session's JSON is read: fields, dialects, and what is refused with which words."""

from typing import Any

import orjson
import pytest
from refusals import refuses

from agentx_replay.traces.model import RecordedRequest, Session, Subagent
from agentx_replay.traces.weka import read_session


def request(t: float = 0.0, tokens: int = 192, ids: Any = (1, 2, 3), **more: Any) -> dict[str, Any]:
    ids = list(ids) if isinstance(ids, tuple) else ids
    return {"t": t, "type": "s", "model": "m", "in": tokens, "out": 5, "hash_ids": ids, **more}


def marker(t: float, requests: list[Any], **more: Any) -> dict[str, Any]:
    head = {"t": t, "type": "subagent", "agent_id": "a", "status": "completed", "duration_ms": 4000}
    return {**head, "requests": requests, **more}


def session(requests: Any, **more: Any) -> dict[str, Any]:
    head = {"id": "s", "models": ["m"], "block_size": 64, "hash_id_scope": "local"}
    return {**head, "requests": requests, **more}


def read(value: Any) -> Session:
    return read_session(orjson.dumps(value), "t.json")


def refusal(value: Any) -> str:
    with refuses("trace-malformed") as error:
        read(value)
    assert "--skip-bad" in error.value.what_to_do
    return error.value.what


def blocks(session: Session) -> list[tuple[int, int, list[int]]]:
    """Return (known, first new, path) of each request, by index."""
    return [
        (r.known_blocks, r.first_new_block, session.blocks.path(r.tip_block).tolist())
        for r in session.requests()
    ]


def subagents(session: Session) -> list[Subagent]:
    return [entry for entry in session.entries if isinstance(entry, Subagent)]


def test_a_request_is_read_field_by_field() -> None:
    recorded = read(session([request(2.5, 200, api_time=1.25, think_time=0.75)])).entries[0]
    assert recorded == RecordedRequest(
        index=0,
        recorded_order=0,
        t_s=2.5,
        start_s=2.5,
        duration_s=1.25,
        think_time_s=0.75,
        model="m",
        input_tokens=200,
        output_tokens=5,
        tip_block=2,
        block_count=3,
        known_blocks=0,
        first_new_block=0,
    )


def test_a_prompt_that_grows_stores_only_its_new_blocks() -> None:
    found = read(session([request(0, 192), request(1, 320, (1, 2, 3, 4, 5))]))
    assert blocks(found) == [(0, 0, [0, 1, 2]), (3, 3, [0, 1, 2, 3, 4])]
    assert len(found.blocks) == 5


def test_ids_may_start_at_zero_be_sparse_and_in_any_order() -> None:
    found = read(session([request(0, 192, (9000, 0, 7)), request(1, 192, (9000, 0, 3))]))
    assert blocks(found) == [(0, 0, [0, 1, 2]), (2, 3, [0, 1, 3])]


@pytest.mark.parametrize("scope", ["global", "local", None])
def test_an_id_after_other_blocks_is_another_block_whatever_the_scope(scope: str | None) -> None:
    # 2 stands after 1 in the first prompt and first in the second: the same id, two blocks.
    prompts = [request(0, 128, (1, 2)), request(1, 128, (2, 1))]
    found = read(session(prompts, hash_id_scope=scope))
    assert blocks(found) == [(0, 0, [0, 1]), (0, 2, [2, 3])]


@pytest.mark.parametrize(
    ("tokens", "ids", "short"),
    [
        (200, (1, 2, 3), 0),  # in // 64
        (200, (1, 2, 3, 4), 0),  # ceil(in / 64)
        (256, (1, 2, 3, 4), 0),  # in == 64 · len
        (200, (1, 2), 1),
        (200, (), 1),
        (200, None, 1),
        (63, (), 0),
    ],
)
def test_every_recorded_length_of_the_id_list_is_accepted(
    tokens: int, ids: tuple[int, ...] | None, short: int
) -> None:
    found = read(session([request(0, tokens, ids)]))
    assert found.requests()[0].block_count == len(ids or ())
    assert found.notes.short_block_lists == short


def test_blocks_enter_in_recorded_order_and_then_by_place_in_the_file() -> None:
    found = read(session([request(9, 192, (1, 2, 3)), request(1, 128, (1, 2))]))
    assert [r.recorded_order for r in found.requests()] == [1, 0]
    assert blocks(found) == [(2, 2, [0, 1, 2]), (0, 0, [0, 1])]
    together = read(session([request(1, 64, (1,)), request(1, 64, (2,))]))
    assert blocks(together) == [(0, 0, [0]), (0, 1, [1])]


def test_april_dialect_relative_inner_times_and_a_marker_at_the_completion() -> None:
    # The subagent ran from 20 - 4 = 16 s to 20 s; its inner times count from 16 s.
    found = read(
        session(
            [
                request(0, 320, (1, 2, 3, 4, 5), api_time=3.0),
                marker(20, [request(0, 128, (6, 7)), request(2.5, 192, (6, 7, 8))]),
                request(21, 384, (1, 2, 3, 4, 5, 9)),
            ],
            tool_tokens=100,
            system_tokens=28,
        )
    )
    [agent] = subagents(found)
    assert (agent.marker_t_s, agent.marker_is_completion, agent.spawn_s) == (20.0, True, 16.0)
    assert [r.start_s for r in found.requests()] == [0.0, 16.0, 18.5, 21.0]
    assert [r.t_s for r in found.requests()] == [0.0, 0.0, 2.5, 21.0]
    assert [r.known_blocks for r in found.requests()] == [0, 0, 2, 5]
    assert (found.tool_tokens, found.system_tokens) == (100, 28)
    assert found.notes.relative_inner_times


def test_june_dialect_absolute_inner_times_and_a_marker_at_the_spawn() -> None:
    found = read(
        session(
            [
                request(0, 128, (0, 1)),
                marker(6, [request(6.2, 128, (0, 2))]),
                request(16, 192, (0, 1, 3)),
            ]
        )
    )
    [agent] = subagents(found)
    assert (agent.marker_is_completion, agent.spawn_s, agent.duration_s) == (False, 6.0, 4.0)
    assert [r.start_s for r in found.requests()] == [0.0, 6.2, 16.0]
    assert (found.tool_tokens, found.system_tokens) == (0, 0)
    assert not found.notes.relative_inner_times


def test_an_asynchronous_launch_starts_at_its_marker() -> None:
    agent = marker(8, [request(0), request(3)], status="async_launched", duration_ms=None)
    found = read(session([request(0), agent]))
    [launched] = subagents(found)
    assert (launched.spawn_s, launched.duration_s, launched.status) == (8.0, None, "async_launched")
    assert [r.start_s for r in found.requests()] == [0.0, 8.0, 11.0]


def test_a_marker_without_requests_is_kept() -> None:
    [agent] = subagents(read(session([request(0), marker(8, [])])))
    assert agent.requests == ()


@pytest.mark.parametrize("nothing", [None, "", []])
def test_a_number_that_is_not_known_is_none_and_a_missing_duration_counted(nothing: Any) -> None:
    found = read(session([request(api_time=nothing, think_time=nothing), request(1, api_time=2)]))
    assert [r.duration_s for r in found.requests()] == [None, 2.0]
    assert found.requests()[0].think_time_s is None
    assert found.notes.missing_durations == 1


def test_negative_gaps_and_empty_outputs_are_counted() -> None:
    # The second starts 3 s before the first has ended; the third just as the second ends.
    found = read(
        session([request(0, api_time=5), request(2, api_time=1), {**request(3), "out": 0}])
    )
    assert (found.notes.negative_gaps, found.notes.zero_outputs) == (1, 1)


def test_unknown_keys_are_ignored_and_counted() -> None:
    inner = request(0, colour=1)
    found = read(session([request(colour=1, stop=""), marker(9, [inner], size=2)], author="x"))
    assert found.notes.unknown_keys == (("author", 1), ("request.colour", 2), ("subagent.size", 1))


def test_known_keys_that_a_replay_does_not_need_may_hold_anything() -> None:
    odd = request(input_types=[], output_types=None, stop="", ttft="?", type="?")
    assert read(session([odd], totals=None, models=[])).notes.unknown_keys == ()


def test_layout_of_the_json_makes_no_difference() -> None:
    text = b"""
    { "requests" : [ {"hash_ids" :\t[ 1 , 2,3 ] , "t":0, "in":192, "out":5, "model":"m"},
                     {"hash_ids":[1,2,3,\n4], "t":1, "in":256, "out":5, "model":"m"},
                     {"hash_ids":[ ], "t":2, "in":5, "out":5, "model":"m"} ],
      "note": "an escaped \\"hash_ids\\": [7, 8] inside a string, and \\"hash_ids",
      "block_size": 64, "id": "s" }"""
    found = read_session(text, "t.json")
    # By text alone the second shares "1" with the first; the trie knows the rest.
    assert blocks(found) == [(0, 0, [0, 1, 2]), (3, 3, [0, 1, 2, 3]), (0, 4, [])]


def test_agents_that_take_turns_keep_their_own_prefixes() -> None:
    rounds = [
        request(t, 64 * (t // 10 + 2), tuple(range(100 * agent, 100 * agent + t // 10 + 2)))
        for t in (0, 10, 20)
        for agent in range(1, 13)
    ]
    known = [r.known_blocks for r in read(session(rounds)).requests()]
    assert known == [0] * 12 + [2] * 12 + [3] * 12


def test_a_number_is_not_cut_where_another_begins_alike() -> None:
    found = read(session([request(0, 128, (1, 12)), request(1, 128, (1, 123))]))
    assert blocks(found) == [(0, 0, [0, 1]), (1, 2, [0, 2])]


FIELD_CASES = [
    (session([request(tokens=0)]), "requests[0].in is 0, not a whole number from 1 to 2147483647"),
    (session([request(tokens=-5)]), "requests[0].in is -5, not a whole number from 1"),
    (session([request(tokens=2**31)]), "requests[0].in is 2147483648, not a whole number from 1"),
    (session([request(), {**request(), "out": -1}]), "requests[1].out is -1, not a whole number"),
    (session([{**request(), "out": 1.5}]), "requests[0].out is 1.5, not a whole number"),
    (session([{**request(), "out": True}]), "requests[0].out is true, not a whole number"),
    (session([{**request(), "model": 3}]), "requests[0].model is 3, not a string"),
    (session([request(t=-1)]), "requests[0].t is -1, not a number from 0 to 1e+11"),
    (session([request(t=2e11)]), "requests[0].t is 200000000000.0, not a number from 0"),
    (session([{**request(), "t": "1"}]), "requests[0].t is '1', not a number from 0"),
    (session([request(api_time=-2)]), "requests[0].api_time is -2, not a number from 0"),
    (session([request(think_time={})]), "requests[0].think_time is a table of 0, not a number"),
    (session([7]), "requests[0] is 7, not an object"),
    (session({}), "requests is a table of 0, not a list"),
    (session([]), "requests holds no request"),
    (session([marker(1, [])]), "requests holds no request"),
    (session([marker(1, [3])]), "requests[0].requests[0] is 3, not an object"),
    (session([marker(1, [marker(1, [])])]), "requests[0].requests[0] is a subagent inside a"),
    (session([marker(1, [request()], duration_ms=-4)]), "requests[0].duration_ms is -4, not a"),
    (session([marker(1, [request()], agent_id=[1])]), "requests[0].agent_id is a list of 1, not a"),
    (session([request()], block_size=0), "block_size is 0, not a whole number from 1"),
    (session([request()], block_size=65537), "block_size is 65537, not a whole number from 1 to"),
    (session([request()], id=""), "id is '', not a name"),
    (session([request()], hash_id_scope="team"), "hash_id_scope is 'team', not \"local\" or"),
    (session([request()], tool_tokens=-1), "tool_tokens is -1, not a whole number from 0"),
    (session([request(ids=3)]), "requests[0].hash_ids is 3, not a list of whole numbers"),
    *(
        (session([request(ids=ids)]), "requests[0].hash_ids is not a list of whole numbers")
        for ids in ([1, "2"], [1, -2], [1.5], [True], [None])
    ),
    (session([request(ids=[[1], 2])]), "this is not a trace: a hash_ids is not a flat list"),
    (session([request(ids=["]"])]), "this is not a trace: a hash_ids is not a flat list"),
    (session([request(tokens=100)]), "requests[0].hash_ids has 3 ids, 100 tokens have at most 2"),
    ([], "a trace is a JSON object, this is a list of 0"),
    ("x" * 90, f"a trace is a JSON object, this is '{'x' * 39}…"),
]


@pytest.mark.parametrize(("value", "complaint"), FIELD_CASES)
def test_a_bad_field_is_named_with_its_file_and_what_it_should_be(
    value: Any, complaint: str
) -> None:
    assert refusal(value).startswith(f"t.json: {complaint}")


@pytest.mark.parametrize("key", ["t", "in", "out", "hash_ids", "id", "block_size", "requests"])
def test_a_missing_field_is_named_and_a_null_is_missing(key: str) -> None:
    """Null ``hash_ids`` alone are none: a prompt without a whole block has no id."""
    value = session([request()])
    holder, place = (value, "") if key in value else (value["requests"][0], "requests[0].")
    missing = [{k: v for k, v in holder.items() if k != key}]
    missing += [] if key == "hash_ids" else [holder | {key: None}]
    for each in missing:
        assert refusal(session([each]) if place else each).startswith(
            f"t.json: {place}{key} is missing"
        )


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"\xff\xfe",
        b'{"id": "s"',
        b'{"hash_ids": [1, 2',
        b"[" * 100_000,
        b'{"t": 1e999}',
        b'{"hash_ids": [1,,2], "t": nul}',
    ],
)
def test_what_is_not_json_is_called_so(raw: bytes) -> None:
    with refuses("trace-malformed"):
        read_session(raw, "t.json")


@pytest.mark.parametrize("ids", [b"1,,2", b"1 2", b",1", b"1,2,", b"01", b"1,2,3,", b"1,\x0b2"])
def test_a_list_that_is_not_json_is_refused_though_it_begins_like_the_one_before(
    ids: bytes,
) -> None:
    good = b'{"t":0,"in":999,"out":1,"hash_ids":[1,2,3,4]}'
    bad = b'{"t":1,"in":999,"out":1,"hash_ids":[%b]}' % ids
    raw = b'{"id":"s","block_size":64,"requests":[%b,%b]}' % (good, bad)
    with refuses("trace-malformed", "t.json", "requests[1].hash_ids"):
        read_session(raw, "t.json")


def test_a_key_written_with_escapes_is_refused_and_not_misread() -> None:
    raw = rb'{"id":"s","block_size":64,"requests":[{"t":0,"in":99,"out":1,"hash\u005fids":[0]}]}'
    with refuses("trace-malformed", "requests[0].hash_ids", "1"):
        read_session(raw, "t.json")
