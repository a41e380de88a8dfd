"""Arguments as the engine takes them: JSON, paths and whole numbers, checked."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Union, runtime_checkable

from .errors import Error


@runtime_checkable
class Array(Protocol):
    """An array on the CPU with the buffer protocol or DLPack: of NumPy, PyTorch, ``array``."""

    @property
    def shape(self) -> Sequence[int]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...


Numbers = Union[Sequence[float], Array]
"""Numbers of 0 or above: a sequence, or an array of one dimension."""

Rows = Union[Sequence[float], Sequence[Sequence[float]], Array]
"""A row of numbers for each item, all rows as long; or one number for each item."""

Document = Union[Mapping[str, Any], str, "os.PathLike[str]"]
"""The content of a file of Tributary, as a dictionary, or its path."""


def refuse(what: str, where: str, found: str, expected: str) -> Error:
    """An error of the package itself, in the form of all others."""
    message = f"input error: {what}; where: {where}; found: {found}; expected: {expected}"
    return Error(message, what, where, found, expected)


def whole(value: int, name: str) -> int:
    """A whole number of 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise refuse("python: not a whole number", name, repr(value), "an int") from None
    if not -(2**63) <= number < 2**63:
        raise refuse("python: number out of range", name, repr(value), "64 bits")
    return number


def flag(value: bool, name: str) -> bool:
    """A truth value, of Python or of a library; texts are none."""
    try:
        is_known = value in (True, False)
    except (TypeError, ValueError):  # arrays have no single one
        is_known = False
    if not is_known:
        raise refuse("python: neither True nor False", name, repr(value)[:200], "a bool")
    return bool(value)


def text(value: str, name: str) -> str:
    """A text that has UTF-8."""
    if not isinstance(value, str):
        raise refuse("python: not a text", name, repr(value)[:200], "a str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refuse("python: text has no UTF-8", name, ascii(value)[:200], "Unicode characters") from None
    return value


def listed(values: Iterable[Any], name: str) -> list[Any]:
    """What can be gone through, but no text."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise refuse("python: not a list", name, repr(values)[:200], "a sequence")
    return list(values)


def real(value: float, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise refuse("python: not a number", name, repr(value), "a float") from None


def plain(value: Any) -> Any:
    """What `json` does not know: other mappings and sequences, numbers and arrays of libraries."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence):
        return list(value)
    return operator.index(value)


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, default=plain)


def _without_json(value: Any, path: str = "") -> tuple[str, str] | None:
    """Key path and text of the first part that has no JSON; None: all have, but their whole not."""
    if isinstance(value, Mapping):
        parts: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, (list, tuple)):
        parts = list(enumerate(value))
    else:
        return path, repr(value)[:200]
    for key, part in parts:
        try:
            _json(part)
        except (TypeError, ValueError):
            below = f"{path}.{key}" if path else str(key)
            return _without_json(part, below)
    return None


def to_json(value: Any, name: str) -> str:
    """JSON that has every float with all its bits; an error names the key that has none."""
    try:
        return _json(value)
    except (TypeError, ValueError, RecursionError) as error:
        try:
            place = _without_json(value)
        except RecursionError:  # it holds itself
            place = None
        path, found = place or ("", str(error))
        where = f"{name} {path}" if path else name
        raise refuse(
            "python: value has no JSON", where, found, "dicts, lists, finite numbers, texts"
        ) from None


def document(value: Document, name: str) -> tuple[bool, str]:
    """Whether it is a path, and path or JSON."""
    if isinstance(value, (str, os.PathLike)):
        path = text(os.fspath(value), name)
        if not path:
            raise refuse("python: path is empty", name, "''", "a path or a dict")
        return True, path
    if not isinstance(value, Mapping):
        raise refuse("python: neither path nor dict", name, repr(value)[:200], "one of them")
    return False, to_json(value, name)


def optional(value: Document | None, name: str) -> tuple[bool, str] | None:
    """The same of one that may be left out."""
    return None if value is None else document(value, name)


def sizes(value: Document | Rows | None, name: str) -> tuple[tuple[bool, str] | None, Any]:
    """Sizes of samples: a document, or rows, or neither."""
    if isinstance(value, (str, os.PathLike, Mapping)):
        return document(value, name), None
    return None, value


def given(**arguments: Any) -> dict[str, Any]:
    """The arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}
