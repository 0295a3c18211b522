# SPDX-License-Identifier: Apache-2.0
"""What columns of Python values are: which codec stores them, and their structure.

A column is a list of rows. None is a row without a value, MISSING a row of a
column within dictionaries or lists that had no such key or place.
"""
from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

NUMERIC = "biufc"  # kinds of numpy's types
KEYS_MAX = 64  # a dictionary of more is one value
ITEMS_MAX = 8  # a list of more is one value
DEPTH_MAX = 32
_EXACT_FLOAT = float(1 << 53)  # integers beyond may change when they become floats


class _Missing:
    def __repr__(self) -> str:
        return "<MISSING>"


MISSING = _Missing()


@dataclass(frozen=True)
class Decision:
    """Which codec stores a column; not accepted: none does without a schema.

    made has arrays of the rows that have a value, where the choice took them.
    """

    accepted: bool
    codec: str
    reason: str
    normalized_type: str
    metadata: dict[str, Any] = field(default_factory=dict)
    made: list[np.ndarray] | None = field(
        default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Leaf:
    """A column that is stored by one codec."""

    path: str
    values: list[Any]
    decision: Decision


@dataclass(frozen=True)
class Node:
    """A column of dictionaries or lists, whose children are columns as well."""

    path: str
    node_type: str  # "dict" or "list"
    children: list[Any]  # keys, sorted, or numbers from 0
    missing: list[bool]
    row_mask: list[bool]  # whether the row has a value
    lengths: list[int] | None = None  # of lists


def _are_tensors(kind: type) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.Tensor)


def _are_images(kind: type) -> bool:
    return kind.__module__.startswith("PIL.") and hasattr(kind, "save")


def is_torch_tensor(value: Any) -> bool:
    """Whether it is one, without importing torch for the answer."""
    return _are_tensors(type(value))


def is_image(value: Any) -> bool:
    """Whether it is an image of PIL, without importing it for the answer."""
    return _are_images(type(value))


_BYTES = (bytes, bytearray, memoryview)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _is_media_list(value: Any) -> bool:
    return _is_list(value) and all(
        isinstance(item, _BYTES) or is_image(item) for item in value)


# ---- numbers ----


def _changes_integers(array: np.ndarray, value: Any) -> bool:
    """Whether an array of floats made of a value has other integers than it."""
    if array.dtype.kind != "f" or not array.size or not (
            np.abs(array) >= _EXACT_FLOAT).any():
        return False
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, (list, tuple)):
            left.extend(one)
        elif isinstance(one, int) and float(one) != one:
            return True
    return False


def _number_array(value: Any) -> np.ndarray | None:
    """An array of the numbers in a value; None: it has others, or would change."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError, RuntimeError):
        return None
    if array.dtype.kind not in NUMERIC:
        return None
    try:
        return None if _changes_integers(array, value) else array
    except OverflowError:
        return None


def dtypes_of(arrays: Sequence[np.ndarray]) -> list[np.dtype]:
    """Their types of elements; each once, but for equal ones made apart."""
    dtypes = list(map(operator.attrgetter("dtype"), arrays))
    return list(dict(zip(map(id, dtypes), dtypes)).values())  # hashes are slow


def common_dtype(arrays: Sequence[np.ndarray]) -> np.dtype | None:
    """The type of elements that holds those of all arrays; None: there is none.

    Empty arrays, whose type says nothing about them, have no part in it.
    """
    types = dtypes_of(arrays)
    if len(types) > 1:
        types = dtypes_of([one for one in arrays if one.size]) or types
    try:
        common = np.result_type(*types) if types else np.dtype(np.int64)
    except TypeError:
        return None
    return common


def _list_arrays(rows: list[Any]) -> tuple[list[np.ndarray], np.dtype] | None:
    """Arrays of lists of numbers and the type that holds all of these.

    None: they are no such lists, or would change.
    """
    arrays = []
    for row in rows:
        array = _number_array(row)
        if array is None:
            return None
        arrays.append(array)
    common = common_dtype(arrays)
    if common is None or common.kind not in NUMERIC:
        return None
    whole = {array.dtype.kind for array in arrays if array.size}
    if common.kind == "f" and whole and whole <= set("biu"):
        return None  # of signed and unsigned integers of 64 bits
    return arrays, common


# ---- one column ----


def _of_tensors(rows: list[Any]) -> Decision:
    types = sorted({str(row.dtype) for row in rows})
    if len(types) > 1:
        return Decision(False, "ragged_tensor", "mixed tensor dtype: "
                        + ", ".join(types), "torch.Tensor")
    return Decision(True, "ragged_tensor", "all rows are tensors",
                    "torch.Tensor", {"dtype": types[0]})


def _of_arrays(rows: list[Any]) -> Decision:
    if all(dtype.kind in NUMERIC for dtype in dtypes_of(rows)):
        return Decision(True, "typed_ragged", "all rows are numeric arrays",
                        "numeric sequence", {"recursive_source": "ndarray"})
    return Decision(False, "typed_ragged", "rows are arrays, but not of numbers",
                    "numeric sequence")


def _of_sequences(rows: list[Any]) -> Decision:
    found = _list_arrays(rows)
    if found is not None:
        return Decision(True, "typed_ragged", "all rows are lists of numbers",
                        "numeric sequence", {"dtype": str(found[1])}, found[0])
    return Decision(True, "msgpack_ragged",
                    "all rows are dictionaries or lists", "msgpack")


def _of_numbers(rows: list[Any]) -> Decision | None:
    array = _number_array(rows)
    if array is not None:
        return Decision(True, "ndarray", "all rows are numbers",
                        "numeric scalar",
                        {"dtype": str(array.dtype)})
    if all(type(row) is float or (isinstance(row, int)
                                  and -(1 << 63) <= row < 1 << 64)
           for row in rows):
        return Decision(True, "msgpack_ragged", "no type of numbers holds all "
                        "rows", "numeric scalar")
    return None


def _of_lists(rows: list[Any]) -> Decision | None:
    if all(map(_is_media_list, rows)):
        return Decision(True, "media_list_ragged", "all rows are lists of media",
                        "media list")
    return _of_sequences(rows)


def _always(codec: str, reason: str, kind: str
            ) -> Callable[[list[Any]], Decision | None]:
    return lambda rows: Decision(True, codec, reason, kind)


def _subclass_of(*classes: type) -> Callable[[type], bool]:
    return lambda kind: issubclass(kind, classes)


# The first line whose test holds for the classes of all rows decides, unless it
# cannot.
_Rule = tuple[Callable[[type], bool], Callable[[list[Any]], Decision | None]]
_RULES: tuple[_Rule, ...] = (
    (_are_tensors, _of_tensors),
    (_subclass_of(np.ndarray), _of_arrays),
    (_subclass_of(list, tuple), _of_lists),
    (_subclass_of(bool, int, float, np.number, np.bool_), _of_numbers),
    (_subclass_of(*_BYTES),
     _always("bytes_ragged", "all rows are bytes", "bytes-like")),
    (_are_images, _always("media_bytes", "all rows are images", "media")),
    (_subclass_of(str), _always("utf8_ragged", "all rows are str", "str")),
    (_subclass_of(dict, list, tuple),
     _always("msgpack_ragged", "all rows are dictionaries or lists",
             "msgpack")),
)


def _with_values(values: Sequence[Any]) -> list[Any]:
    return [row for row in values if row is not None and row is not MISSING]


def _choose_leaf_codec(values: Sequence[Any]) -> Decision:
    rows = _with_values(values)
    if not rows:
        return Decision(False, "msgpack_ragged", "all rows are null", "null")
    kinds = set(map(type, rows))
    for holds, decide in _RULES:
        if all(map(holds, kinds)):
            decision = decide(rows)
            if decision is not None:
                return decision
    names = sorted({kind.__name__ for kind in kinds})
    return Decision(False, "msgpack_ragged",
                    f"no codec matched rows of {', '.join(names)}", "unknown")


# ---- structure ----


def _escape_key(key: str) -> str:
    return key.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[")


def dict_path(path: str, key: str) -> str:
    """The path of the column of a key of the dictionaries at a path."""
    return f"{path}.{_escape_key(key)}"


def list_path(path: str, index: int) -> str:
    """The path of the column of a place in the lists at a path."""
    return f"{path}[{index}]"


def _dict_keys(rows: list[Any]) -> list[str] | None:
    """The keys of a column of dictionaries; None: it is not, or of too many."""
    keys: set[str] = set()
    for row in rows:
        if not isinstance(row, dict) or not all(
                isinstance(key, str) for key in row):
            return None
        keys.update(row)
        if len(keys) > KEYS_MAX:
            return None
    return sorted(keys) if rows else None


def _list_length(rows: list[Any]) -> int | None:
    """The longest of a column of short lists of structures; None: it is not."""
    for row in rows:
        if not _is_list(row) or len(row) > ITEMS_MAX or not all(
                item is None or isinstance(item, (dict, list, tuple))
                for item in row):
            return None
    return max(map(len, rows)) if rows else None


def infer_structure(path: str, values: Sequence[Any], leaves: list[Leaf],
                    nodes: list[Node], depth: int = 0) -> None:
    """Append the nodes and the leaves of a column, parents before children.

    ValueError: it is nested more than DEPTH_MAX deep.
    """
    if depth > DEPTH_MAX:
        raise ValueError(f"{path}: nested more than {DEPTH_MAX} deep")
    values = list(values)
    rows = _with_values(values)
    keys, length = _dict_keys(rows), _list_length(rows)
    if keys is None and length is None:
        leaves.append(Leaf(path, values, _choose_leaf_codec(values)))
        return
    missing = [row is MISSING for row in values]
    mask = [row is not None and row is not MISSING for row in values]
    if keys is not None:
        nodes.append(Node(path, "dict", list(keys), missing, mask))
        for key in keys:
            infer_structure(dict_path(path, key), [
                row.get(key, MISSING) if there else None
                for row, there in zip(values, mask)], leaves, nodes, depth + 1)
        return
    nodes.append(Node(path, "list", list(range(length or 0)), missing, mask,
                      [len(row) if there else 0
                       for row, there in zip(values, mask)]))
    for i in range(length or 0):
        infer_structure(list_path(path, i), [
            (row[i] if i < len(row) else MISSING) if there else None
            for row, there in zip(values, mask)], leaves, nodes, depth + 1)
