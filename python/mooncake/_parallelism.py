# SPDX-License-Identifier: Apache-2.0
"""What part of a tensor a value is, or is wanted: classes of mooncake.store.

A shard lies under a key of its own, which its axes give. torch is not needed.
"""
from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace

# Their numbers in stored metadata are their places here.
KINDS = ("dp", "tp", "ep", "pp")
MAX_AXES = 4
MAX_SHARDS = 1 << 16
_KEY_ORDER = ("dp", "pp", "ep", "tp")


@dataclass
class ParallelAxis:
    """Of kind "dp", "tp", "ep" or "pp": shard rank of size, split along split_dim.

    expert_id and stage_id only tell shards apart.
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


def _number(value: object, name: str, low: int, high: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value)}") from None
    if not low <= number < high:
        raise ValueError(f"{name} is {number}")
    return number


def _optional(value: object, name: str) -> int | None:
    return None if value is None else _number(value, name, 0, 1 << 31)


def _axis(one: object) -> ParallelAxis:
    kind = getattr(one, "kind", None)
    if not isinstance(kind, str):
        raise TypeError(f"parallelism: an axis must be a ParallelAxis, not {type(one)}")
    if kind.lower() not in KINDS:
        raise ValueError(f"kind of an axis is {kind!r}")
    size = _number(one.size, "size of an axis", 1, MAX_SHARDS + 1)
    return ParallelAxis(
        kind.lower(), _number(one.rank, "rank of an axis", 0, size), size,
        _optional(one.split_dim, "split_dim"),
        _optional(one.expert_id, "expert_id"),
        _optional(one.stage_id, "stage_id"))


def axes_of(parallelism: object) -> list[ParallelAxis]:
    """In the order of keys; None has no axes.

    TypeError: it is no TensorParallelism. ValueError: it cannot be so.
    """
    if parallelism is None:
        return []
    if not isinstance(getattr(parallelism, "axes", None), (list, tuple)):
        raise TypeError("parallelism must be a TensorParallelism, "
                        f"not {type(parallelism)}")
    axes = sorted(map(_axis, parallelism.axes),
                  key=lambda axis: _KEY_ORDER.index(axis.kind))
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
        raise TypeError("writer_partition must have rank, size and split_dim")
    return _axis(ParallelAxis("tp", *parts))


def target_of(target: object) -> tuple[str, list[ParallelAxis]]:
    """Mode and axes; TypeError or ValueError as of axes_of()."""
    if target is None:
        return "as_stored", []
    mode = getattr(target, "mode", None)
    if not isinstance(mode, str):
        raise TypeError(f"target must be a ReadTarget, not {type(target)}")
    axes = axes_of(target.parallelism)
    if mode not in ("as_stored", "shard", "full"):
        raise ValueError(f"mode of the target is {mode!r}")
    if mode == "shard" and not axes:
        raise ValueError("which shard? its parallelism has no axes")
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


def shard_key(key: str, axes: list[ParallelAxis]) -> str:
    if len(axes) == 1 and axes[0].kind == "tp":
        return f"{key}_tp_{axes[0].rank}"
    for axis in axes:
        key += f"__{axis.kind}_{axis.rank}of{axis.size}"
        for name, value in (("sd", axis.split_dim), ("eid", axis.expert_id),
                            ("sid", axis.stage_id)):
            key += "" if value is None else f"_{name}{value}"
    return key


def writer_key(key: str, axis: ParallelAxis) -> str:
    return f"{key}__writer_{axis.rank}of{axis.size}_sd{axis.split_dim}"


def writer_manifest_key(key: str) -> str:
    return f"{key}__writer_manifest"


def manifest_key(key: str) -> str:
    return f"{key}__parallelism_manifest"
