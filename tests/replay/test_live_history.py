"""What was answered goes into the play's next prompt, in virtual time: which answer, and when."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from small_corpus import corpus, planned, request, session
from virtual_replay import SCENARIO, Log, S

from agentx_replay.experiment.prompting import Prompting
from agentx_replay.prompts.prompt import Answer
from agentx_replay.prompts.template import CHATML
from agentx_replay.prompts.text import chat_wording
from agentx_replay.prompts.vocabulary import builtin_vocabulary
from agentx_replay.replay.driver import Replay
from agentx_replay.replay.ports import Clock, Dispatch, Response, Status
from agentx_replay.replay.virtual_time import run_virtual, virtual_clock
from agentx_replay.scenario import Scenario

WORDS = builtin_vocabulary()


def said(dispatch: Dispatch) -> str:
    """What is answered to a request: as many words as were asked for, its own each."""
    return f" {dispatch.request_id}" * dispatch.max_tokens


@dataclass(slots=True)
class Speaking:
    """An endpoint that answers in a second, in words of its own, as ``status`` says."""

    clock: Clock
    status: Callable[[Dispatch], Status] = lambda _: Status.OK
    prompts: dict[str, list[dict[str, str]]] = field(default_factory=dict)

    async def send(self, dispatch: Dispatch) -> Response:
        send_ns = self.clock.now_ns()
        self.prompts[dispatch.request_id] = json.loads(dispatch.prompt.messages_json())
        over = asyncio.Event()
        self.clock.call_at(send_ns + S, over.set)
        await over.wait()
        status = self.status(dispatch)
        told = Answer(said(dispatch), dispatch.max_tokens, dispatch.prompt.tokens)
        answer = told if status is Status.OK else None
        return Response(
            status, send_ns, self.clock.now_ns(), completion_tokens=told.tokens, answer=answer
        )

    def prepare(
        self, lane: int, conversation_id: str, due_ns: int, compose: Callable[[], int]
    ) -> None:
        """There is no connection to make."""

    def cut(self) -> None:
        """Nothing is in flight when these replays end."""

    def conversation_ended(self, conversation_id: str) -> None:
        """There is no connection to close."""

    async def close(self) -> None:
        """There is no connection to close."""


@dataclass(slots=True)
class Played:
    log: Log
    prompts: dict[str, list[dict[str, str]]]

    def answers(self, request_id: str) -> list[str]:
        """The first word of each message that stands for an answer."""
        return [
            each["content"].split()[0]
            for each in self.prompts[request_id]
            if each["role"] == "assistant"
        ]

    def says_answer(self) -> list[bool | None]:
        """Whether each prompt of the first play's window said an answer, in order of turn."""
        window = [d for d, _ in self.log.requests if d.phase == "window" and d.play_number == 0]
        return [d.prompt.says_answer for d in sorted(window, key=lambda each: each.turn)]


def played(
    directory: Path,
    *entries: dict[str, Any],
    scenario: Scenario = SCENARIO,
    status: Callable[[Dispatch], Status] = lambda _: Status.OK,
    live: bool = True,
) -> Played:
    """Replay one session on one lane for 35 s."""
    plan = planned(corpus(directory, session("s", *entries)), replace(scenario, window_s=35.0), 1)
    opening = WORDS.opening if live else None
    prompting = Prompting(chat_wording(WORDS), CHATML, "salt", "session", opening)
    log = Log()

    async def main() -> Played:
        clock = virtual_clock()
        endpoint = Speaking(clock, status)
        prompts = prompting.level(1, 0)
        await Replay(plan, prompts, clock, endpoint, log, run_id="t").run()
        return Played(log, endpoint.prompts)

    return run_virtual(main())


FOUR = tuple(request(10.0 * n, range(4 * (n + 1)), out=9, in_=256 * (n + 1) + 5) for n in range(4))
"""Each goes on from all of the one before; ten seconds apart in the recording, one long."""


def test_each_prompt_says_what_was_answered_to_the_ones_before(tmp_path: Path) -> None:
    run = played(tmp_path, *FOUR)
    assert run.answers("t-c1-l0-p0-s0-t0") == []
    assert run.answers("t-c1-l0-p0-s0-t2") == ["t-c1-l0-p0-s0-t0", "t-c1-l0-p0-s0-t1"]
    assert run.prompts["t-c1-l0-p0-s0-t1"][1]["content"] == " t-c1-l0-p0-s0-t0" * 9


def test_without_the_flag_it_says_words(tmp_path: Path) -> None:
    run = played(tmp_path, *FOUR, live=False)
    assert set(run.answers("t-c1-l0-p0-s0-t2")) == {WORDS.opening}
    assert run.says_answer() == [None, None, None, None]


def test_when_a_request_is_sent_does_not_depend_on_it(tmp_path: Path) -> None:
    fed = played(tmp_path / "fed", *FOUR).log.sent()
    assert len(fed) > 3
    assert fed == played(tmp_path / "words", *FOUR, live=False).log.sent()


def test_a_token_of_the_warm_up_is_no_answer(tmp_path: Path) -> None:
    # t* = 12 s: a primer of request 1, then 2 under cache pressure and 3 in the window.
    scenario = replace(SCENARIO, start_fraction=(0.4, 0.4), warmup_requests=1)
    run = played(tmp_path, *FOUR, scenario=scenario)
    assert [(d.phase.value, d.turn) for d, _ in run.log.requests][:3] == [
        ("primer", 1), ("cache_pressure", 2), ("window", 3),
    ]  # fmt: skip
    assert set(run.answers("t-c1-l0-p0-s0-t3")) == {WORDS.opening}
    assert run.says_answer()[0] is None


@pytest.mark.parametrize("status", [Status.FAILED, Status.CUT])
def test_words_stand_for_an_answer_that_never_came(tmp_path: Path, status: Status) -> None:
    def second_fails(dispatch: Dispatch) -> Status:
        return status if dispatch.turn == 1 else Status.OK

    run = played(tmp_path, *FOUR, status=second_fails)
    first, last = "t-c1-l0-p0-s0-t0", "t-c1-l0-p0-s0-t2"
    assert run.answers("t-c1-l0-p0-s0-t3") == [first, WORDS.opening, last]
    # The third prompt was to say the second's answer.
    assert run.says_answer() == [None, True, False, True]


def test_a_play_says_its_own_answers_and_not_those_of_the_one_before(tmp_path: Path) -> None:
    entries = [request(1.0 * n, range(4 * (n + 1)), in_=256 * (n + 1) + 5) for n in range(2)]
    run = played(tmp_path, *entries)
    assert run.answers("t-c1-l0-p1-s0-t1") == ["t-c1-l0-p1-s0-t0"]
