"""Calibrating before a run: the questions of the prompts room put to a server, and the answers.

Finds words and template cost, proves them, checks that usage says the same, and tells a person in
one line. An earlier calibration is proven anew, not believed. Not for: what to ask, or the wire.
"""

import random
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import orjson

from agentx_replay.endpoint.counting import Counter, Enough, UncountedError, Way, Ways
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.errors import UsageError
from agentx_replay.given_files import read_given
from agentx_replay.prompts.calibration import (
    Calibration,
    Room,
    assumed,
    expected_tokens,
    from_document,
    random_conversations,
    random_id_lists,
    random_texts,
    verify,
)
from agentx_replay.prompts.probes import Asking, Count, Ids, Probe, ProbeMaker, Text, sentence
from agentx_replay.prompts.template import Role, TemplateCost
from agentx_replay.prompts.template_cost import (
    REFUSES,
    ToolMessagesError,
    flat_cost,
    measure_template,
    measure_tools,
)
from agentx_replay.prompts.vocabulary import common_words, opening_words
from agentx_replay.prompts.word_search import MOST_WORDS_A_TEXT, Words, find_words
from agentx_replay.prompts.word_search import UncountedError as UncountedTextError
from agentx_replay.reason import Reason

_T = TypeVar("_T")
PROOF = Enough(within_s=1.5, at_least=8)
"""How long proving may take, and how many probes it must have on however slow a server."""
MOST_REQUESTS = 90
_FEWEST_PROBES = 16
"""The proof gets what the search for words has left of the requests, and no less than this."""
_USAGE_REQUESTS = 2
_UNUSABLE = 3
_LONG_PROBE_S = 0.3
_LONGEST_PROBE_TOKENS = 65_536
_SAMPLE_WORDS = 300
"""Words of a prompt that is timed, or counted twice: several blocks of any prefix cache."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Words to try, the one that opens messages, and where they come from."""

    words: tuple[str, ...]
    opening: str
    source: str


def builtin_candidates() -> Candidates:
    """Return the built-in list."""
    return Candidates(common_words(), opening_words()[0], "built-in words")


def file_candidates(path: Path) -> Candidates:
    """Return the words that are one token each in a ``tokenizer.json``."""
    from agentx_replay.prompts.tokenizer_file import vocabulary_from_tokenizer

    found = vocabulary_from_tokenizer(path)
    return Candidates(found.words, found.opening, f"words of {path.name}")


def read_calibration(path: Path) -> Calibration:
    """Return the calibration in a file. Raises UsageError where there is none."""
    way_out = "give the calibration.json of a run directory"
    what = f"the calibration {path}"
    try:
        document = orjson.loads(read_given(path, what, way_out))
    except orjson.JSONDecodeError as error:
        raise UsageError(
            "calibration-unreadable", f"{what} cannot be read ({error})", way_out
        ) from None
    return from_document(document, str(path))


async def calibrate(
    settings: EndpointSettings,
    *,
    context_tokens: int | None,
    candidates: Candidates | None = None,
    earlier: Calibration | None = None,
    proof: Enough = PROOF,
    tool_messages: bool = False,
) -> Calibration:
    """Calibrate against a server, or prove an ``earlier`` calibration against it, in as many
    probes as ``proof`` gives time for.

    Raises UsageError where the earlier one is of another API or kind of messages, and (exit code 3)
    where the server cannot be asked, or takes no ``tool_messages``.
    """
    if earlier is not None:
        _refuse_unlike(earlier, settings, tool_messages)
    counter = Counter(settings)
    try:
        calibrating = _Calibrating(counter, settings, context_tokens, proof, tool_messages)
        return await calibrating.calibration(candidates or builtin_candidates(), earlier)
    finally:
        await counter.close()


def _refuse_unlike(earlier: Calibration, settings: EndpointSettings, tool_messages: bool) -> None:
    if earlier.api != settings.api:
        raise UsageError(
            "calibration-of-other-api",
            f"the calibration is for --endpoint {earlier.api}, not {settings.api}",
            f"leave it out, or add --endpoint {earlier.api}",
        )
    if earlier.cost.tool_messages != tool_messages:
        kinds = ("tool", "plain") if earlier.cost.tool_messages else ("plain", "tool")
        raise UsageError(
            "calibration-of-other-messages",
            f"the calibration is for {kinds[0]} messages, not {kinds[1]} ones",
            f"leave it out, or {'add' if earlier.cost.tool_messages else 'leave out'} "
            "--tool-messages",
        )


def drawn_probes(calibration: Calibration, rng: random.Random, room: Room) -> list[Probe]:
    """Return random prompts of the kind that a run will send."""
    if calibration.ids:
        return random_id_lists(calibration.ids, rng, room)
    tools = calibration.cost.tool_messages
    probes = ProbeMaker(calibration.opening, calibration.words, rng, tools)
    if calibration.api == "chat":
        return random_conversations(probes, calibration.cost, room)
    return random_texts(probes, room)


@dataclass(slots=True)
class _Calibrating:
    """One calibration against one server."""

    counter: Counter
    settings: EndpointSettings
    context: int | None
    proof: Enough
    tools: bool
    # Seeded by the time: a cache must not know the probes.
    rng: random.Random = field(default_factory=lambda: random.Random(time.time_ns()))

    @property
    def chat(self) -> bool:
        return self.settings.api == "chat"

    async def calibration(self, candidates: Candidates, earlier: Calibration | None) -> Calibration:
        """Find, prove, and check against usage."""
        probes = ProbeMaker(candidates.opening, candidates.words, self.rng)
        try:
            counting = await self.counter.ways(probes.conversation([("user", 3)]), probes.text(3))
        except UncountedError:
            return self._assumed(_UNCOUNTED)
        tried = [counting]
        if counting.usage and counting != _by_usage(counting.usage):
            tried.append(_by_usage(counting.usage))
        refusal = ToolMessagesError(REFUSES)
        for ways in tried:
            try:
                if earlier is not None:
                    found = await self._proven(replace(earlier, warnings=()), ways)
                else:
                    found = await self._found(candidates, ways)
                predicted, counted = await self._by_usage_twice(found, ways)
            except ToolMessagesError as error:
                refusal = error  # what /tokenize leaves out, the server itself may take
                continue
            if counted[0] == predicted or ways == tried[-1]:
                if ways.usage is Way.WHOLE_USAGE:
                    found = found.with_warning(_USAGE_NOT_STREAMED)
                return _with_usage(found, predicted, counted)
        raise UsageError(
            "server-without-tools",
            f"the server {refusal}",
            "leave --tool-messages out, or serve a model whose chat template knows tools",
            exit_code=_UNUSABLE,
        )

    async def _found(self, candidates: Candidates, ways: Ways) -> Calibration:
        """Return a calibration by one way of counting."""
        opening = candidates.opening
        search = find_words(candidates.words, opening, self.rng, self._words_a_text())
        try:
            words = await self._ask(search, ways)
        except UncountedTextError:
            return self._assumed(_REFUSED)
        probes = ProbeMaker(opening, words.words, self.rng)
        cost: TemplateCost | None = flat_cost(words.opening_tokens)
        if self.chat:
            cost = await self._ask(measure_template(probes), ways)
            if cost is not None and self.tools:
                asking = measure_tools(replace(probes, tool_messages=True), cost)
                cost = await self._ask(asking, ways)
        if cost is None:
            return self._assumed(_REFUSED)
        begun = replace(
            assumed(self.settings.model, self.settings.api),
            words=words.words,
            opening=opening,
            cost=cost,
            source=candidates.source,
        )
        ids = () if self.chat else await self._ids(begun, ways)
        return _with_words(await self._proven(replace(begun, ids=ids), ways), words, candidates)

    def _assumed(self, warning: Reason) -> Calibration:
        model, api = self.settings.model, self.settings.api
        return assumed(model, api, warning, tool_messages=self.tools)

    def _words_a_text(self) -> int:
        if self.context is None:
            return MOST_WORDS_A_TEXT
        return min(MOST_WORDS_A_TEXT, self.context // 2)

    async def _ask(self, asking: Asking[_T], ways: Ways, enough: Enough | None = None) -> _T:
        """Put a calibration's questions to the server until it has its answer."""
        try:
            probes = next(asking)
            while True:
                probes = asking.send(await self.counter.counts(probes, ways, enough))
        except StopIteration as stop:
            found: _T = stop.value
            return found

    async def _proven(self, calibration: Calibration, ways: Ways) -> Calibration:
        """Return the calibration with its cost proven on random prompts."""
        room = Room(self.context, await self._affordable(calibration, ways))
        drawn = drawn_probes(calibration, self.rng, room)
        way = ways.of(drawn[0])
        left = MOST_REQUESTS - self.counter.requests - _USAGE_REQUESTS
        drawn = drawn[: max(left // way.requests, _FEWEST_PROBES)]
        cost, verification = await self._ask(verify(calibration.cost, drawn), ways, self.proof)
        return replace(calibration, cost=cost, verification=verification, counted_by=way.value)

    async def _affordable(self, calibration: Calibration, ways: Ways) -> int:
        """Return how many tokens can be counted in the time that one long probe may take."""
        probe = self._sample(calibration)
        begun_s = time.monotonic()
        (count,) = await self.counter.counts([probe], ways)
        if count is None and self.tools:
            raise ToolMessagesError(REFUSES)
        took_s = max(time.monotonic() - begun_s, 1e-4)
        affordable = round(probe.words / took_s * _LONG_PROBE_S)
        return min(max(affordable, probe.words), _LONGEST_PROBE_TOKENS)

    def _sample(self, calibration: Calibration) -> Probe:
        """Return a prompt of some blocks, of the kind that a run will send."""
        count = min(_SAMPLE_WORDS, self._words_a_text() - 1)
        if calibration.ids:
            return Ids((calibration.ids[0], *self.rng.choices(calibration.ids, k=count)), count)
        tools = calibration.cost.tool_messages
        maker = ProbeMaker(calibration.opening, calibration.words, self.rng, tools)
        if not self.chat:
            return maker.text(count)
        answered: list[tuple[Role, int]] = [("user", 0), ("assistant", 0)]
        return maker.conversation([*(answered if self.tools else ()), ("user", count)])

    async def _ids(self, calibration: Calibration, ways: Ways) -> tuple[int, ...]:
        """Return the token ids of the words, the opening's first; none where they do not serve."""
        words = len(calibration.words)
        said = sentence(calibration.opening, calibration.words)
        told = await self.counter.token_ids(Text(said, words)) or []
        before = len(told) - (1 + words)  # a server may add begin-of-text, asked or not
        if not 0 <= before < calibration.cost.without_system + 1:
            return ()
        ids = tuple(told[before:])
        taken = await self.counter.count(Ids(ids[:2], 1), ways.usage or Way.USAGE)
        return () if taken is None else ids

    async def _by_usage_twice(
        self, calibration: Calibration, ways: Ways
    ) -> tuple[int, tuple[Count, Count]]:
        """Return a prompt's predicted length, and its length by usage, new and repeated, which is
        how the run's records will count.
        """
        if ways.usage is None or calibration.cost.assumed:
            return 0, (0, 0)
        probe = self._sample(calibration)
        first = await self.counter.count(probe, ways.usage)
        again = await self.counter.count(probe, ways.usage)
        return expected_tokens(probe, calibration.cost), (first, again)


def _by_usage(usage: Way) -> Ways:
    return Ways(usage, usage, usage)


# --- what a person is told ----------------------------------------------------------------------

_UNCOUNTED = Reason(
    "lengths-not-told",
    "the server tells no prompt lengths (no usage, no /tokenize): words and template are assumed",
)
_USAGE_NOT_STREAMED = Reason(
    "usage-not-streamed",
    "the server reports usage only when not streaming: no run on it can be checked",
)
_REFUSED = Reason(
    "calibration-refused",
    "the server refuses the prompts of a calibration: words and template are assumed",
)


def _with_usage(found: Calibration, predicted: int, counted: tuple[Count, Count]) -> Calibration:
    """Return the calibration with a prompt in its proof whose length by usage changed."""
    first, again = counted
    if first == again:
        return found
    for count in counted:
        if count is not None:
            found = found.with_probe(count - predicted)
    return found.with_warning(
        Reason(
            "usage-changes",
            f"the server counts {first} prompt tokens the first time and {again} "
            "the second for the same prompt: its usage does not tell the length of a prompt",
        )
    )


def _with_words(proven: Calibration, words: Words, candidates: Candidates) -> Calibration:
    """Return the calibration with what to mind of the words: which were left out, and whether they
    were not one token each when they were searched. If the proof is exact all the same, the server
    counted the same words in two ways, and the text that differed is one more probe.
    """
    left_out = len(candidates.words) - len(words.words)
    if left_out:
        proven = proven.with_warning(
            Reason(
                "words-left-out",
                f"{left_out:,} of {len(candidates.words):,} {candidates.source} are not one token "
                "each for this server and are left out",
            )
        )
    if words.exact:
        return proven
    if not proven.exact:
        return proven.with_warning(
            Reason(
                "words-not-one-token",
                f"no word list is exact for this server's tokenizer: a word is "
                f"{1 + words.excess_per_word:.2f} tokens",
            )
        )
    excess = round(words.excess_per_word * len(words.words))
    return proven.with_probe(excess).with_warning(
        Reason(
            "lengths-change",
            "the length of a prompt changes from request to request: a text of "
            f"{len(words.words):,} words cost {excess:+,} tokens beside one a word, later ones "
            "none",
        )
    )
