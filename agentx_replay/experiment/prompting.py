"""The prompts of a run: one wording and template for all levels, one set of keys a level."""

from dataclasses import dataclass, field

from agentx_replay.experiment.settings import Settings, Target
from agentx_replay.plan.plan import PlannedPlay
from agentx_replay.prompts.calibration import Calibration, assumed
from agentx_replay.prompts.compose import PlayComposer
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import Layout, lay_out
from agentx_replay.prompts.live import LiveComposer
from agentx_replay.prompts.template import TemplateCost
from agentx_replay.prompts.text import Wording, chat_wording, ids_wording, text_wording
from agentx_replay.prompts.vocabulary import Vocabulary
from agentx_replay.replay.lane import PromptSources
from agentx_replay.replay.ports import PromptSource
from agentx_replay.scenario import SharedPrefix


def calibration_for(settings: Settings, target: Target) -> Calibration:
    """Calibrate against the target; without a wire the built-in words and ChatML are assumed.

    Of several servers the first is asked, and the others must count as it does.
    """
    if target.endpoint is None:
        return assumed("simulated", "chat", tool_messages=settings.tool_messages)
    import uvloop

    from agentx_replay.experiment.calibrating import calibrate, file_candidates, read_calibration

    calibrating = calibrate(
        target.endpoint,
        context_tokens=target.max_context,
        candidates=file_candidates(settings.tokenizer) if settings.tokenizer else None,
        earlier=read_calibration(settings.calibration) if settings.calibration else None,
        tool_messages=settings.tool_messages,
    )
    found = uvloop.run(calibrating)
    if target.replicas:
        from agentx_replay.experiment.replicas import check_lengths

        servers = (target.endpoint, *target.replicas)
        uvloop.run(check_lengths(found, servers, target.max_context))
    return found


def prompting_of(calibration: Calibration, settings: Settings, target: Target) -> "Prompting":
    """Return what makes the prompts of a run."""
    chat = target.endpoint is None or target.endpoint.api == "chat"
    wording = wording_of(calibration, chat=chat)
    return Prompting(
        wording,
        calibration.cost,
        settings.salt,
        settings.scenario.shared_prefix,
        calibration.opening if settings.live_history else None,
    )


def wording_of(calibration: Calibration, *, chat: bool) -> Wording:
    """Return how prompts are written with the calibration's words."""
    if calibration.ids:
        return ids_wording(calibration.ids)
    vocabulary = Vocabulary(calibration.words, calibration.opening)
    if not chat:
        return text_wording(vocabulary)
    return chat_wording(vocabulary, tool_messages=calibration.cost.tool_messages)


@dataclass(slots=True, eq=False)
class Prompting:
    """Makes prompt sources for levels. A session is laid out once, when it is first played.

    Where answers are fed back ``live_opening`` is what opens the messages of words.
    """

    wording: Wording
    cost: TemplateCost
    salt: str
    shared_prefix: SharedPrefix
    live_opening: str | None = None
    _layouts: dict[int, Layout] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type["Prompting"], tuple[object, ...]]:
        """Go to another process without the layouts: it makes those of its own lanes."""
        made_of = (self.wording, self.cost, self.salt, self.shared_prefix, self.live_opening)
        return Prompting, made_of

    def level(self, concurrency: int, attempt: int, start: int = 1) -> PromptSources:
        """Return what makes the prompts of a level's plays; nothing is shared between levels, nor
        between the starts of one.
        """
        keys = LevelKeys(self.salt, concurrency, attempt, self.shared_prefix, start)

        def source(planned: PlannedPlay, lane: int, play_number: int) -> PromptSource:
            layout = self._layout(planned)
            composer = PlayComposer(layout, self.wording, keys, lane=lane, play_number=play_number)
            if self.live_opening is None:
                return composer
            return LiveComposer(composer, layout, self.cost, self.live_opening)

        return source

    def _layout(self, planned: PlannedPlay) -> Layout:
        if planned.session_index not in self._layouts:
            self._layouts[planned.session_index] = lay_out(planned.session, self.cost)
        return self._layouts[planned.session_index]
