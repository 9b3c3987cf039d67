"""Which recorded sessions a run plays, as a value that any process can read them by, also later."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentx_replay.plan.selection import ContextPolicy, Selection, select_sessions
from agentx_replay.results.documents import typed
from agentx_replay.scenario import Order
from agentx_replay.traces.corpus import read_corpus
from agentx_replay.traces.model import Corpus


@dataclass(frozen=True, slots=True)
class SessionSource:
    """A corpus on disk and what of it fits: the arguments of ``read_corpus`` and
    ``select_sessions``.
    """

    traces: Path
    skip_bad: bool
    max_context: int | None
    context_policy: ContextPolicy
    max_sessions: int | None
    keep_one_of_duplicates: bool = False
    order: Order = "corpus"

    def read(self) -> tuple[Corpus, Selection]:
        """Return the corpus and the selection. Raises ``UsageError`` where there is none."""
        corpus = read_corpus(self.traces, skip_bad=self.skip_bad)
        selection = select_sessions(
            corpus,
            max_context=self.max_context,
            policy=self.context_policy,
            max_sessions=self.max_sessions,
            keep_one_of_duplicates=self.keep_one_of_duplicates,
            order=self.order,
        )
        return corpus, selection

    def document(self) -> dict[str, Any]:
        """Return it as plain JSON values, with the whole path."""
        return asdict(self) | {"traces": str(self.traces.resolve())}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "SessionSource":
        """Return what ``document`` wrote. Raises ValueError for anything else."""
        found = typed(cls, document, "source")
        if any(each is not None and each < 1 for each in (found.max_context, found.max_sessions)):
            raise ValueError("source.max_context or source.max_sessions is not above 0")
        return found
