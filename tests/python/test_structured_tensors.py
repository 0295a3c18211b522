# SPDX-License-Identifier: Apache-2.0
"""Tensors in structured objects and batches; skipped where there is no torch."""
from __future__ import annotations

import ctypes
import subprocess
import sys
from types import SimpleNamespace

import mooncake.store
import numpy as np
import pytest
from mooncake import structured_object_store as sos
from mooncake._structured import reading
from mooncake.buffer_pool import BufferPool
from mooncake.structured_object_store import (
    BundleTransferPolicy, FieldSchema, MooncakeBundleTransfer,
    StructuredObjectPayload, export_ref, raw_destination, tensor_object_buffer)
from pool import Memory
from recorded import FastStore, Pool

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
    ref = transfer.put(TENSORS)
    got = transfer.get(export_ref(ref))["batch"]
    assert all(same(got[name], TENSORS[name]) for name in TENSORS)
    for chosen in ([5, 1, 1], slice(1, 4), slice(3, 1), []):
        at = list(range(6))[chosen] if isinstance(chosen, slice) else chosen
        rows = transfer.get(ref, rows=chosen)["batch"]
        assert all(same(rows[name], TENSORS[name][at]) for name in TENSORS)
    with pytest.raises(ValueError, match="step=1"):
        transfer.get(ref, rows=slice(0, 6, 2))
    scalar = transfer.put_object(torch.tensor(3))
    assert same(transfer.get_object(scalar), torch.tensor(3))


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
        assert to.read(0, size) == memory.read(0, size)
        assert got.ptr == to.addr if one is ref else same(got, ids)
        with pytest.raises(ValueError, match="ids: expected at least"):
            transfer.get(one, destinations={
                "ids": tensor_object_buffer(to.addr, size - 1, to)})
        with pytest.raises(ValueError, match="ids"):
            transfer.get(one, destinations={"ids": torch.empty(6, 4)})
    got = transfer.get(one, rows=[4, 4], destinations={
        "ids": raw_destination(to.addr, to.size)})["batch"]["ids"]
    assert got.ptr == to.addr
    assert same(mooncake.store._deserialize_tensor(
        to.read(0, METADATA + 2 * 4 * 8)), ids[[4, 4]])
    with pytest.raises(ValueError, match="missing slice metadata"):
        transfer.get(ref, rows=[1])
    with pytest.raises(ValueError, match="ids"):
        transfer.put({"ids": ids}, policy=zero_copy)
    with pytest.raises(RuntimeError, match="ids: -600"):
        transfer.put({"ids": tensor_object_buffer(8, 4096, None, 6)})


def test_what_is_no_tensor_is_an_error(transfer, store):
    memory = Memory(4096)
    ref = transfer.put({"ids": tensor_object_buffer(
        memory.addr, 512, memory, batch_size=6)})
    with pytest.raises(ValueError, match="ids"):
        transfer.get(ref)
    with pytest.raises(RuntimeError, match="put_tensor failed for .*ids"):
        transfer.put({"ids": torch.ones(2, dtype=torch.complex64)})
    bundle = transfer.put_structured_object(
        StructuredObjectPayload(buffers={"ids": TENSORS["ids"]}),
        chunk_bytes=4096)
    meta = bundle.manifest["meta"]["key"]
    whole = store.get(meta)
    for wrong in (b'"int64"', b'"torch.int66"', b'"torch.float"',
                  b'"torch.nn"', b"5"):
        changed = whole.replace(b'"torch.int64"', wrong.ljust(13))
        assert store.upsert(meta, changed) == 0
        with pytest.raises(ValueError, match="ids"):
            transfer.materialize(transfer.read_spec(bundle))


@pytest.mark.parametrize("helpers", [True, False])
def test_nested_tensors_are_stored_by_parts(transfer, monkeypatch, helpers):
    monkeypatch.setattr(sos, "_has_tensor_codec_helpers", lambda: helpers)
    parts = [torch.arange(3.0).reshape(3, 1), torch.ones(1, 1), torch.empty(0, 1)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
    ref = transfer.put_object({"n": nested})
    monkeypatch.undo()
    spec = transfer.read_spec(ref).select_members(["n"])
    fields = transfer.materialize(spec).metadata[sos.STRUCTURED_FIELD_SPECS_KEY]
    assert fields["n"]["format"] == (
        "tensor_parts" if helpers else "torch_save")
    assert "shape" not in fields["n"]

    def rows(got: torch.Tensor) -> list[torch.Tensor]:
        assert got.is_nested and got.layout == torch.jagged
        return list(got.unbind())

    got = rows(transfer.get_object(ref)["n"])
    assert all(map(same, got, parts)) and len(got) == 3
    part = transfer.materialize(spec.slice_member("n", 0, 0, 3, 2)).objects["n"]
    assert all(map(same, rows(part), parts[::2]))
    empty = transfer.materialize(spec.slice_member("n", 0, 2, 1)).objects["n"]
    assert rows(empty) == []
    with pytest.raises(ValueError, match="destinations"):
        transfer.materialize_into(spec, {"n": raw_destination(8, 8)})
    strided = torch.nested.nested_tensor(parts)
    with pytest.raises(ValueError, match="torch.jagged"):
        transfer.put_object({"n": strided})


def test_nested_tensors_are_read_by_who_has_made_none(transfer, master, monkeypatch):
    monkeypatch.setattr(sos, "_has_tensor_codec_helpers", lambda: False)
    ref = transfer.put_object({"n": torch.nested.nested_tensor(
        [torch.arange(3.0), torch.ones(1)], layout=torch.jagged)})
    script = (
        "from mooncake.store import *\n"
        "from mooncake.structured_object_store import *\n"
        "s = MooncakeDistributedStore()\n"
        f"assert s.setup('127.0.0.1', 'P2PHANDSHAKE', 0, 0, 'tcp', '', "
        f"'{master.address}') == 0\n"
        "t = MooncakeBundleTransfer(s)\n"
        f"n = t.get_object({{'manifest_key': '{ref.manifest_key}'}})['n']\n"
        "assert [len(one) for one in n.unbind()] == [3, 1]\n")
    subprocess.run([sys.executable, "-c", script], check=True)


class Wrapped:
    """A store that is none of this package's, for who looks at its type."""

    def __init__(self, store: object) -> None:
        self.store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)


def objects(rows: list) -> np.ndarray:
    array = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        array[i] = row
    return array


@pytest.mark.parametrize("chunk_bytes", [64, None])
@pytest.mark.parametrize("copy_mode", ["auto", "copy"])
@pytest.mark.parametrize("kind", ["direct", "pool", "wrapped"])
def test_what_one_kind_writes_the_others_read(store, kind, copy_mode, chunk_bytes):
    pool = BufferPool(store) if kind == "pool" else None
    writer = MooncakeBundleTransfer(Wrapped(store) if kind == "wrapped" else store,
                                    "x", buffer_pool=pool)
    ids = np.arange(600).reshape(6, 100)
    ref = writer.put({
        "batch": {"ids": ids, "t": torch.arange(12).reshape(6, 2)},
        "non_tensor_batch": {
            "ragged": objects([np.arange(n) for n in range(6)]),
            "apart": objects([{"a": torch.arange(n), "b": [b"x"] * n}
                              for n in range(6)])}},
        chunk_bytes=chunk_bytes, policy=BundleTransferPolicy(2, "auto", copy_mode))
    for reader in (writer, MooncakeBundleTransfer(store, "x")):
        for rows in (None, slice(1, 4), [5, 0, 0]):
            at = list(range(6))[rows] if isinstance(rows, slice) else (
                rows or list(range(6)))
            got = reader.get(export_ref(ref), rows=rows)
            assert np.array_equal(got["batch"]["ids"], ids[at])
            assert got["batch"]["t"][:, 0].tolist() == [2 * n for n in at]
            others = got["non_tensor_batch"]
            assert [len(one) for one in others["ragged"]] == at
            assert [len(one["a"]) for one in others["apart"]] == at
            assert [len(one["b"]) for one in others["apart"]] == at
            reader.release_result(got)
            del got, others
    more = writer.append_dataproto_fields(ref, {"n": np.arange(6)}, stage="default")
    writer.cleanup_dataproto(more)
    assert store.remove_by_regex("^x/") == 0
    if pool is not None:
        pool.close()


# ---- stores of any kind ----


class TensorStore(FastStore):
    def put_tensor(self, key: str, tensor: torch.Tensor) -> int:
        self.values[key] = laid_down(tensor)
        return self.note("put_tensor", key)

    def pub_tensor(self, key: str, tensor: torch.Tensor, config: object) -> int:
        self.values[key] = laid_down(tensor)
        return self.note("pub_tensor", key, config)

    def get_tensor(self, key: str) -> torch.Tensor:
        self.note("get_tensor", key)
        return mooncake.store._deserialize_tensor(self.values[key])

    def get_tensor_into(self, key: str, ptr: int, size: int) -> None:
        self.note("get_tensor_into", key, ptr, size)


def laid_down(tensor: torch.Tensor) -> bytes:
    head, addr, size, _ = mooncake.store._serialize_tensor(tensor)
    return bytes(head) + ctypes.string_at(addr, size)


def put(store, policy: BundleTransferPolicy | None = None, pool: object = None,
        config: object = None, value: torch.Tensor = TENSORS["ids"],
        ) -> tuple[MooncakeBundleTransfer, dict]:
    transfer = MooncakeBundleTransfer(store, buffer_pool=pool)
    store.ref = transfer.put_object({"ids": value}, policy=policy, config=config)
    return transfer, store.ref.manifest["buffers"]["ids"]


def read(transfer, *rows: int, to: object = None) -> object:
    spec = transfer.read_spec(transfer.store.ref).select_members(["ids"])
    if rows:
        spec = spec.slice_member("ids", 0, *rows)
    return transfer.materialize_into(spec, {"ids": to}).objects["ids"]


def test_a_tensor_is_put_by_what_the_store_has(monkeypatch):
    ids, config = TENSORS["ids"], SimpleNamespace()
    store = TensorStore()
    transfer, spec = put(store)
    size = METADATA + 24 * 8
    assert spec == {
        "key": spec["key"], "bytes": size, "kind": "tensor",
        "chunks": [{"key": spec["key"], "bytes": size}],
        "metadata_bytes": METADATA, "dtype": "torch.int64", "shape": [6, 4]}
    assert "put_tensor" in store.names()
    assert same(read(transfer), ids) and store.names()[-1] == "get_tensor"
    assert same(read(transfer, 2, 4), ids[2:4])
    place = tensor_object_buffer(ids.data_ptr(), 8)
    assert read(transfer, to=place) is place
    assert store.calls[-1] == ("get_tensor_into", spec["key"], ids.data_ptr(), 8)
    put(store, config=config)
    assert store.calls[-2][0] == "pub_tensor" and store.calls[-2][2] is config
    store.codes["put_tensor"] = -1
    with pytest.raises(RuntimeError, match="put_tensor failed"):
        put(store)

    store = FastStore()
    transfer, spec = put(store)
    assert "kind" not in spec and store.names()[1] == "put"
    assert same(read(transfer), ids) and same(read(transfer, 2, 4), ids[2:4])
    transfer, spec = put(store, pool=Pool())
    assert store.names()[-2:] == ["put_from", "put"]
    assert same(read(transfer), ids) and same(read(transfer, 2, 4), ids[2:4])
    memory = torch.zeros(size, dtype=torch.uint8)
    place = raw_destination(memory.data_ptr(), size)
    store.calls.clear()
    assert read(transfer, to=place) is place
    assert store.names()[3:] == ["get_into_ranges"]
    assert memory.numpy().tobytes() == laid_down(ids)
    with pytest.raises(ValueError, match="expected at least"):
        read(transfer, to=raw_destination(memory.data_ptr(), size - 1))

    monkeypatch.setattr(sos, "_has_tensor_codec_helpers", lambda: False)
    assert same(read(transfer), ids)  # it is of writers only
    transfer, spec = put(store, BundleTransferPolicy(copy_mode="copy"))
    assert spec["format"] == "torch_save" and len(spec["chunks"]) == 1
    assert same(read(transfer), ids) and same(read(transfer, 0, 6, 2), ids[::2])
    with pytest.raises(ValueError, match="does not support destinations"):
        read(transfer, 0, 1, to=place)


def test_without_the_extension_tensors_are_saved_by_torch(monkeypatch):
    store = FastStore()
    transfer, spec = put(store)
    monkeypatch.setitem(sys.modules, "mooncake.store", SimpleNamespace())
    with pytest.raises(RuntimeError, match="_deserialize_tensor"):
        read(transfer)
    transfer, spec = put(store)
    assert spec["format"] == "torch_save"
    assert same(read(transfer), TENSORS["ids"])


def test_a_tensor_without_zero_copy_is_refused():
    with pytest.raises(ValueError, match="BufferPool tensor-object buffer"):
        put(TensorStore(), BundleTransferPolicy(copy_mode="zero_copy"))


def test_fields_are_read_by_one_operation(store, monkeypatch):
    """Those that are not encoded, of all rows; the others one by one."""
    transfer = MooncakeBundleTransfer(store, default_chunk_bytes=20)
    data = {**TENSORS, "numbers": np.arange(12).reshape(6, 2),
            "names": np.array(["a", "bc", "", "d", "e", "f"])}
    ref = transfer.put(data)
    calls = []
    read = transfer._transport.get_into_ranges
    monkeypatch.setattr(transfer._transport, "get_into_ranges",
                        lambda to, *rest: calls.append(len(to)) or read(to, *rest))
    got = transfer.get(ref, type="dict")
    assert all(same(got[name], TENSORS[name]) for name in TENSORS)
    assert all(np.array_equal(got[name], data[name]) for name in ("numbers", "names"))
    assert calls == [6]  # nothing is read of the empty one
    calls.clear()
    transfer.get(ref, fields=["ids", "half"], rows=[1, 2])
    assert calls == [1, 1]
    calls.clear()
    monkeypatch.setattr(reading, "_TOGETHER_MAX", TENSORS["ids"].nbytes)
    got = transfer.get(ref, type="dict")
    assert all(same(got[name], TENSORS[name]) for name in TENSORS)
    assert sum(calls) == 6 and len(calls) > 1


def test_fields_of_one_member_have_memory_of_their_own(store):
    transfer = MooncakeBundleTransfer(store)
    handle = export_ref(transfer.put({"a": np.arange(6), "b": np.arange(6)}))
    handle["field_index"]["b"] = dict(handle["field_index"]["a"])
    got = transfer.get(handle, type="dict")
    got["a"][0] = 9
    assert got["b"][0] == 0
