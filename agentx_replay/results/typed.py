"""JSON values back to the frozen dataclasses that they were written from, each type checked.

Not for: whether the values make sense together.
"""

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_NAMES: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "a yes or no",
}


def typed(kind: type[T], value: object, name: str) -> T:
    """Return a JSON object as the dataclass ``kind``, whose fields are numbers, texts, dataclasses,
    tuples of one type, or any of these or None.

    Raises ``ValueError``, whose text names the field, counted from ``name``, and what it is not.
    """
    found: T = _as(kind, value, name)
    return found


def _as(kind: Any, value: object, name: str) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        (inner,) = (each for each in get_args(kind) if each is not types.NoneType)
        return None if value is None else _as(inner, value, name)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{name} is not a list")
        return tuple(_as(get_args(kind)[0], each, f"{name}[{n}]") for n, each in enumerate(value))
    if is_dataclass(kind):
        return _object(kind, value, name)
    if not _is(kind, value):
        raise ValueError(f"{name} is not {_NAMES[kind]}")
    return value


def _object(kind: Any, value: object, name: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")  # noqa: TRY004 (bad input, not a bad call)
    hints, known = get_type_hints(kind), {field.name: field for field in fields(kind)}
    for key in value:
        if key not in known:
            raise ValueError(f"{name}.{key} is not known to this version")
    for key, field in known.items():
        if key not in value and _is_needed(field):
            raise ValueError(f"{name}.{key} is missing")
    return kind(**{key: _as(hints[key], each, f"{name}.{key}") for key, each in value.items()})


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _is(kind: Any, value: object) -> bool:
    """Whether a value is of a plain type. A whole number will do for a number; NaN is none."""
    if kind is float:
        return type(value) is int or (isinstance(value, float) and math.isfinite(value))
    return type(value) is kind
