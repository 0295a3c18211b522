# SPDX-License-Identifier: Apache-2.0
"""Members of objects as they are written: field specs, and payloads of tensors."""
from __future__ import annotations

import ctypes
import io
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from mooncake._structured.facade import replaceable
from mooncake._structured.manifest import payload_spec
from mooncake._structured.payloads import _DirectCopyPayload, _MultiBufferPayload
from mooncake._structured.transport import (
    Payload, Put, Transport, address_of, bytes_view, check_status, is_real,
    with_config)
from mooncake._structured.values import BundleTransferPolicy, TensorObjectBuffer


def is_tensor(value: object) -> bool:
    """Whether it is one, without importing torch for the answer."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def tensor_metadata_size() -> int:
    """Bytes before the data of a stored tensor; 0 without the extension."""
    try:
        from mooncake.store import _tensor_metadata_size

        return int(_tensor_metadata_size())
    except ImportError:
        return 0


# ---- field specs ----


def field_spec(name: str, value: Any) -> tuple[dict[str, Any], Any]:
    """How a member is told in the metadata, and what is to be written of it.

    TypeError: it cannot be a member.
    """
    if isinstance(value, TensorObjectBuffer):
        return {"encoding": "torch_tensor"}, value
    if isinstance(value, (_MultiBufferPayload, _DirectCopyPayload)):
        if value.dtype is None or value.shape is None:
            return {"encoding": "bytes"}, value
        return _array_spec(value.dtype, value.shape), value
    if is_tensor(value):
        return _tensor_spec(name, value)
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError(f"{name} must be bytes-like, an array of numbers or a "
                            f"tensor, not an array of {value.dtype}")
        whole = np.ascontiguousarray(value)  # of one dimension at least
        return _array_spec(whole.dtype.str, whole.shape), bytes_view(whole)
    try:
        return {"encoding": "bytes"}, bytes_view(value)
    except TypeError:
        raise TypeError(f"{name} must be bytes-like, an array or a tensor, not a "
                        f"{type(value).__name__}") from None


def _array_spec(dtype: str, shape: Any) -> dict[str, Any]:
    return {"encoding": "ndarray", "dtype": dtype,
            "shape": [int(n) for n in shape]}


def _tensor_spec(name: str, tensor: Any) -> tuple[dict[str, Any], Any]:
    spec: dict[str, Any] = {"encoding": "torch_tensor", "dtype": str(tensor.dtype)}
    if not tensor.is_nested:
        return spec | {"shape": [int(n) for n in tensor.shape],
                       "element_size": int(tensor.element_size())}, tensor
    if str(tensor.layout) != "torch.jagged":
        raise ValueError(f"{name}: a nested tensor must have the layout "
                         f"torch.jagged, not {tensor.layout}")
    parts = [tensor.values(), tensor.offsets()]
    lengths = tensor.lengths()
    if lengths is not None:
        parts.append(lengths)
    spec["nested"] = True
    if not replaceable("_has_tensor_codec_helpers")() or any(
            part.device.type != "cpu" for part in parts):
        return spec | {"format": "torch_save"}, _saved(tensor)
    views = [view for part in parts for view in serialized(part)]
    sizes = [views[i].nbytes + views[i + 1].nbytes
             for i in range(0, len(views), 2)]
    return spec | {
        "format": "tensor_parts", "part_bytes": sizes,
        "has_lengths": lengths is not None,
        "ragged_idx": int(getattr(tensor, "_ragged_idx", 1)),
    }, _MultiBufferPayload(tuple(views), (parts,))


def serialized(tensor: Any) -> list[memoryview]:
    """Metadata and data as the store lays tensors down."""
    from mooncake.store import _serialize_tensor

    head, addr, size, owner = _serialize_tensor(tensor)
    memory: Any = (ctypes.c_ubyte * size).from_address(addr) if size else b""
    if size:
        memory.owner = owner
    return [memoryview(head), memoryview(memory).cast("B")]


def _saved(tensor: Any) -> memoryview:
    from mooncake._needs import torch

    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    return buffer.getbuffer()


# ---- writing ----


class MemberWriter:
    """Writes the members of one object, with the arguments of one put."""

    def __init__(self, transport: Transport, chunk_bytes: int,
                 policy: BundleTransferPolicy, put: Put) -> None:
        self.transport = transport
        self.chunk_bytes = chunk_bytes
        self.policy = policy
        self.put = put
        self.config = put.config

    def write(self, key: str, value: Any) -> dict[str, Any]:
        """What field_spec() gave; returns the payload spec."""
        if isinstance(value, TensorObjectBuffer):
            return self._tensor_object(key, value)
        if is_tensor(value):
            return self._tensor(key, value)
        return self._payload(key, value, self.chunk_bytes)

    def _payload(self, key: str, payload: Payload,
                 chunk_bytes: int) -> dict[str, Any]:
        return self.transport.write(key, payload, chunk_bytes, self.policy,
                                    self.put)

    def _tensor_object(self, key: str, value: TensorObjectBuffer) -> dict[str, Any]:
        check_end(self.transport.store, key, value)
        store = self.transport.store
        self.put.keys.append(key)
        put_from = getattr(store, "put_from", None)
        put_tensor = getattr(store, "put_tensor_from", None)
        # put_tensor_from() of a real store looks at the bytes, which may be any.
        if (self.config is None and put_tensor is not None
                and not (self.transport.direct and put_from is not None)):
            check_status("put_tensor_from", key,
                         put_tensor(key, value.ptr, value.size))
        elif put_from is not None:
            check_status("put_from", key, put_from(
                key, value.ptr, value.size, **with_config(self.config, 1)))
        else:
            raise RuntimeError(f"{key}: the store has no put_from, which a "
                               "tensor_object_buffer needs")
        return payload_spec(key, [value.size])

    def _tensor(self, key: str, tensor: Any) -> dict[str, Any]:
        if self.policy.copy_mode == "zero_copy":
            raise ValueError(f"{key}: with copy_mode zero_copy a tensor must be a "
                             "BufferPool tensor-object buffer")
        shape = {"dtype": str(tensor.dtype),
                 "shape": [int(n) for n in tensor.shape]}
        if self.policy.copy_mode != "copy":
            spec = (self._add_tensor(key, tensor) if self.transport.direct
                    else self._put_tensor(key, tensor))
            if spec is not None:
                return spec | shape
            if self.transport.known_pool is not None:
                spec = self._put_serialized(key, tensor)
                if spec is not None:
                    return spec | shape
        if not replaceable("_has_tensor_codec_helpers")() or not tensor.dim():
            saved = _saved(tensor.detach())
            return self._payload(key, saved, max(saved.nbytes, 1)) | {
                "format": "torch_save"}
        views = serialized(tensor)
        size = sum(view.nbytes for view in views)
        return self._payload(key, _MultiBufferPayload(tuple(views)), size) | shape \
            | {"metadata_bytes": views[0].nbytes}

    def _add_tensor(self, key: str, tensor: Any) -> dict[str, Any]:
        """With what else is put, and as put_tensor() would."""
        from mooncake._tensors import suits
        from mooncake.store import _serialize_tensor

        try:
            if not suits(self.config):
                raise ValueError("preferred_segments are not one for each replica")
            head, addr, size, owner = _serialize_tensor(tensor)
        except (ValueError, RuntimeError) as error:
            raise RuntimeError(f"put_tensor failed for {key}: {error}") from None
        self.put.keys.append(key)
        self.put.add(key, [address_of(memoryview(head)), *([addr] if size else ())],
                     [len(head), *([size] if size else ())], (head, owner))
        return payload_spec(key, [len(head) + size]) | {
            "kind": "tensor", "metadata_bytes": len(head)}

    def _put_tensor(self, key: str, tensor: Any) -> dict[str, Any] | None:
        """By put_tensor() or pub_tensor(); None: the store has it not."""
        store = self.transport.store
        put = getattr(store, "put_tensor" if self.config is None else "pub_tensor",
                      None)
        if not callable(put):
            return None
        self.put.keys.append(key)
        check_status("put_tensor", key, put(key, tensor,
                                            **with_config(self.config, 1)))
        head = tensor_metadata_size()
        size = head + int(tensor.numel()) * int(tensor.element_size())
        return payload_spec(key, [size]) | {"kind": "tensor",
                                            "metadata_bytes": head}

    def _put_serialized(self, key: str, tensor: Any) -> dict[str, Any] | None:
        """From a lease of a pool; None: that could not be."""
        try:
            views = serialized(tensor)
            size = sum(view.nbytes for view in views)
            lease = self.transport.known_pool.acquire(size)
        except (RuntimeError, ImportError, AttributeError):
            return None
        try:
            at = lease.ptr
            for view in views:
                if view.nbytes:
                    ctypes.memmove(at, address_of(view), view.nbytes)
                at += view.nbytes
            self._tensor_object(key, TensorObjectBuffer(lease.ptr, size))
        except RuntimeError:
            return None
        finally:
            lease.release()
        return payload_spec(key, [size]) | {"metadata_bytes": views[0].nbytes}


def check_end(store: Any, key: str, place: Any) -> None:
    """ValueError: it begins in registered memory and ends behind it.

    The store sees only the parts of it that it copies.
    """
    left = store._registered_bytes(place.ptr) if is_real(store) else 0
    if left and place.size > left:
        raise ValueError(f"{key}: {place.size} bytes at {place.ptr:#x} run past "
                         f"the end of registered memory, which has {left} there")


def field_specs_of(metadata: Mapping[str, Any], key: str) -> dict[str, Any]:
    """ValueError: they are no mapping."""
    specs = metadata.get(key, {})
    if not isinstance(specs, dict) or not all(
            isinstance(spec, dict) for spec in specs.values()):
        raise ValueError(f"metadata: {key} must be a mapping of field specs")
    return specs
