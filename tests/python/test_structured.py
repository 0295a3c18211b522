# SPDX-License-Identifier: Apache-2.0
"""mooncake.structured_object_store: objects and batches, without torch."""
from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import vram
from mooncake._structured import transport
from mooncake._structured.manifest import removal_keys
from mooncake.buffer_pool import BufferPool
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from mooncake.structured_object_store import (
    STRUCTURED_FIELD_SPECS_KEY, FieldSchema, MooncakeBundleTransfer,
    RemoteBundleRef, StructuredMemberSlice, StructuredObjectPayload, export_dataproto_ref,
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
        {"step": 7, "layout": "rollout"},
        {"tokens": TOKENS, "mask": TOKENS.T % 2 == 0, "ids": b"sample-ids",
         "none": b"", "text": np.array(["a", "bc"])})


# ---- objects ----


def test_objects_come_back_as_they_were(transfer):
    ref = transfer.put_structured_object(example())
    for one in (ref, RemoteBundleRef(ref.manifest_key, {}),
                {"manifest_key": ref.manifest_key}):
        result = transfer.materialize(transfer.read_spec(one))
        assert result.metadata.pop(STRUCTURED_FIELD_SPECS_KEY).keys() == \
            example().buffers.keys()
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


@pytest.mark.skipif(vram.GPU is not None,
                    reason="arrays of numpy are made of the memory, and read it")
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
    for wrong in (readonly, raw_destination(memory.addr, 95, memory),
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
    assert len(ref.manifest["buffers"]) == 5
    transfer.remove_bundle({"manifest_key": ref.manifest_key})
    assert store.remove_by_regex("tests/objects") == 0
    transfer.remove_bundle(ref)
    with pytest.raises(RuntimeError, match="not in the store"):
        transfer.materialize(transfer.read_spec({
            "manifest_key": ref.manifest_key}))
    with pytest.raises(RuntimeError, match="get failed"):
        transfer.materialize(transfer.read_spec(ref))


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
        with pytest.raises(RuntimeError, match="failed for full/"):
            transfer.put_structured_object(StructuredObjectPayload(
                buffers={"small": b"a", "large": bytes(128 * MB)}))
        assert store.remove_by_regex("^full/") == 0
    finally:
        store.close()


class Watched:
    """A store whose calls are written down."""

    def __init__(self, store):
        self.store, self.calls = store, []

    def __getattr__(self, name):
        method = getattr(self.store, name)

        def call(*args, **options):
            self.calls.append((name, args[0]))
            return method(*args, **options)

        return call


@pytest.mark.parametrize("each", [True, False])
def test_what_a_put_writes_goes_out_together(transfer, store, monkeypatch, each):
    if each:  # as if values were large
        monkeypatch.setattr(transport, "_WAITING_MAX", 1)
    watched = transfer._transport.store = Watched(store)
    ref = transfer.put_structured_object(StructuredObjectPayload(
        {"layout": "l" * 20}, {"tokens": TOKENS, "ids": b"a" * 20}))
    *batches, (last, manifest) = watched.calls
    assert {name for name, _ in batches} == {"batch_put_from_multi_buffers"}
    written = [key for _, keys in batches for key in keys]
    assert written == removal_keys(ref.manifest, "")[:-1]
    assert len(batches) == (len(written) if each else 1)
    assert (last, manifest) == ("put", ref.manifest_key)
    got = transfer.materialize(transfer.read_spec(ref)).objects
    assert same(got, {"tokens": TOKENS, "ids": b"a" * 20})


def test_a_value_of_many_that_is_refused_is_named(transfer):
    ref = transfer.put({"a": TOKENS})
    with pytest.raises(RuntimeError, match="batch_put_from_multi_buffers failed "
                       "for .*batch.b: -200"):
        transfer.put({"a": TOKENS, "b": np.zeros((6, 16 * MB), np.uint8)},
                     chunk_bytes=1 << 30)
    assert same(transfer.get(ref)["batch"], {"a": TOKENS})


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
    "data": [b"", b"a", bytes(range(256)), None, b"e", b"f"],
    "any": [{"a": [1, 2.5, None]}, {}, None, {"b": "c"}, {"d": True},
            {"e": [b"x", {"y": {}}]}],
    "numbers": [list(range(100)), [0.5] * 9, [], [1], None, [True] * 9],
    "arrays": [np.arange(n, dtype=np.float32) for n in range(6)],
    "apart": [{"a": np.arange(n), "b": [n]} for n in range(5)] + [{"b": None}],
}


def batch() -> Batch:
    others = {name: objects(values) for name, values in OTHERS.items()}
    return Batch({"input_ids": TOKENS, "rewards": np.arange(6) / 4},
                 others | {"turn": np.arange(6)}, {"step": 3, "tags": ["a"]})


def same(got, wanted) -> bool:
    if isinstance(wanted, np.ndarray):
        return (isinstance(got, np.ndarray) and got.dtype == wanted.dtype
                and np.array_equal(got, wanted))
    if isinstance(wanted, dict):
        return type(got) is dict and list(got) == list(wanted) and all(
            same(got[key], one) for key, one in wanted.items())
    if isinstance(wanted, (list, tuple)):
        return type(got) is type(wanted) and len(got) == len(wanted) and all(
            map(same, got, wanted))
    return type(got) is type(wanted) and got == wanted


def stored(name: str, rows: list) -> list:
    """What a row that was no array comes back as."""
    return [row if row is None else [float(n) for n in row] for row in rows] \
        if name == "numbers" else rows


def test_batches_come_back_as_they_were(transfer):
    ref = transfer.put(batch(), partition="train")
    assert ref.batch_size == 6
    got = transfer.get(json.loads(json.dumps(export_dataproto_ref(ref))))
    assert same(got["batch"]["input_ids"], TOKENS)
    assert same(got["batch"]["rewards"], np.arange(6) / 4)
    assert same(got["non_tensor_batch"]["turn"], np.arange(6))
    for name, values in OTHERS.items():
        assert got["non_tensor_batch"][name].dtype == object
        assert same(list(got["non_tensor_batch"][name]), stored(name, values))
    assert got["meta_info"] == {"step": 3, "tags": ["a"]}
    assert isinstance(transfer.get_dataproto(ref, data_cls=Batch), Batch)


def test_the_arrays_of_a_field_are_read_by_one_call(transfer, monkeypatch):
    rows = objects([np.arange(n) for n in range(6)])
    ref = transfer.put({"non_tensor_batch": {"f": rows}}, chunk_bytes=30)
    calls, read = [], transfer._transport.get_into_ranges
    monkeypatch.setattr(transfer._transport, "get_into_ranges",
                        lambda *args: calls.append(args[1]) or read(*args))
    assert same(list(transfer.get(ref)["non_tensor_batch"]["f"]), list(rows))
    (bundle,) = ref.stage_refs.values()
    assert calls == [[[chunk["key"] for chunk in one["chunks"]]
                      for one in bundle.manifest["buffers"].values()]]
    for change, message in (
            (lambda got: [[[0]] * len(got[0]), *got[1:]],
             f"get_into_ranges failed for {calls[0][0][0]}: 0, not 30 bytes"),
            (lambda got: [got[0][1:], *got[1:]], "are not those of 4 keys"),
            (lambda got: got[1:], "are not those of 5 buffers")):
        monkeypatch.setattr(transfer._transport, "get_into_ranges",
                            lambda *args: change(read(*args)))
        with pytest.raises(RuntimeError, match=message):
            transfer.get(ref)


@pytest.mark.parametrize("rows", [
    slice(1, 4), slice(-2, None), [4, 0, -6, np.int64(5)], [], slice(4, 2),
    StructuredMemberSlice(0, 2, 6)])
def test_rows_are_read_alone(transfer, rows):
    ref = transfer.put(batch())
    at = (list(range(rows.start, rows.end))
          if isinstance(rows, StructuredMemberSlice)
          else list(range(6))[rows] if isinstance(rows, slice) else
          [int(row) % 6 for row in rows])
    got = transfer.get(ref, rows=rows)
    assert same(got["batch"]["input_ids"], TOKENS[at])
    for name, values in OTHERS.items():
        assert same(list(got["non_tensor_batch"][name]),
                    stored(name, [values[i] for i in at]))


def test_rows_that_are_not_there_are_refused(transfer):
    ref = transfer.put(batch())
    for wrong in (6, -7):
        with pytest.raises(IndexError, match="out of range"):
            transfer.get(ref, rows=[wrong])
    for wrong in (1.5, "1", True, np.bool_(True)):  # a mask has no numbers
        with pytest.raises(TypeError, match="row indices"):
            transfer.get(ref, rows=[wrong])
    for wrong in (5, "12", {}):
        with pytest.raises(TypeError, match="rows"):
            transfer.get(ref, rows=wrong)
    got = transfer.get(ref, batch_fields=["input_ids"], rows=slice(0, 6, 4))
    assert same(got["batch"]["input_ids"], TOKENS[::4])
    with pytest.raises(ValueError, match="step=1"):
        transfer.get(ref, rows=slice(0, 6, 4))
    with pytest.raises(ValueError, match="step must be positive"):
        transfer.get(ref, rows=slice(5, 0, -2))
    with pytest.raises(ValueError, match="axis=0"):
        transfer.get(ref, rows=StructuredMemberSlice(1, 0, 2))


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
    for wrong in ("fields", "batch_fields", "non_tensor_fields"):
        with pytest.raises(KeyError):
            transfer.get(ref, **{wrong: ["none"]})


def test_fields_are_appended_in_stages(transfer, store):
    first = transfer.put({"ids": TOKENS}, stage="rollout")
    both = transfer.append_dataproto_fields(
        export_ref(first), {"batch": {"score": np.ones(6)},
                            "meta_info": {"b": 1}}, stage="reward")
    assert sorted(transfer.get(both)["batch"]) == ["ids", "score"]
    assert both.meta_info == {"b": 1}
    more = transfer.append_dataproto_fields(
        both, {"non_tensor_batch": {"text": objects(["a"] * 6)}}, stage="reward")
    assert sorted(more.stage_refs) == ["reward", "rollout"]
    assert transfer.get(more, fields=["score", "text"])["batch"]["score"].all()
    assert transfer.get(both)["batch"].keys() == {"ids", "score"}
    for wrong, words in (
            ({"data": {"score": np.ones(6)}, "stage": "more"}, "already exist"),
            ({"data": {"more": np.ones(5)}, "stage": "more"}, "batch size"),
            ({"data": {"more": np.ones(6)}, "stage": "reward",
              "overwrite": True}, "must include existing")):
        with pytest.raises(ValueError, match=words):
            transfer.append_dataproto_fields(more, **wrong)
    new = transfer.append_dataproto_fields(
        more, {"batch": {"score": np.zeros(6)},
               "non_tensor_batch": {"text": np.arange(6)}},
        stage="reward", overwrite=True)
    got = transfer.get(new)
    assert not got["batch"]["score"].any()
    assert same(got["non_tensor_batch"]["text"], np.arange(6))
    transfer.cleanup_dataproto(export_ref(new))
    assert store.remove_by_regex("tests/objects") == 0


def test_a_merged_stage_takes_all_of_it_along(transfer, store):
    ref = first = transfer.put({"a": TOKENS})
    for name in "bcd":
        ref = transfer.append_dataproto_fields(ref, {name: TOKENS},
                                               stage="default")
    branch = transfer.append_dataproto_fields(first, {"e": TOKENS},
                                              stage="default")
    assert transfer.get(ref)["batch"].keys() == set("abcd")
    assert transfer.get(branch)["batch"].keys() == set("ae")
    transfer.cleanup_dataproto_append(first, branch)
    assert transfer.get(ref)["batch"].keys() == set("abcd")
    transfer.cleanup_dataproto(ref)
    assert store.remove_by_regex("tests/objects") == 0


def objects(rows: list) -> np.ndarray:
    array = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        array[i] = row
    return array


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
    assert got["n"] == [7]
    for codec, rows, error in (
            ("utf8_ragged", [None], ValueError),
            ("utf8_ragged", [b""], AttributeError),
            ("bytes_ragged", [""], TypeError), ("none", [1], ValueError),
            ("ragged_tensor", [1], AttributeError),
            ("json_ragged", [object()], TypeError),
            ("ragged_tensor_dict", [{"a": 1}], AttributeError)):
        with pytest.raises(error, match="field|none"):
            transfer.put({"field": rows}, type="dict",
                         field_schemas={"field": schema(codec)})


# ---- mistakes ----


def test_what_cannot_be_stored_is_named(transfer, store):
    loop: list = []
    loop.append(loop)
    for data, error in (
            ({"batch": {"f": [1]}}, TypeError),
            ({"batch": {"f": objects([object()])}}, TypeError),
            ({"non_tensor_batch": {"f": [1]}}, TypeError),
            ({"non_tensor_batch": {"f": objects([object()])}}, ValueError),
            ({"non_tensor_batch": {"f": objects([{"a": (1, 2)}])}}, TypeError),
            ({"non_tensor_batch": {"f": objects([loop])}}, ValueError),
            ({"non_tensor_batch": {"f": objects([1])}, "batch": {
                "f": np.ones(1)}}, ValueError),
            ({"f": np.ones(2), "g": np.ones(3)}, ValueError)):
        with pytest.raises(error, match="f"):
            transfer.put(data)
    with pytest.raises(TypeError, match="int"):
        transfer.put(5)
    with pytest.raises(ValueError, match="unsupported Mooncake payload type"):
        transfer.put({"f": TOKENS}, type="x")
    with pytest.raises(TypeError, match="no ref|ref must"):
        transfer.get("no ref")
    assert store.remove_by_regex("tests/objects") == 0


def test_handles_that_lie_are_refused(transfer):
    good = export_dataproto_ref(transfer.put(batch()))
    at = {"stage": "default", "member": "m", "section": "batch"}
    for wrong in ({"type": "x"}, {"version": 3}, {"kind": "x"},
                  {"batch_size": -1}, {"batch_size": 4.5}, {"stage_refs": []},
                  {"stage_refs": {"default": "k"}}, {"meta_info": 5},
                  {"stage_refs": {"default": {"manifest_key": 5}}},
                  {"field_index": {"f": at | {"stage": "other"}}},
                  {"field_index": {"f": at | {"section": "meta_info"}}},
                  {"field_index": {"f": 5}}, {"global_indexes": "a"}):
        with pytest.raises(ValueError, match="handle"):
            import_dataproto_ref(good | wrong)
    with pytest.raises(KeyError):
        transfer.get(good | {"field_index": {"f": at}})
    for wrong in ({}, 5, {"codec": "x", "rows": 6, "metadata": {},
                          "payload_members": {"data": "no"}}):
        with pytest.raises((ValueError, KeyError)):
            transfer.get(good | {"encoded_non_tensor": {"text": wrong}},
                         fields=["text"])


@pytest.mark.parametrize("chosen", [None, [1, 3]])
def test_rows_that_lie_are_errors(transfer, store, chosen):
    rows = [{"a": [1, 2]}, None, {"c": b"abc"}, {"d": {"e": 1.5}}, {}]
    ref = transfer.put({"non_tensor_batch": {"f": objects(rows)}},
                       chunk_bytes=4096)
    (bundle,) = ref.stage_refs.values()
    for spec in bundle.manifest["buffers"].values():
        key = spec["key"]
        whole = store.get(key)
        for at in range(len(whole)):
            for wrong in (0xFF, whole[at] ^ 1):
                changed = bytearray(whole)
                changed[at] = wrong
                assert store.upsert(key, changed) == 0
                try:
                    got = transfer.get(ref, rows=chosen)
                except (ValueError, RuntimeError):
                    continue
                assert len(got["non_tensor_batch"]["f"]) == len(chosen or rows)
        assert store.upsert(key, whole) == 0


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
