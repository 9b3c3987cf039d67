"""The prompts of a run: one vocabulary and template for all levels, one set of keys a level."""

from dataclasses import dataclass, field

from agentx_replay.plan.plan import PlannedPlay
from agentx_replay.prompts.compose import PlayComposer, SentPrefixes
from agentx_replay.prompts.keys import LevelKeys
from agentx_replay.prompts.layout import Layout, lay_out
from agentx_replay.prompts.template import TemplateCost
from agentx_replay.prompts.vocabulary import Vocabulary
from agentx_replay.replay.lane import PromptSources
from agentx_replay.scenario import SharedPrefix


@dataclass(slots=True, eq=False)
class Prompting:
    """Makes prompt sources for levels. A session is laid out once, when it is first played."""

    vocabulary: Vocabulary
    cost: TemplateCost
    salt: str
    shared_prefix: SharedPrefix
    _layouts: dict[int, Layout] = field(default_factory=dict)

    def level(self, concurrency: int, attempt: int) -> PromptSources:
        """Return what makes the prompts of a level's plays; nothing is shared between levels."""
        keys = LevelKeys(self.salt, concurrency, attempt, self.shared_prefix)
        prefixes = SentPrefixes()

        def source(planned: PlannedPlay, lane: int, ordinal: int) -> PlayComposer:
            layout = self._layout(planned)
            return PlayComposer(layout, self.vocabulary, keys, prefixes, lane=lane, ordinal=ordinal)

        return source

    def _layout(self, planned: PlannedPlay) -> Layout:
        if planned.session_index not in self._layouts:
            self._layouts[planned.session_index] = lay_out(planned.session, self.cost)
        return self._layouts[planned.session_index]
