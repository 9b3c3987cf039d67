"""The first prompt lengths that a server reports are held against the plan while a level runs."""

from record_cases import dispatch, prompt, response

from agentx_replay.replay.ports import Dispatch, Phase, PlayRecord, Response
from agentx_replay.results.recent import Recent, snapshot_of


class Nowhere:
    """A recorder that keeps nothing."""

    def record(self, dispatch: Dispatch, response: Response) -> None:
        pass

    def record_play(self, play: PlayRecord) -> None:
        pass


def errors_of(*counted: int | None, planned: int = 100) -> tuple[int, ...]:
    recent = Recent(Nowhere(), lambda _: (), lambda: 0)
    for tokens in counted:
        sent = dispatch(prompt=prompt(planned), phase=Phase.PRIMER)
        recent.record(sent, response(prompt_tokens=tokens))
    return recent.glimpse().length_errors


def test_an_error_is_what_was_counted_less_what_was_planned() -> None:
    assert errors_of(100, 101, 98) == (0, 1, -2)


def test_a_response_without_usage_tells_nothing() -> None:
    assert errors_of(None, 100) == (0,)


def test_only_the_first_twenty_are_looked_at() -> None:
    assert errors_of(*[100] * 20, 117) == (0,) * 20


def test_all_workers_errors_come_together() -> None:
    one, other = (
        Recent(Nowhere(), lambda _: (), lambda: 0),
        Recent(Nowhere(), lambda _: (), lambda: 0),
    )
    one.record(dispatch(), response(prompt_tokens=100))
    other.record(dispatch(), response(prompt_tokens=103))
    assert snapshot_of([one.glimpse(), other.glimpse()]).length_errors == (0, 3)
