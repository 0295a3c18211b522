# SPDX-License-Identifier: Apache-2.0
"""Tensors in structured objects and batches; skipped where there is no torch."""
from __future__ import annotations

import pytest
from mooncake.structured_object_store import (
    BundleTransferPolicy, FieldSchema, MooncakeBundleTransfer,
    StructuredObjectPayload, export_ref, tensor_object_buffer)
from pool import Memory

torch = pytest.importorskip("torch")
METADATA = 304
TENSORS = {
    "ids": torch.arange(24).reshape(6, 4), "half": torch.ones(6, 2).bfloat16(),
    "turned": torch.arange(12.0).reshape(2, 6).T, "empty": torch.empty(6, 0),
    "flags": torch.tensor([True, False] * 3)}


@pytest.fixture
def transfer(store):
    return MooncakeBundleTransfer(store, default_chunk_bytes=20)


def same(got: object, wanted: torch.Tensor) -> bool:
    return (isinstance(got, torch.Tensor) and got.dtype == wanted.dtype
            and torch.equal(got, wanted))


def test_tensors_come_back_as_they_were(transfer):
    ref = transfer.put({**TENSORS, "scalar": torch.tensor(3)})
    got = transfer.get(export_ref(ref))["batch"]
    assert all(same(got[name], TENSORS[name]) for name in TENSORS)
    assert same(got["scalar"], torch.tensor(3))
    rows = transfer.get(ref, fields=list(TENSORS), rows=[5, 1, 2])["batch"]
    assert all(same(rows[name], TENSORS[name][[5, 1, 2]]) for name in TENSORS)
    half = torch.empty(2, 2).bfloat16()
    got = transfer.get(ref, fields=["half"], rows=slice(1, 3),
                       destinations={"half": half})["batch"]["half"]
    assert got is half and same(half, TENSORS["half"][1:3])


def test_rows_of_tensors_come_back_as_they_were(transfer):
    ragged = [torch.arange(n) for n in range(3)] + [None]
    dicts = [{"a": torch.ones(2, 2)}, None, {}, {"b": torch.tensor(1)}]
    ref = transfer.put(
        {"ragged": ragged, "dicts": dicts, "batch": torch.ones(4)}, type="dict",
        field_schemas={"ragged": FieldSchema("ragged_tensor"),
                       "dicts": FieldSchema("ragged_tensor_dict")})
    got = transfer.get(ref, type="dict", rows=[0, 2, 3])
    assert same(got["ragged"][1], ragged[2]) and got["ragged"][2] is None
    assert same(got["dicts"][0]["a"], torch.ones(2, 2)) and got["dicts"][1] == {}
    assert same(got["dicts"][2]["b"], torch.tensor(1))


def test_tensor_objects_lie_in_buffers(transfer, store):
    memory, to = Memory(4096), Memory(4096)
    ids = TENSORS["ids"]
    assert store.put_tensor("laid", ids) == 0
    store.get_tensor_into("laid", memory.addr, memory.size)
    size = METADATA + 24 * 8
    zero_copy = BundleTransferPolicy(copy_mode="zero_copy")
    ref = transfer.put({"ids": tensor_object_buffer(
        memory.addr, size, memory, batch_size=6)}, policy=zero_copy)
    assert ref.batch_size == 6
    assert same(transfer.get(ref)["batch"]["ids"], ids)
    for one in (ref, transfer.put({"ids": ids})):
        got = transfer.get(one, destinations={
            "ids": tensor_object_buffer(to.addr, to.size, to)})["batch"]["ids"]
        assert same(got, ids) and got.data_ptr() == to.addr + METADATA
        assert to.read(0, size) == memory.read(0, size)
        with pytest.raises(ValueError, match="ids"):
            transfer.get(one, destinations={
                "ids": tensor_object_buffer(to.addr, size - 1, to)})
    with pytest.raises(ValueError, match="ids"):
        transfer.put({"ids": ids}, policy=zero_copy)
    with pytest.raises(ValueError, match="ids"):
        transfer.put({"ids": tensor_object_buffer(8, 4096, None, 6)})


def test_what_is_no_tensor_is_an_error(transfer, store):
    memory = Memory(4096)
    ref = transfer.put({"ids": tensor_object_buffer(
        memory.addr, 512, memory, batch_size=6)})
    with pytest.raises(ValueError, match="ids"):
        transfer.get(ref)
    with pytest.raises(TypeError, match="complex"):
        transfer.put_structured_object(StructuredObjectPayload(
            buffers={"ids": torch.ones(2, dtype=torch.complex64)}))
    bundle = transfer.put_structured_object(
        StructuredObjectPayload(buffers={"ids": TENSORS["ids"]}))
    for wrong in ("int64x", "__class__", 5, "float64 "):
        bundle.manifest["members"]["ids"]["torch"] = wrong
        with pytest.raises(ValueError, match="type"):
            transfer.materialize(transfer.read_spec(bundle))
