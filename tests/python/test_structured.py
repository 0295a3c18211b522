# SPDX-License-Identifier: Apache-2.0
"""mooncake.structured_object_store: objects and batches, without torch."""
from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from mooncake.buffer_pool import BufferPool
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from mooncake.structured_object_store import (
    BundleTransferPolicy, FieldSchema, MooncakeBundleTransfer, RemoteBundleRef,
    StructuredMemberSlice, StructuredObjectPayload, export_dataproto_ref,
    export_ref, import_dataproto_ref, import_ref, raw_destination,
    tensor_object_buffer)
from pool import MB, Memory

TOKENS = np.arange(24, dtype=np.int32).reshape(6, 4)


@pytest.fixture
def transfer(store):
    return MooncakeBundleTransfer(store, key_prefix="tests/objects",
                                  default_chunk_bytes=20)


def example() -> StructuredObjectPayload:
    return StructuredObjectPayload(
        {"step": np.int64(7), "layout": "rollout"},
        {"tokens": TOKENS, "mask": TOKENS.T % 2 == 0, "ids": b"sample-ids",
         "none": b"", "text": np.array(["a", "bc"])})


# ---- objects ----


def test_objects_come_back_as_they_were(transfer):
    ref = transfer.put_structured_object(example())
    for one in (ref, RemoteBundleRef(ref.manifest_key, {}),
                {"manifest_key": ref.manifest_key}):
        result = transfer.materialize(transfer.read_spec(one))
        assert result.metadata == {"step": 7, "layout": "rollout"}
        assert result.objects["tokens"].dtype == np.int32
        assert np.array_equal(result.objects["tokens"], TOKENS)
        assert np.array_equal(result.objects["mask"], TOKENS.T % 2 == 0)
        assert result.objects["ids"] == b"sample-ids"
        assert result.objects["none"] == b""
        assert result.objects["text"].tolist() == ["a", "bc"]


@pytest.mark.parametrize("chunk_bytes", [1, 7, 16, 1 << 20])
def test_slices_of_members_are_read(transfer, chunk_bytes):
    ref = transfer.put_structured_object(example(), chunk_bytes=chunk_bytes)
    whole = transfer.read_spec(ref).select_members(["tokens"])
    for start, end, step in ((2, 5, 1), (0, 6, 1), (3, 3, 1), (0, 6, 2),
                             (1, 6, 3)):
        spec = whole.slice_member("tokens", 0, start, end, step)
        assert spec.member_slice("tokens") == StructuredMemberSlice(
            0, start, end, step)
        objects = transfer.materialize(spec).objects
        assert list(objects) == ["tokens"]
        assert np.array_equal(objects["tokens"], TOKENS[start:end:step])


def test_members_are_read_into_memory_of_the_callers(transfer):
    ref = transfer.put_structured_object(example())
    spec = transfer.read_spec(ref).select_members(["tokens"])
    part = spec.slice_member("tokens", axis=0, start=2, end=5)
    array = np.empty((3, 4), np.int32)
    got = transfer.materialize_into(part, {"tokens": array}).objects["tokens"]
    assert got is array and np.array_equal(array, TOKENS[2:5])
    memory = Memory(128)
    got = transfer.materialize_into(spec, {"tokens": raw_destination(
        memory.addr, 128, memory, pre_registered=True)}).objects["tokens"]
    assert np.array_equal(got, TOKENS)
    assert memory.read(0, 96) == TOKENS.tobytes()
    readonly = np.empty((6, 4), np.int32)
    readonly.flags.writeable = False
    for wrong in (np.empty((6, 4), np.int64), np.empty((5, 4), np.int32),
                  np.empty((4, 6), np.int32).T, readonly, bytearray(96),
                  raw_destination(memory.addr, 95, memory),
                  raw_destination(8, 128, None)):
        with pytest.raises(ValueError, match="tokens"):
            transfer.materialize_into(spec, {"tokens": wrong})


def test_memory_runs_not_past_what_is_registered(transfer, store):
    ref = transfer.put_structured_object(example(), chunk_bytes=8)
    spec = transfer.read_spec(ref).select_members(["tokens"])
    memory = Memory(128)
    assert store.register_buffer(memory.addr, 64) == 0
    memory.fill(b"\7" * 128)
    with pytest.raises(ValueError, match="tokens: 96 bytes .* has 64 there"):
        transfer.materialize_into(
            spec, {"tokens": raw_destination(memory.addr, 96, memory)})
    with pytest.raises(ValueError, match="64 there"):
        transfer.put_structured_object(StructuredObjectPayload(
            {}, {"t": tensor_object_buffer(memory.addr, 96, memory)}),
            chunk_bytes=32)
    assert memory.read(0, 128) == b"\7" * 128
    assert store.unregister_buffer(memory.addr) == 0


def test_what_lies_in_a_lease_keeps_it(transfer, store):
    spec = transfer.read_spec(transfer.put_structured_object(example()))
    with BufferPool(store) as pool:
        lease = pool.acquire(128)
        got = transfer.materialize_into(spec.select_members(["tokens"]), {
            "tokens": raw_destination(lease.ptr, 128, lease)}).objects["tokens"]
        with pytest.raises(RuntimeError, match="exported views"):
            lease.release()
        assert np.array_equal(got, TOKENS)
        del got
        lease.release()


def test_what_is_removed_is_gone(transfer, store):
    ref = transfer.put_structured_object(example(), chunk_bytes=8)
    transfer.materialize(transfer.read_spec(ref))
    assert len(ref.manifest["members"]) == 5
    transfer.remove_bundle({"manifest_key": ref.manifest_key})
    assert store.remove_by_regex("tests/objects") == 0
    transfer.remove_bundle(ref)
    with pytest.raises(RuntimeError, match="not in the store"):
        transfer.materialize(transfer.read_spec({
            "manifest_key": ref.manifest_key}))
    with pytest.raises(RuntimeError, match="cannot be read"):
        transfer.materialize(transfer.read_spec(ref))


def test_bundles_are_bytes_and_buffers(transfer):
    ref = transfer.put_bundle(b"meta", {"a": bytearray(b"abc"), "b": TOKENS})
    objects = transfer.materialize(transfer.read_spec(ref)).objects
    assert objects[""] == b"meta" and objects["a"] == b"abc"


def test_one_group_is_that_of_every_key(transfer):
    config = ReplicateConfig()
    config.group_ids = ["one"]
    ref = transfer.put_structured_object(example(), config=config)
    transfer.materialize(transfer.read_spec(ref))
    config.group_ids = ["one", "two"]
    with pytest.raises(ValueError, match="group"):
        transfer.put_structured_object(example(), config=config)


def test_what_has_no_room_leaves_nothing(master):
    store = master.store(segment=4 * MB)
    transfer = MooncakeBundleTransfer(store, "full", 1 << 30)
    try:
        with pytest.raises(RuntimeError, match="put of"):
            transfer.put_structured_object(StructuredObjectPayload(
                buffers={"small": b"a", "large": bytes(128 * MB)}))
        assert store.remove_by_regex("^full/") == 0
    finally:
        store.close()


def test_without_a_store_calls_say_so():
    transfer = MooncakeBundleTransfer(MooncakeDistributedStore())
    with pytest.raises(RuntimeError):
        transfer.put_structured_object(example())
    with pytest.raises(RuntimeError):
        transfer.materialize(transfer.read_spec({"manifest_key": "k"}))


# ---- batches ----


@dataclass
class Batch:
    batch: dict
    non_tensor_batch: dict
    meta_info: dict

    def __len__(self) -> int:
        return 6


OTHERS = {
    "text": ["a", None, "", "\u00e4\U0001f600", "e", "f"],
    "data": [b"", b"a", bytes(range(256)), b"d", b"e", b"f"],
    "any": [{"a": [1, 2.5, None]}, (1, "b"), [], 10 ** 30, True,
            [b"x", {"y": {}}]],
    "numbers": [list(range(100)), [0.5] * 9, [], [1], [2 ** 70] * 9, [True] * 9],
    "arrays": [np.arange(n, dtype=np.float32) for n in range(6)],
}


def batch() -> Batch:
    others = {name: np.empty(6, object) for name in OTHERS}
    for name, values in OTHERS.items():
        for i, value in enumerate(values):
            others[name][i] = value
    return Batch({"input_ids": TOKENS, "rewards": np.arange(6) / 4},
                 others | {"turn": np.arange(6)}, {"step": 3, "tags": ["a"]})


def same(got, wanted) -> bool:
    if isinstance(wanted, np.ndarray):
        return (isinstance(got, np.ndarray) and got.dtype == wanted.dtype
                and np.array_equal(got, wanted))
    if isinstance(wanted, (list, tuple)):
        return type(got) is type(wanted) and len(got) == len(wanted) and all(
            map(same, got, wanted))
    return type(got) is type(wanted) and got == wanted


def test_batches_come_back_as_they_were(transfer):
    ref = transfer.put(batch(), partition="train")
    assert ref.batch_size == 6
    got = transfer.get(json.loads(json.dumps(export_dataproto_ref(ref))))
    assert same(got["batch"]["input_ids"], TOKENS)
    assert same(got["batch"]["rewards"], np.arange(6) / 4)
    assert same(got["non_tensor_batch"]["turn"], np.arange(6))
    for name, values in OTHERS.items():
        assert got["non_tensor_batch"][name].dtype == object
        assert same(list(got["non_tensor_batch"][name]), values)
    assert got["meta_info"] == {"step": 3, "tags": ["a"]}
    assert isinstance(transfer.get_dataproto(ref, data_cls=Batch), Batch)


@pytest.mark.parametrize("rows", [
    slice(1, 4), slice(None, None, 2), slice(5, 0, -2), [4, 0, 0, 5], [],
    StructuredMemberSlice(0, 2, 6, 3)])
def test_rows_are_read_alone(transfer, rows):
    ref = transfer.put(batch())
    at = (list(range(rows.start, rows.end, rows.step))
          if isinstance(rows, StructuredMemberSlice)
          else list(range(6))[rows] if isinstance(rows, slice) else rows)
    got = transfer.get(ref, rows=rows)
    assert same(got["batch"]["input_ids"], TOKENS[at])
    for name, values in OTHERS.items():
        assert same(list(got["non_tensor_batch"][name]),
                    [values[i] for i in at])
    with pytest.raises(ValueError):
        transfer.get(ref, rows=[6])
    with pytest.raises(ValueError):
        transfer.get(ref, rows=[-1])
    for wrong in (1.5, "1", np.bool_(True)):  # a mask has no numbers
        with pytest.raises(TypeError):
            transfer.get(ref, rows=[wrong])


def test_fields_are_read_alone(transfer):
    ref = transfer.put(batch())
    got = transfer.get(ref, fields=["text", "rewards"], meta_info_keys=["step"])
    assert (list(got["batch"]), list(got["non_tensor_batch"])) == (
        ["rewards"], ["text"])
    assert got["meta_info"] == {"step": 3}
    array = np.empty((2, 4), np.int32)
    got = transfer.get(ref, batch_fields=["input_ids"], rows=[3, 1],
                       destinations={"input_ids": array})
    assert got["batch"]["input_ids"] is array and not got["non_tensor_batch"]
    assert np.array_equal(array, TOKENS[[3, 1]])
    assert list(transfer.get(ref, non_tensor_fields=["any"])[
        "non_tensor_batch"]) == ["any"]
    for wrong in ({"fields": ["none"]}, {"batch_fields": ["text"]},
                  {"non_tensor_fields": ["rewards"]}):
        with pytest.raises(KeyError):
            transfer.get(ref, **wrong)


def test_fields_are_appended_in_stages(transfer, store):
    first = transfer.put({"ids": TOKENS}, stage="rollout")
    both = transfer.append_dataproto_fields(
        export_ref(first), {"batch": {"score": np.ones(6)},
                            "meta_info": {"b": 1}}, stage="reward")
    assert sorted(transfer.get(both)["batch"]) == ["ids", "score"]
    view = transfer.dataproto_manifest_view(both)
    assert view["fields"]["score"]["stage"] == "reward"
    assert view["fields"]["score"]["shape"] == [6]
    for wrong in ({"data": {"score": np.ones(6)}, "stage": "more"},
                  {"data": {"more": np.ones(6)}, "stage": "reward"},
                  {"data": {"more": np.ones(5)}, "stage": "more"},
                  {"data": {"more": np.ones(6)}, "stage": "reward",
                   "overwrite": True}):
        with pytest.raises(ValueError):
            transfer.append_dataproto_fields(both, **wrong)
    new = transfer.append_dataproto_fields(
        both, {"score": np.zeros(6)}, stage="again", overwrite=True)
    assert sorted(new.stage_refs) == ["again", "rollout"]
    assert not transfer.get(new, fields=["score"])["batch"]["score"].any()
    transfer.cleanup_dataproto(export_ref(new))
    assert store.remove_by_regex("tests/objects") == 0


def test_dictionaries_are_sorted_out(transfer):
    data = {"ids": TOKENS, "texts": ["a"] * 6, "step": 3, "layers": [1, 2],
            "lengths": [[1], [2, 3]] * 3}
    ref = transfer.put_dict(data)
    assert {name: at.section for name, at in ref.field_index.items()} == {
        "ids": "batch", "texts": "non_tensor_batch",
        "lengths": "non_tensor_batch"}
    got = transfer.get_dict(ref)
    assert same(got.pop("ids"), TOKENS)
    assert got == {name: data[name] for name in data if name != "ids"}
    transfer.release_result(got)
    assert transfer.get_legacy_dict(transfer.put_legacy_dict(data))["step"] == 3
    transfer.remove_legacy_dict(ref)


def test_schemas_say_what_a_field_is(transfer):
    def schema(codec: str, section: str = "non_tensor_batch",
               nullable: bool = False, **more: str) -> FieldSchema:
        return FieldSchema(codec, nullable, {"section": section} | more)

    data = {"experts": [np.arange(6).reshape(1, 2, 3)], "lengths": [[2, 1]],
            "layers": [4], "n": [7]}
    ref = transfer.put(data, type="dict", namespace="miles", field_schemas={
        "experts": schema("typed_ragged", dtype="int32"),
        "lengths": schema("typed_ragged", dtype="int32"),
        "layers": schema("auto", "meta_info"),
        "n": schema("ndarray", dtype="int16")})
    got = transfer.get(import_ref(export_ref(ref)), type="dict")
    assert same(got["experts"], [np.arange(6, dtype=np.int32).reshape(1, 2, 3)])
    assert same(got["lengths"], [[2, 1]]) and got["layers"] == [4]
    assert same(got["n"], np.array([7], np.int16))
    for codec, rows, error in (
            ("utf8_ragged", [None], ValueError), ("utf8_ragged", [b""], TypeError),
            ("bytes_ragged", [""], TypeError), ("none", [1], ValueError),
            ("ragged_tensor", [1], TypeError), ("typed_ragged", [1], TypeError),
            ("json_ragged", [object()], TypeError),
            ("ragged_tensor_dict", [{"a": 1}], TypeError)):
        with pytest.raises(error, match="field|none"):
            transfer.put({"field": rows}, type="dict",
                         field_schemas={"field": schema(codec)})


# ---- mistakes ----


def test_what_cannot_be_stored_is_named(transfer):
    loop: list = []
    loop.append(loop)
    for data, error in (
            ({"batch": {"f": object()}}, TypeError),
            ({"batch": {"f": np.array([object()])}}, TypeError),
            ({"non_tensor_batch": {"f": [object()]}}, TypeError),
            ({"non_tensor_batch": {"f": [{1: 2}]}}, TypeError),
            ({"non_tensor_batch": {"f": [loop]}}, TypeError),
            ({"non_tensor_batch": {"f": [1]}, "batch": {"f": np.ones(1)}},
             ValueError),
            ({"f": np.ones(2), "g": np.ones(3)}, ValueError),
            ({"meta_info": {"f": object()}}, TypeError)):
        with pytest.raises(error, match="f"):
            transfer.put(data)
    with pytest.raises(TypeError, match="int"):
        transfer.put(5)
    with pytest.raises(TypeError, match="f"):
        transfer.put_structured_object(StructuredObjectPayload(
            buffers={"f": np.zeros(2, "i4,O")}))
    for make in (lambda: MooncakeBundleTransfer(None, "/"),
                 lambda: MooncakeBundleTransfer(None, default_chunk_bytes=0),
                 lambda: BundleTransferPolicy(copy_mode="some")):
        with pytest.raises(ValueError):
            make()
    with pytest.raises(TypeError):
        StructuredObjectPayload({})
    with pytest.raises(KeyError):
        transfer.materialize(transfer.read_spec(
            transfer.put_structured_object(example())).select_members(["no"]))
    with pytest.raises(TypeError):
        transfer.get("no ref")


def test_handles_that_lie_are_refused(transfer):
    good = export_dataproto_ref(transfer.put(batch()))
    at = {"stage": "default", "member": "m", "section": "batch"}
    for wrong in ({"type": "x"}, {"version": 2}, {"kind": "x"},
                  {"batch_size": -1}, {"batch_size": "6"}, {"stage_refs": []},
                  {"stage_refs": {"default": "k"}}, {"meta_info": 5},
                  {"stage_refs": {"default": {"manifest_key": 5}}},
                  {"field_index": {"f": at | {"stage": "other"}}},
                  {"field_index": {"f": at | {"section": "meta_info"}}},
                  {"field_index": {"f": 5}}, {"global_indexes": "a"}):
        with pytest.raises(ValueError, match="handle"):
            import_dataproto_ref(good | wrong)
    with pytest.raises(KeyError):
        transfer.get(good | {"field_index": {"f": at}})


def test_manifests_that_lie_are_errors(transfer, store):
    ref = transfer.put_structured_object(example())
    whole = store.get(ref.manifest_key)
    tokens = json.loads(whole)["members"]["tokens"]
    members = [tokens | wrong for wrong in (
        {"bytes": -1}, {"bytes": 1 << 61}, {"bytes": True}, {"chunk": 0},
        {"chunk": 1}, {"first": -1}, {"first": 1 << 40}, {"first": "0"},
        {"encoding": "pickle"}, {"encoding": []}, {"dtype": "O"},
        {"dtype": "<i4,O"}, {"dtype": "<V4"}, {"dtype": 5}, {"dtype": "<i3"},
        {"shape": [6]}, {"shape": [-6, -4]}, {"shape": [1 << 62, 4]},
        {"shape": "6"}, {"shape": [6.0, 4]}, {"dtype": "<U24"},
        {"bytes": 0, "shape": [0, 1 << 61, 8]}, {"dtype": "<U0", "bytes": 0},
        {"encoding": "rows"},
        {"encoding": "rows", "shape": [6]}, {"encoding": "rows", "shape": [99]},
        {"encoding": "rows", "shape": [-1]}, {"chunk": 1 << 61})]
    texts = [json.dumps({"format": "mooncake-bundle", "version": 1,
                         "metadata": {}, "members": {"tokens": member}}).encode()
             for member in [*members, 5, {}]]
    texts += [b"{", b"[]", b"null", b"[" * 100_000, b"\xff", b"\x80\x04N.",
              whole.replace(b"mooncake-bundle", b"x")]
    for text in texts:
        assert store.upsert(ref.manifest_key, text) == 0
        with pytest.raises((ValueError, RuntimeError)):
            transfer.materialize(transfer.read_spec(
                {"manifest_key": ref.manifest_key}))


def test_more_rows_than_there_is_memory_are_an_error(transfer, store):
    ref = transfer.put({"non_tensor_batch": {"f": [{"a": 1}] * 2}})
    (bundle,) = ref.stage_refs.values()
    manifest = json.loads(store.get(bundle.manifest_key))
    manifest["members"]["f"] |= {"bytes": 1 << 60, "chunk": 1 << 50,
                                 "shape": [1 << 57]}
    assert store.upsert(bundle.manifest_key, json.dumps(manifest).encode()) == 0
    with pytest.raises(ValueError, match="f: "):
        transfer.get(export_dataproto_ref(ref), rows=[1])


def test_text_of_no_characters_is_an_error(transfer, store):
    for rows in ([np.array(["ab"])], [np.str_("ab")]):
        ref = transfer.put({"non_tensor_batch": {"f": rows}}, chunk_bytes=4096)
        (bundle,) = ref.stage_refs.values()
        key = f"{bundle.manifest_key}/0"
        whole = store.get(key)
        assert whole.endswith(b"b\0\0\0")
        assert store.upsert(key, whole[:-1] + b"\xff") == 0
        with pytest.raises(ValueError, match="no characters"):
            transfer.get(ref)


def test_rows_that_lie_are_errors(transfer, store):
    rows = [{"a": [1, 2]}, np.arange(3), [1.5] * 10, b"abc", (1, 2)]
    ref = transfer.put({"non_tensor_batch": {"f": rows}}, chunk_bytes=4096)
    (bundle,) = ref.stage_refs.values()
    key = f"{bundle.manifest_key}/0"
    whole = store.get(key)
    for at in range(len(whole)):
        for wrong in (0xFF, 0, whole[at] ^ 1):
            changed = bytearray(whole)
            changed[at] = wrong
            assert store.upsert(key, changed) == 0
            for chosen in (None, [1, 3]):
                try:
                    got = transfer.get(ref, rows=chosen)
                except (ValueError, RuntimeError):
                    continue
                assert len(got["non_tensor_batch"]["f"]) == len(chosen or rows)


def test_torch_is_not_read_for_what_needs_none(master):
    script = (
        "import sys, numpy as np; from mooncake.store import *\n"
        "from mooncake.structured_object_store import *\n"
        "s = MooncakeDistributedStore()\n"
        f"assert s.setup('127.0.0.1', 'P2PHANDSHAKE', 0, 0, 'tcp', '', "
        f"'{master.address}') == 0\n"
        "t = MooncakeBundleTransfer(s)\n"
        "r = t.put({'a': np.ones(3)}); assert t.get(r)['batch']['a'].all()\n"
        "assert 'torch' not in sys.modules and 'pickle' not in vars()\n")
    owner = master.store()
    subprocess.run([sys.executable, "-c", script], check=True)
    owner.close()


def test_arrays_are_copied_one_behind_the_other():
    from mooncake._fast_copy import concat_arrays_into

    arrays = [np.arange(3, dtype=np.int16), np.array([], np.float32),
              np.arange(4, dtype=np.uint8).reshape(2, 2)]
    whole = b"".join(one.tobytes() for one in arrays)
    to = np.zeros(16, np.uint8)
    assert concat_arrays_into(arrays, to.ctypes.data, 16) == 10
    assert to.tobytes() == whole + bytes(6)
    assert concat_arrays_into(arrays, to.ctypes.data, 4, 2, 9, 3) == 4
    assert to[:4].tobytes() == arrays[2].tobytes()
    assert concat_arrays_into(arrays, 0, 0, 3) == 0
    before = to.tobytes()
    with pytest.raises(ValueError, match="fit"):
        concat_arrays_into(arrays, to.ctypes.data, 9)
    with pytest.raises(ValueError, match="contiguous"):
        concat_arrays_into([np.arange(8)[::2]], to.ctypes.data, 16)
    with pytest.raises(TypeError, match=r"arrays\[1\]"):
        concat_arrays_into([arrays[0], b"x"], to.ctypes.data, 16)
    with pytest.raises(ValueError, match="fit"):
        concat_arrays_into(arrays, 8, 16)
    assert to.tobytes() == before


def test_an_object_may_be_one_value(transfer):
    array = np.arange(6).reshape(2, 3)
    for value in (array, b"bytes"):
        ref = transfer.put_object(value)
        assert np.array_equal(transfer.get_object(ref), value)
    ref = transfer.put_object({"a": array, "b": b"x"})
    got = transfer.get_object(ref)
    assert np.array_equal(got["a"], array) and got["b"] == b"x"


def test_an_append_is_taken_back(transfer):
    ref = transfer.put({"batch": {"ids": np.arange(2)}})
    more = transfer.append_dataproto_fields(ref, {"batch": {"n": np.arange(2)}},
                                            stage="more")
    transfer.cleanup_dataproto_append(ref, more)
    assert transfer.get(ref)["batch"]["ids"].tolist() == [0, 1]
    with pytest.raises(RuntimeError):
        transfer.get(more)
