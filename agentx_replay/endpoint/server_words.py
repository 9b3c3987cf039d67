"""What the words of a server's error say: the prompt is too long, or too much is asked at a time.

The words of each engine, with their sources, are a table of docs/endpoint.md, which the tests read.
Not for: statuses and categories (outcome.py).
"""

import re

_OVERFLOW = re.compile(
    "|".join(
        (
            r"context[ _-](length|window|limit|size)",
            r"maximum (context|prompt length)",
            r"max(imum)?[ _]model[ _]len",
            r"\binput_tokens\b",  # the parameter that vLLM names
            r"(prompt|input) (is )?too long",
            r"(prompt|input) (length|token count)\b.{0,60}\bexceeds",
            r"exceed max_(num_tokens|seq_len)",
            r"`inputs` (tokens \+ `max_new_tokens` must be|must have less than)",
            r"input_length_error",
            r"input tokens exceed",
            r"model token limit",
            r"reduce the length of the",
            r"too many tokens",
        )
    ),
    re.IGNORECASE,
)
_RATE = re.compile(
    "|".join(
        (
            r"rate[ _-]?limit",
            r"\bper[ _-](second|min|minute|hour|day|month)\b",
            r"quota",
            r"too many (requests|concurrent)",
            r"overloaded",
            r"queue (is full|timeout)",
            r"pending requests exceeded",
            r"server (is )?busy",
        )
    ),
    re.IGNORECASE,
)


def rate_limited(text: str) -> bool:
    """Whether a server says that it was asked for too much at a time; later it may answer."""
    return _RATE.search(text) is not None


def overflows(text: str) -> bool:
    """Whether a server says that the prompt is longer than its context, whenever it is asked."""
    return _OVERFLOW.search(text) is not None and not rate_limited(text)
