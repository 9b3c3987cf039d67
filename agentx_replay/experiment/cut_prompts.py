"""Whether a server cuts prompts, asked before a run of it."""

from agentx_replay.experiment.settings import Target
from agentx_replay.reason import Reason


def cut_prompts(target: Target, context_tokens: int | None) -> list[Reason]:
    """Send a long prompt, within ``context_tokens`` if that is known, and return what to say if
    the server cut it. Nothing is asked without a wire. Raises ``UsageError``.
    """
    if target.endpoint is None:
        return []
    import uvloop

    from agentx_replay.endpoint.long_prompt import prompt_cut

    found = uvloop.run(prompt_cut(target.endpoint, context_tokens))
    return [found] if found else []
