"""What the words of a server's error say: the prompt is too long, or too much is asked at a time.

Not for: statuses and categories (outcome.py).
"""

import re

_OVERFLOW = re.compile(
    "|".join(
        (
            # OpenAI's code and message, which vLLM, SGLang and TensorRT-LLM repeat ("This model's
            # maximum context length is 4096 tokens", "longer than the model's context length"),
            # Anthropic ("exceed context limit"), LM Studio ("greater than the context length"),
            # Ollama ("exceeded max context length by 4 tokens").
            r"context[ _-](length|window|limit|size)",
            r"maximum context",
            # vLLM: the parameter it names, and what it names its own limit.
            r"\binput_tokens\b",
            r"max(imum)?[ _]model[ _]len",
            # llama.cpp: "request (9 tokens) exceeds the available context size", and its type.
            r"exceed_context_size",
            # Anthropic: "prompt is too long: 210000 tokens > 200000 maximum"; Ollama; Bedrock.
            r"(prompt|input) (is )?too long",
            # TGI (422): "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: ..."
            r"`inputs` (tokens \+ `max_new_tokens` must be|must have less than)",
            # TensorRT-LLM: "The sum of prompt length (72417), query length (0) should not exceed
            # max_num_tokens (69632)", "Prompt length (9) exceeds maximum input length (8)".
            r"exceed max_num_tokens",
            r"exceeds? (the )?max(imum)?[ _](allowed )?input[ _]len",
            # LMDeploy: ResponseType.INPUT_LENGTH_ERROR.
            r"input_length_error",
            # Gemini: "The input token count (9) exceeds the maximum number of tokens allowed (8)".
            r"exceeds the maximum number of tokens",
            # Groq, OpenAI: "Please reduce the length of the messages or completion."
            r"reduce the length of the",
            r"too many tokens",
        )
    ),
    re.IGNORECASE,
)
_RATE = re.compile(
    "|".join(
        (
            # OpenAI: "Rate limit reached for gpt-4o on tokens per min (TPM)", "Request too large
            # for gpt-4o ... on tokens per min (TPM)", codes rate_limit_exceeded and
            # insufficient_quota. Anthropic: rate_limit_error. Azure: "exceeded token rate limit".
            r"rate[ _-]?limit",
            r"\bper[ _-](second|min|minute|hour|day|month)\b",
            r"quota",
            r"too many (requests|concurrent)",
            # Anthropic: overloaded_error. TGI (429): "Model is overloaded".
            r"overloaded",
            # SGLang: "The request queue is full." Ollama: "server busy, please try again.
            # maximum pending requests exceeded".
            r"queue is full",
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
