# SPDX-License-Identifier: Apache-2.0
"""Results that lie in memory of a BufferPool, and how it is given back.

An array of the pool knows its owner, as do its views and what is made of them;
copies do not, they have memory of their own.
"""
from __future__ import annotations

import copy
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

OWNER = "_mooncake_pool_owner"


class PoolOwner:
    """Holds the lease that results lie in until release(), or until none is left.

    A lease that still has views is not released but dropped: its memory goes back
    to the pool with the last of them, so no view ever shows what came later.
    """

    any_made = False  # in this process

    def __init__(self, lease: Any) -> None:
        self._lease = lease
        PoolOwner.any_made = True

    def release(self) -> None:
        """Give the lease back; once more does nothing."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            lease.release()
        except RuntimeError:  # there are views
            pass

    def __del__(self) -> None:
        self.release()


class PoolArray(np.ndarray):
    """An array in memory of a pool, or a view of one."""

    _mooncake_pool_owner: PoolOwner | None = None

    def __array_finalize__(self, source: Any) -> None:
        if self.base is not None:
            self._mooncake_pool_owner = getattr(source, OWNER, None)

    def __array_wrap__(self, result: Any, context: Any = None,
                       return_scalar: bool = False) -> Any:
        """What is computed from it lies elsewhere, unless it was given as out."""
        return (result[()] if return_scalar and type(result) is np.ndarray
                else result)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return np.array(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """An ordinary array is what another process gets."""
        return self.view(np.ndarray).__reduce_ex__(protocol)


class PoolRows(list[Any]):
    """Rows of which some lie in memory of a pool."""

    _mooncake_pool_owner: PoolOwner | None = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        """An ordinary list is what a copy and another process get."""
        return list, (), None, iter(self)


class PoolRowArray(np.ndarray):
    """An object array of rows of which some lie in memory of a pool."""

    _mooncake_pool_owner: PoolOwner | None = None

    def __array_finalize__(self, source: Any) -> None:
        self._mooncake_pool_owner = getattr(source, OWNER, None)

    def tolist(self) -> Any:
        """The rows, which keep their owner."""
        return with_owner(super().tolist(), self._mooncake_pool_owner)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.view(np.ndarray), memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """An ordinary array is what another process gets."""
        return self.view(np.ndarray).__reduce_ex__(protocol)


def pool_array(lease: Any, dtype: np.dtype, shape: tuple[int, ...]) -> PoolArray:
    """An array at the begin of a lease, which it holds from now on."""
    count = int(np.prod(shape, dtype=np.int64))
    flat = np.frombuffer(lease.buffer, dtype, count)
    array: PoolArray = flat.reshape(shape).view(PoolArray)
    array._mooncake_pool_owner = PoolOwner(lease)
    return array


def owner_of(value: Any) -> PoolOwner | None:
    """The owner of the memory that a result lies in."""
    return getattr(value, OWNER, None)


def with_owner(rows: list[Any], owner: PoolOwner | None) -> list[Any]:
    """Rows that lie in memory of an owner, if there is one."""
    if owner is None:
        return rows
    made = PoolRows(rows)
    made._mooncake_pool_owner = owner
    return made


def row_array(rows: list[Any]) -> np.ndarray:
    """A one-dimensional object array of rows, with the owner of their memory."""
    # An assignment to a slice would unpack rows of one shape.
    array = np.fromiter(rows, object, len(rows))
    owner = owner_of(rows)
    if owner is None:
        return array
    made = array.view(PoolRowArray)
    made._mooncake_pool_owner = owner
    return made


# Most values of most results: they have no owner, and nothing is within them.
_LEAVES = frozenset((str, bytes, int, float, bool, type(None)))
_LEAVES_AND_ARRAYS = _LEAVES | {np.ndarray}
_has_objects = operator.attrgetter("dtype.hasobject")


def _may_have_owners(values: Iterable[Any]) -> list[Any]:
    """Those that may have an owner, or values within them that have one."""
    values = list(values)
    kinds = set(map(type, values))
    if kinds <= _LEAVES:
        return []
    if kinds <= _LEAVES_AND_ARRAYS:
        if not PoolOwner.any_made:  # what is in such an array would be ours
            return []
        arrays = (values if len(kinds) == 1 else
                  [one for one in values if type(one) is np.ndarray])
        return ([one for one in arrays if one.dtype.hasobject]
                if any(map(_has_objects, arrays)) else [])
    return [one for one in values if type(one) not in _LEAVES]


def _within(value: Any) -> Iterable[Any]:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.dtype.hasobject else ()
    if isinstance(value, (dict, Mapping)):  # a dict is found quickly
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def release_result(result: Any) -> None:
    """Give back the memory of pools that a result lies in.

    The result must not be used afterwards. Once more does nothing.
    """
    left, seen, released = [result], set(), set()
    while left:
        value = left.pop()
        owner = owner_of(value)
        if owner is None:
            within = _within(value)
            if within and id(value) not in seen:
                seen.add(id(value))
                left.extend(_may_have_owners(within))
        elif id(owner) not in released:
            released.add(id(owner))
            owner.release()
