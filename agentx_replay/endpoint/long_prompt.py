"""Whether a server cuts long prompts without a word, as engines with a small context do.

Not for: the prompts of a run; their lengths are compared one by one in the window.
"""

from agentx_replay.endpoint.asking import Asker
from agentx_replay.endpoint.requests import fixed_fields
from agentx_replay.endpoint.settings import EndpointSettings
from agentx_replay.reason import Reason

_WORDS = 20_000
"""Five times the context that engines take by default if nobody names one (Ollama: 4,096)."""
_SPARE_TOKENS = 64
"""For the chat template and the answer."""


async def prompt_cut(settings: EndpointSettings, context_tokens: int | None) -> Reason | None:
    """Send one prompt of up to 20,000 words, each a token or more; return what to say if the
    server counted fewer than half of them. None also if it refused the prompt or does not count.

    Raises ``UsageError`` (exit code 3) if no answer can be had.
    """
    words = max(1, min(_WORDS, (context_tokens or _WORDS) - _SPARE_TOKENS))
    text = "one " * words
    completions = settings.api == "completions"
    prompt = text if completions else [{"role": "user", "content": text}]
    body = fixed_fields(settings) | {settings.limit_field: 1}
    body["prompt" if completions else "messages"] = prompt
    asker = Asker(settings)
    try:
        answered = (await asker.ask(settings.completions_path, body)).body
    finally:
        await asker.close()
    stream = answered.stream if answered else None
    counted = stream.prompt_tokens if stream else None
    if counted is None or counted >= words / 2:
        return None
    said = f"the server cut a prompt of {words:,} words to {counted:,} tokens"
    return Reason("server-cuts-prompts", f"{said}, so no run with longer prompts can be valid")
