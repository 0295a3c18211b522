# SPDX-License-Identifier: Apache-2.0
"""What callers of mooncake.structured_object_store give and get."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class BundleTransferPolicy:
    """How payloads are written; checked_policy() refuses what cannot be."""

    max_inflight_put: int = 1
    put_mode: str = "auto"
    copy_mode: str = "auto"


_PUT_MODES = ("auto", "batch", "parallel")
_COPY_MODES = ("auto", "zero_copy", "copy")


def checked_policy(policy: BundleTransferPolicy | None,
                   max_inflight_put: int | None = None) -> BundleTransferPolicy:
    """ValueError: a value that no policy has. max_inflight_put overrides it."""
    policy = policy or BundleTransferPolicy()
    if max_inflight_put is not None:
        policy = replace(policy, max_inflight_put=max_inflight_put)
    if policy.max_inflight_put < 1:
        raise ValueError("max_inflight_put must be positive, not "
                         f"{policy.max_inflight_put!r}")
    if policy.put_mode not in _PUT_MODES:
        raise ValueError(f"put_mode must be one of {_PUT_MODES}, not "
                         f"{policy.put_mode!r}")
    if policy.copy_mode not in _COPY_MODES:
        raise ValueError(f"copy_mode must be one of {_COPY_MODES}, not "
                         f"{policy.copy_mode!r}")
    return policy


@dataclass
class RemoteBundleRef:
    """Where an object lies; an empty manifest is read when it is needed."""

    manifest_key: str
    manifest: dict[str, Any]


@dataclass(frozen=True, init=False)
class StructuredObjectPayload:
    """What to store: metadata for JSON, and members by name."""

    metadata: Mapping[str, Any]
    buffers: Mapping[str, Any]

    def __init__(self, metadata: Mapping[str, Any] | None = None,
                 buffers: Mapping[str, Any] | None = None) -> None:
        if buffers is None:
            raise TypeError("buffers must be a mapping of members, not None")
        object.__setattr__(self, "metadata", {} if metadata is None else metadata)
        object.__setattr__(self, "buffers", buffers)


@dataclass
class StructuredObjectResult:
    """Metadata with the field specs, and members by name."""

    metadata: dict[str, Any]
    objects: dict[str, Any]


@dataclass(frozen=True)
class StructuredFieldLocation:
    """Where a field is: a member of the object of a stage."""

    stage: str
    member: str
    section: str


@dataclass
class MooncakeDataProtoRef:
    """Where a batch is: the objects of its stages, and which field is in which."""

    batch_size: int
    stage_refs: dict[str, RemoteBundleRef]
    field_index: dict[str, StructuredFieldLocation]
    meta_info: dict[str, Any]
    namespace: str = "default"
    partition: str = "default"
    global_indexes: list[int] | None = None
    encoded_non_tensor: dict[str, Any] = field(default_factory=dict)
    _storage_group_id: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class StructuredMemberSlice:
    """Rows start to end of a member, each step-th, as slices of Python are.

    They are checked when they are read: the axis has to be 0.
    """

    axis: int
    start: int
    end: int
    step: int = 1

    def rows_of(self, n_rows: int) -> range:
        """ValueError: it is none of rows in their order."""
        if self.axis != 0:
            raise ValueError(f"slices of members are of axis=0, not {self.axis!r}")
        return rows_of_slice(slice(self.start, self.end, self.step), n_rows)


def rows_of_slice(rows: slice, n_rows: int) -> range:
    """ValueError: they are not in their order."""
    if rows.step is not None and rows.step <= 0:
        raise ValueError(f"step must be positive, not {rows.step!r}")
    return range(*rows.indices(n_rows))


@dataclass(frozen=True)
class StructuredObjectReadSpec:
    """What to read of an object; each method makes another, and checks nothing."""

    ref: RemoteBundleRef | Mapping[str, Any]
    member_names: tuple[str, ...] | None = None
    member_slices: tuple[tuple[str, StructuredMemberSlice], ...] = ()

    def select_members(
            self, names: Sequence[str] | None) -> StructuredObjectReadSpec:
        """Only these; None: all."""
        return replace(self, member_names=None if names is None else tuple(names))

    def slice_member(self, name: str, axis: int, start: int, end: int,
                     step: int = 1) -> StructuredObjectReadSpec:
        """These rows of the member alone, instead of others said before."""
        slices = dict(self.member_slices)
        slices[name] = StructuredMemberSlice(axis, start, end, step)
        return replace(self, member_slices=tuple(slices.items()))

    def member_slice(self, name: str) -> StructuredMemberSlice | None:
        """What slice_member() said; None: nothing."""
        return dict(self.member_slices).get(name)


@dataclass(frozen=True)
class TensorObjectBuffer:
    """A tensor as it is stored, at an address, which owner keeps there."""

    ptr: int
    size: int
    owner: Any = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ptr", int(self.ptr))
        object.__setattr__(self, "size", int(self.size))

    def __len__(self) -> int:
        if self.batch_size is None:
            raise TypeError("a tensor_object_buffer has rows when its batch_size "
                            "is given")
        return int(self.batch_size)


@dataclass(frozen=True)
class RawDestination:
    """Memory to read to, which owner keeps there.

    With pre_registered the store knows it: rows go straight to it.
    """

    ptr: int
    size: int
    owner: Any = None
    pre_registered: bool = False


def tensor_object_buffer(ptr: int, size: int, owner: Any = None,
                         batch_size: int | None = None) -> TensorObjectBuffer:
    """A member whose bytes are stored as they are, or where to read one to."""
    return TensorObjectBuffer(ptr, size, owner, batch_size)


def raw_destination(ptr: int, size: int, owner: Any = None, *,
                    pre_registered: bool = False) -> RawDestination:
    """Where to read a member to."""
    return RawDestination(int(ptr), int(size), owner, pre_registered)
