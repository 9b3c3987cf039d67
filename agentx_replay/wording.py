"""How things are counted in sentences: one request, two requests."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 request``, ``1,234 requests``, ``2 are`` of ``1 is``.

    ``plural`` is the noun's where it is not the noun and an s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
