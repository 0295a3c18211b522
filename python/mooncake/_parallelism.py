# SPDX-License-Identifier: Apache-2.0
"""What part of a tensor a value is, or is wanted: classes of mooncake.store.

A shard lies under a key of its own, which its axes give. torch is not needed.
"""
from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from typing import Any

# Their numbers in stored metadata are their places here.
KINDS = ("dp", "tp", "ep", "pp")
MAX_AXES = 4
MAX_SHARDS = 1 << 16
# Kinds in keys: as they are, and as they were in values of older versions.
_KEY_ORDER, _OLD_KEY_ORDER = KINDS, ("dp", "pp", "ep", "tp")
MODES = ("as_stored", "shard", "full")


@dataclass
class ParallelAxis:
    """Of kind "dp", "tp", "ep" or "pp": shard rank of size.

    "tp" is split along split_dim, which the others have not; "ep" has an
    expert_id and "pp" a stage_id, which tell shards apart.
    """

    kind: str = ""
    rank: int = 0
    size: int = 1
    split_dim: int | None = None
    expert_id: int | None = None
    stage_id: int | None = None


@dataclass
class TensorParallelism:
    """The axes of a shard, at most one of each kind."""

    axes: list[ParallelAxis] = field(default_factory=list)


@dataclass
class ReadTarget:
    """What to read: "as_stored", a "shard" of any split, or the "full" tensor."""

    mode: str = "as_stored"
    parallelism: TensorParallelism | None = None

    def __setattr__(self, name: str, value: object) -> None:
        if name == "mode":
            value = _mode(value)
        super().__setattr__(name, value)


def _mode(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"mode must be a str, not {type(value)}")
    if value.lower() not in MODES:
        raise RuntimeError(f"Unsupported ReadTarget mode: {value!r}")
    return value.lower()


def _number(value: Any, name: str, low: int, high: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, not {type(value)}") from None
    if not low <= number < high:
        raise ValueError(f"{name} is {number}")
    return number


def _optional(value: object, name: str) -> int | None:
    return None if value is None else _number(value, name, 0, 1 << 31)


_NEEDED = {"tp": "split_dim", "ep": "expert_id", "pp": "stage_id"}


def _axis(one: object) -> ParallelAxis:
    kind = getattr(one, "kind", None)
    if not isinstance(kind, str) or kind.lower() not in KINDS:
        raise ValueError(f"an axis of the kind {kind!r}")
    kind = kind.lower()
    size = _number(getattr(one, "size", None), "size of an axis", 1,
                   MAX_SHARDS + 1)
    axis = ParallelAxis(
        kind, _number(getattr(one, "rank", None), "rank of an axis", 0, size),
        size, *(_optional(getattr(one, name, None), name)
                for name in ("split_dim", "expert_id", "stage_id")))
    if kind in _NEEDED and getattr(axis, _NEEDED[kind]) is None:
        raise ValueError(f"an axis of the kind {kind!r} needs a {_NEEDED[kind]}")
    if kind != "tp" and axis.split_dim is not None:
        raise ValueError(f"an axis of the kind {kind!r} has no split_dim")
    return axis


def axes_of(parallelism: object) -> list[ParallelAxis]:
    """None has no axes. ValueError: it cannot be so."""
    if parallelism is None:
        return []
    axes = getattr(parallelism, "axes", None)
    if not isinstance(axes, (list, tuple)) or not axes:
        raise ValueError("parallelism has no axes")
    axes = list(map(_axis, axes))
    if len({axis.kind for axis in axes}) != len(axes):
        raise ValueError("two axes are of one kind")
    return axes


def writer_axis(partition: object) -> ParallelAxis | None:
    """Of a writer_partition: (rank, size, split_dim), or what has these names."""
    if partition is None:
        return None
    names = ("rank", "size", "split_dim")
    if isinstance(partition, dict):
        parts = [partition.get(name, 0) for name in names]
    elif isinstance(partition, (list, tuple)) and len(partition) == len(names):
        parts = list(partition)
    elif all(hasattr(partition, name) for name in names):
        parts = [getattr(partition, name) or 0 for name in names]
    else:
        raise ValueError("writer_partition must have rank, size and split_dim")
    return _axis(ParallelAxis("tp", *parts))


def target_of(target: object) -> tuple[str, list[ParallelAxis]]:
    """Mode and axes. ValueError: it cannot be so."""
    if target is None:
        return "as_stored", []
    try:
        mode = _mode(getattr(target, "mode", None))
    except (TypeError, RuntimeError) as error:
        raise ValueError(str(error)) from None
    axes = axes_of(getattr(target, "parallelism", None))
    if mode == "shard" and not axes:
        raise ValueError("which shard? its parallelism has no axes")
    if mode == "as_stored" and axes:
        raise ValueError("what is stored as it is has no parallelism")
    if mode == "full" and axes and not tensor_axis(axes):
        raise ValueError("a whole is of shards of a \"tp\" axis")
    return mode, axes


def tensor_axis(axes: list[ParallelAxis]) -> ParallelAxis | None:
    """That of tensor parallelism, whose shards make up the whole."""
    return next((axis for axis in axes if axis.kind == "tp"), None)


def with_shard(axes: list[ParallelAxis], rank: int,
               size: int) -> list[ParallelAxis]:
    """The same, but of another shard of tensor parallelism."""
    return [replace(axis, rank=rank, size=size) if axis.kind == "tp" else axis
            for axis in axes]


# ---- keys ----


def _key(key: str, axes: list[ParallelAxis], order: tuple[str, ...]) -> str:
    if len(axes) == 1 and axes[0].kind == "tp":
        return f"{key}_tp_{axes[0].rank}"
    for axis in sorted(axes, key=lambda axis: order.index(axis.kind)):
        key += f"__{axis.kind}_{axis.rank}of{axis.size}"
        for name, value in (("sd", axis.split_dim), ("eid", axis.expert_id),
                            ("sid", axis.stage_id)):
            key += "" if value is None else f"_{name}{value}"
    return key


def shard_key(key: str, axes: list[ParallelAxis]) -> str:
    return _key(key, axes, _KEY_ORDER)


def old_shard_key(key: str, axes: list[ParallelAxis]) -> str:
    """Where an older version has stored it; mostly the same."""
    return _key(key, axes, _OLD_KEY_ORDER)


def writer_key(key: str, axis: ParallelAxis) -> str:
    return f"{key}__writer_{axis.rank}of{axis.size}_sd{axis.split_dim}"


def writer_manifest_key(key: str) -> str:
    return f"{key}__writer_manifest"


def manifest_key(key: str) -> str:
    return f"{key}__parallelism_manifest"
