"""JSON values back to the frozen dataclasses that they were written from, each type checked.

Not for: whether the values make sense together.
"""

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_NAMES: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "a yes or no",
}


def typed(kind: type[T], value: object, name: str) -> T:
    """Return a JSON object as the dataclass ``kind``, whose fields are numbers, texts, paths, one
    of several texts, dataclasses, tuples, mappings from texts, or any of these or None.

    Raises ``ValueError``, whose text names the field, counted from ``name``, and what it is not.
    """
    found: T = _as(kind, value, name)
    return found


def check_known(kind: type, value: object, name: str) -> None:
    """Raise the same for a field of ``kind`` that is there and is of another type; one that is
    missing, or is not known, is another version's.
    """
    _as(kind, value, name, whole=False)


def _as(kind: Any, value: object, name: str, *, whole: bool = True) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (some,) = (each for each in inner if each is not types.NoneType)
        return None if value is None else _as(some, value, name, whole=whole)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{name} is not a list")
        if inner[-1] is not Ellipsis and len(value) != len(inner):
            raise ValueError(f"{name} has not {len(inner)} values")
        return tuple(
            _as(inner[0], each, f"{name}[{n}]", whole=whole) for n, each in enumerate(value)
        )
    if origin is dict:
        return {
            key: _as(inner[1], each, f"{name}.{key}", whole=whole)
            for key, each in _fields(value, name).items()
        }
    if is_dataclass(kind):
        return _object(kind, _fields(value, name), name, whole=whole)
    return _plain(kind, value, name)


def _plain(kind: Any, value: object, name: str) -> Any:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ValueError(f"{name} is none of {', '.join(get_args(kind))}")
    elif kind is Path:
        return Path(_plain(str, value, name))
    elif kind is not object and not _is(kind, value):
        raise ValueError(f"{name} is not {_NAMES[kind]}")
    return value


def _fields(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")  # noqa: TRY004 (bad input, not a bad call)
    return value


def _object(kind: Any, value: dict[str, Any], name: str, *, whole: bool) -> Any:
    hints, known = get_type_hints(kind), {field.name: field for field in fields(kind)}
    if not whole:
        for key in known.keys() & value.keys():
            _as(hints[key], value[key], f"{name}.{key}", whole=False)
        return None
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
