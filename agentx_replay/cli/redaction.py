"""The command line as it may be kept: header values, credentials and keys in bodies taken out.

Not for: the API key, which no option carries (``--api-key-env`` names a variable).
"""

from collections.abc import Callable, Iterator, Sequence

from agentx_replay.secret_texts import hidden_body, hidden_header, without_credentials


def redacted_command(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments with every header's value hidden, its name kept, every text in a body
    under a name that speaks of a secret, secrets in facts, notes and tags, and every URL's user
    name and password.
    """
    return tuple(map(without_credentials, _without_values(arguments)))


def _without_values(arguments: Sequence[str]) -> Iterator[str]:
    shown = None
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if shown is not None:
            yield shown(argument)
            shown = None
        elif equals and option in _SHOWN:
            yield f"{option}={_SHOWN[option](value)}"
        else:
            yield argument
            shown = _SHOWN.get(argument)


def _hidden_fact(text: str) -> str:
    from agentx_replay.results.system_facts import hidden_fact  # only where facts are given

    return hidden_fact(text)


def hidden_note(text: str) -> str:
    """Return a text of a person as it may be kept: as the fact ``notes`` is."""
    return _hidden_fact(f"notes={text}").removeprefix("notes=")


_SHOWN: dict[str, Callable[[str], str]] = {
    "--header": hidden_header,
    "--body": hidden_body,
    "--fact": _hidden_fact,
    "--note": hidden_note,
    "--tag": hidden_note,
}
