"""Which names of a log may leave it: public models and the agents that tools come with.

Everything else could hold a customer, an account or a project: a private fine-tune, a deployment,
a subagent of one's own. It is replaced by a number.
"""

import re


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MODEL_WORDS = words_of(
    "claude opus sonnet haiku fable instant gpt oss o codex mini nano pro max turbo chat "
    "latest preview thinking reasoning gemini flash lite exp ultra deepseek coder reasoner r "
    "v qwen qwq next instruct base kimi k dev glm air minimax m text llama maverick scout "
    "mistral mixtral devstral codestral magistral large medium small tiny gemma nemotron grok "
    "code fast seed ernie hunyuan phi command a"
)
"""Words that public models' names are made of."""

_WORD = re.compile(r"([a-z]*)([0-9]{0,3}(?:\.[0-9]{1,2})?)([a-z]?)")
"""A word and a version or size, as in ``qwen3``, ``4.5``, ``r1``, ``120b``, ``k2``, ``4o``."""

_DATE = re.compile(r"20[0-9]{6}")
_SIZE_LETTERS = frozenset(("", "b", "m", "o", "k", "a", "v"))
_MOST_WORDS = 8

_AGENT_KINDS = words_of(
    "Explore Plan general-purpose statusline-setup output-style-setup claude-code-guide "
    "default explorer worker awaiter reviewer"
)
UNNAMED_AGENT = "agent"


def is_public_model(name: str) -> bool:
    """Whether a model's name is made of nothing but words of public names, versions and dates."""
    words = name.split("-")
    return (
        0 < len(words) <= _MOST_WORDS
        and bool(re.match(r"[a-z]", name))
        and all(_is_public_word(word) for word in words)
        and sum(bool(_DATE.fullmatch(word)) for word in words) <= 1
    )


def _is_public_word(word: str) -> bool:
    if _DATE.fullmatch(word):
        return True
    found = _WORD.fullmatch(word)
    if not word or found is None:
        return False
    letters, number, size = found.groups()
    if not number:
        return letters + size in _MODEL_WORDS
    return (not letters or letters in _MODEL_WORDS) and size in _SIZE_LETTERS


def public_agent_kind(name: object) -> str:
    return name if isinstance(name, str) and name in _AGENT_KINDS else UNNAMED_AGENT
