# SPDX-License-Identifier: Apache-2.0
"""What objects are in a store, and which of its methods are called, in order."""
from __future__ import annotations

import json
import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from mooncake import structured_object_store as sos
from mooncake.structured_object_store import (
    BundleTransferPolicy, MooncakeBundleTransfer, RemoteBundleRef,
    StructuredMemberSlice, StructuredObjectPayload, raw_destination,
    tensor_object_buffer)
from recorded import FastStore, PlainStore, Pool

TOKENS = np.arange(24, dtype=np.int32).reshape(6, 4)


@pytest.fixture
def plain():
    return PlainStore()


@pytest.fixture
def fast():
    return FastStore()


def put(store, buffers: dict, metadata: dict | None = None, pool=None,
        **options: object) -> RemoteBundleRef:
    store.ref = MooncakeBundleTransfer(store, "p", buffer_pool=pool) \
        .put_structured_object(StructuredObjectPayload(metadata, buffers),
                               **options)
    return store.ref


def read(store, name: str, *, part: tuple | None = None, to: object = None,
         pool=None) -> object:
    transfer = MooncakeBundleTransfer(store, "p", buffer_pool=pool)
    spec = transfer.read_spec(store.ref).select_members([name])
    if part:
        spec = spec.slice_member(name, 0, *part)
    return transfer.materialize_into(spec, {name: to}).objects[name]


# ---- keys and formats ----


def test_what_is_stored_is_as_mooncake_stores_it(plain):
    ref = put(plain, {"t": TOKENS, "b": b"abc", "none": b"",
                      "scalar": np.array(2, np.float32)}, {"step": 7},
              partition="train", chunk_bytes=64)
    base = ref.manifest_key.removesuffix("/manifest")
    assert re.fullmatch("p/train/[0-9a-f]{32}", base)
    manifest = json.loads(plain.values[ref.manifest_key])
    assert plain.values[ref.manifest_key].startswith(
        b'{"version":1,"layout":"bundle","object_id":"train/')
    assert manifest == ref.manifest
    assert list(manifest) == ["version", "layout", "object_id", "meta", "buffers"]
    assert manifest["object_id"] == base.removeprefix("p/")
    t = f"{base}/buffer/t"
    assert manifest["buffers"] == {
        "t": {"key": t, "bytes": 96, "chunks": [
            {"key": f"{t}/chunk/0", "bytes": 64},
            {"key": f"{t}/chunk/1", "bytes": 32}]},
        "b": {"key": f"{base}/buffer/b", "bytes": 3, "chunks": [
            {"key": f"{base}/buffer/b", "bytes": 3}]},
        "none": {"key": f"{base}/buffer/none", "bytes": 0, "chunks": []},
        "scalar": {"key": f"{base}/buffer/scalar", "bytes": 4, "chunks": [
            {"key": f"{base}/buffer/scalar", "bytes": 4}]}}
    assert plain.values[f"{t}/chunk/1"] == TOKENS.tobytes()[64:]
    meta = b"".join(plain.values[chunk["key"]]
                    for chunk in manifest["meta"]["chunks"])
    assert json.loads(meta) == {
        "step": 7, "layout": "structured", "__mooncake_structured_fields__": {
            "t": {"encoding": "ndarray", "dtype": "<i4", "shape": [6, 4]},
            "b": {"encoding": "bytes"}, "none": {"encoding": "bytes"},
            "scalar": {"encoding": "ndarray", "dtype": "<f4", "shape": [1]}}}
    keys = [call[1] for call in plain.calls]
    assert keys == [*(f"{base}/meta/chunk/{i}"
                      for i in range(len(manifest["meta"]["chunks"]))),
                    f"{t}/chunk/0", f"{t}/chunk/1", f"{base}/buffer/b",
                    f"{base}/buffer/scalar", f"{base}/manifest"]
    assert all(call[0] == "put" and call[2] == {} for call in plain.calls)


def test_names_that_no_key_has_are_refused_before_any_write(plain):
    for partition in ("", "a/b", "a\nb", None, 5):
        with pytest.raises(ValueError, match="partition"):
            put(plain, {"a": b"a"}, partition=partition)
    for name in ("", "a/b", "\0", 5):
        with pytest.raises(ValueError, match="buffer name"):
            put(plain, {"a": b"a", name: b"b"})
    for prefix in ("", "//", "a\tb", None):
        with pytest.raises(ValueError, match="key_prefix"):
            MooncakeBundleTransfer(plain, prefix)
    with pytest.raises(ValueError, match="chunk_bytes"):
        MooncakeBundleTransfer(plain, default_chunk_bytes=0)
    with pytest.raises(ValueError, match="chunk_bytes"):
        put(plain, {}, chunk_bytes=0)
    for metadata, error, words in (
            ([1], TypeError, "mapping"), ({"layout": 5}, ValueError, "layout"),
            ({sos.STRUCTURED_FIELD_SPECS_KEY: {}}, ValueError, "reserved"),
            ({"a": {1}}, TypeError, "JSON-serializable")):
        with pytest.raises(error, match=words):
            put(plain, {"a": b"a"}, metadata)
    for value in (5, "text", None, np.array([object()]), object()):
        with pytest.raises(TypeError, match="^a must be bytes-like"):
            put(plain, {"a": value})
    for policy, words in (
            (BundleTransferPolicy(0), "max_inflight_put"),
            (BundleTransferPolicy(put_mode="x"), "put_mode"),
            (BundleTransferPolicy(copy_mode="x"), "copy_mode")):
        with pytest.raises(ValueError, match=words):
            put(plain, {"a": b"a"}, policy=policy)
    assert plain.calls == []


def test_bundles_are_raw(plain):
    transfer = MooncakeBundleTransfer(plain, "/p/")
    ref = transfer.put_bundle(b"meta", {"a": TOKENS[:, ::2]})
    base = ref.manifest_key.removesuffix("manifest")
    assert plain.values[base + "meta"] == b"meta"
    assert plain.values[base + "buffer/a"] == TOKENS[:, ::2].tobytes()
    with pytest.raises(ValueError, match="buffer name"):
        transfer.put_bundle(b"meta", {"b": b"b", "a/b": b"x"})
    with pytest.raises(TypeError, match="b must be bytes-like"):
        transfer.put_bundle(b"meta", {"b": 5})
    with pytest.raises(TypeError, match="meta must be bytes-like"):
        transfer.put_bundle("meta", {})
    transfer.remove_bundle(ref)
    assert plain.values == {}


def lies(manifest: dict) -> list[tuple[dict, str]]:
    t, meta = manifest["buffers"]["t"], manifest["meta"]

    def with_t(**changes: object) -> dict:
        return {**manifest, "buffers": {"t": {**t, **changes}}}

    def chunks(*pairs: tuple) -> list:
        return [{"key": key, "bytes": n} for key, n in pairs]

    key = t["key"]
    return [
        ({**manifest, "version": 2}, "version"),
        ({**manifest, "layout": "x"}, "layout"),
        ({**manifest, "object_id": 5}, "object_id"),
        ({**manifest, "buffer_object_ids": "x"}, "buffer_object_ids"),
        ({**manifest, "buffers": []}, "buffers"),
        ({**manifest, "buffers": {"a/b": t}}, "buffer name"),
        ({**manifest, "buffers": {"t": 5}}, "spec"),
        ({**manifest, "meta": {**meta, "key": "p/x"}}, "outside"),
        (with_t(key="p/default/other/buffer/t"), "payload key is outside"),
        (with_t(bytes=-1), "bytes"), (with_t(bytes=True), "bytes"),
        (with_t(chunks=[]), "chunks"), (with_t(chunks="x"), "chunks"),
        (with_t(chunks=[5]), "chunk"), (with_t(bytes=95), "95"),
        (with_t(chunks=chunks(("p/other", 96))), "chunk key is outside"),
        (with_t(chunks=chunks((key + "x", 96))), "chunk key is outside"),
        (with_t(chunks=chunks((key, 48), (key, 48))), "twice"),
        (with_t(chunks=chunks((key, 97), (key + "/1", -1))), "bytes"),
        ({**manifest, "cleanup_keys": "x"}, "cleanup_keys"),
        ({**manifest, "cleanup_keys": ["p/default/x/manifest"]},
         "cleanup_keys .*outside")]


def test_manifests_that_lie_are_errors(fast):
    ref = put(fast, {"t": TOKENS})
    transfer = MooncakeBundleTransfer(fast, "p")
    for manifest, words in lies(ref.manifest):
        for one in (RemoteBundleRef(ref.manifest_key, manifest),
                    {"manifest": manifest}):
            with pytest.raises(ValueError, match=words):
                transfer.materialize(transfer.read_spec(one))
            with pytest.raises(ValueError, match=words):
                transfer.remove_bundle(one)
    assert len(fast.values) == 3
    for text in (b"{", b"[]", b"null", b"[" * 100_000, b"\xff", b"\x80\x04N."):
        fast.values[ref.manifest_key] = text
        with pytest.raises(ValueError, match="manifest"):
            transfer.materialize(transfer.read_spec(
                {"manifest_key": ref.manifest_key}))
    for wrong in ({}, {"manifest_key": ""}, {"manifest": {}}):
        with pytest.raises(ValueError, match="manifest_key"):
            transfer.read_spec(wrong)
    with pytest.raises(TypeError, match="ref"):
        transfer.read_spec("key")
    with pytest.raises(ValueError, match="manifest_key"):
        transfer.remove_bundle(RemoteBundleRef("p/default/other/manifest",
                                               ref.manifest))


def test_a_manifest_names_keys_of_objects_alone(plain):
    transfer = MooncakeBundleTransfer(plain, "p")
    spec = put(plain, {"t": TOKENS}).manifest["buffers"]["t"]
    there = dict(plain.values)
    make = transfer._bundle_store.put_bundle_manifest
    for key in ("elsewhere/x/y/z", "p/x", "p/default/x", "p//x/manifest", "p", 5):
        for buffers, cleanup in (({"t": spec}, [key]),
                                 ({"t": {**spec, "key": key}}, [])):
            with pytest.raises(ValueError, match="outside"):
                make(b"{}", buffers, partition="default", chunk_bytes=None,
                     policy=None, cleanup_keys=cleanup)
    assert plain.values == there
    ref = make(b"{}", {"t": spec}, partition="default", chunk_bytes=None,
               policy=None, cleanup_keys=["p/default/x/manifest"])
    assert ref.manifest["buffer_object_ids"] == sorted([
        "default/x", "/".join(spec["key"].split("/")[1:3])])
    transfer.remove_bundle(ref)


def test_field_specs_that_lie_are_errors(plain):
    for spec, words in (
            ({"encoding": "pickle"}, "unsupported structured field encoding"),
            ({"encoding": "ndarray", "dtype": "O", "shape": [6, 4]}, "elements"),
            ({"encoding": "ndarray", "dtype": "<i4,O", "shape": [6, 4]}, "t:"),
            ({"encoding": "ndarray", "dtype": 5, "shape": [6, 4]}, "t:"),
            ({"encoding": "ndarray", "dtype": "<i3", "shape": [6, 4]}, "t:"),
            ({"encoding": "ndarray", "dtype": "<i4", "shape": [6]}, "shape"),
            ({"encoding": "ndarray", "dtype": "<i4", "shape": [-6, -4]}, "shape"),
            ({"encoding": "ndarray", "dtype": "<i4", "shape": "6"}, "shape"),
            ({"encoding": "ndarray", "dtype": "<i4", "shape": [0, 1 << 62]},
             "shape"),
            ({"encoding": "ndarray", "dtype": "<U24", "shape": [1]},
             "no characters")):
        data = np.full(24, 0x7fffffff, np.int32) if "U24" in str(spec) else TOKENS
        ref = put(plain, {"t": data})
        meta = ref.manifest["meta"]["key"]
        stored = json.loads(plain.values[meta])
        stored[sos.STRUCTURED_FIELD_SPECS_KEY]["t"] = spec
        text = json.dumps(stored).encode()
        plain.values[meta] = text
        ref.manifest["meta"] |= {"bytes": len(text), "chunks": [
            {"key": meta, "bytes": len(text)}]}
        with pytest.raises(ValueError, match=words):
            read(plain, "t")


# ---- writing ----


def test_with_a_pool_each_chunk_is_put_from_a_lease(fast):
    pool = Pool()
    config = SimpleNamespace(group_ids=["g"])
    ref = put(fast, {"t": TOKENS}, pool=pool, chunk_bytes=40, config=config)
    assert pool.sizes == [40, 40, 16] and pool.released == 3
    names = fast.names()
    n_meta = len(ref.manifest["meta"]["chunks"])
    assert names == ["put"] * n_meta + ["batch_put_from"] * 3 + ["put"]
    puts = [call for call in fast.calls if call[0] == "batch_put_from"]
    assert [call[2] for call in puts] == [[40], [40], [16]]
    assert all(call[-1] == {"config": config} for call in fast.calls)
    assert read(fast, "t").tobytes() == TOKENS.tobytes()
    pool.sizes.clear()
    put(fast, {"t": TOKENS}, pool=pool, policy=BundleTransferPolicy(
        copy_mode="copy"))
    assert pool.sizes == []
    fast.batch_put_from = None
    with pytest.raises(RuntimeError, match="batch_put_from"):
        put(fast, {"t": TOKENS}, pool=pool)


def test_zero_copy_is_refused_and_leaves_nothing(fast):
    policy = BundleTransferPolicy(copy_mode="zero_copy")
    with pytest.raises(RuntimeError, match="zero-copy put"):
        put(fast, {"t": TOKENS}, policy=policy)
    assert fast.values == {}
    assert fast.names() == ["put", "batch_remove"]


@pytest.mark.parametrize("what", ["code", "raises", "removal"])
def test_what_fails_is_rolled_back_and_raised(fast, what):
    if what == "code":
        fast.codes["batch_put_from"] = -1
    else:
        fast.fail["batch_put_from"] = ConnectionError("lost")
    if what == "removal":
        fast.fail["batch_remove"] = fast.fail["remove"] = KeyError("x")
    pool = Pool()
    with pytest.raises(RuntimeError if what == "code" else ConnectionError,
                       match="batch_put_from failed for p/.*: -1|lost"):
        put(fast, {"a": b"", "t": TOKENS}, pool=pool, chunk_bytes=1 << 10)
    assert pool.released == len(pool.sizes) == 1
    if what == "removal":
        assert fast.names()[-2:] == ["remove", "remove"]
    else:
        assert fast.values == {}


def test_all_chunks_of_a_failed_payload_are_removed(plain):
    puts = plain.put

    def fourth(key: str, value: object, **options: object) -> int:
        if key.endswith("t/chunk/1"):
            raise OSError("full")
        return puts(key, value, **options)

    plain.put = fourth
    with pytest.raises(OSError, match="full"):
        put(plain, {"a": b"a", "t": TOKENS}, chunk_bytes=32)
    assert plain.values == {}
    assert [call[1].rpartition("/")[2] for call in plain.calls
            if call[0] == "remove"][-4:] == ["a", "0", "1", "2"]


def test_many_buffers_are_cut_across_their_borders(fast):
    parts = [np.arange(n, dtype=np.uint8) for n in (5, 0, 7, 9)]
    whole = b"".join(part.tobytes() for part in parts)
    value = sos._MultiBufferPayload(tuple(map(memoryview, parts)))
    assert value.nbytes == 21
    for pool in (None, Pool()):
        put(fast, {"m": value}, pool=pool, chunk_bytes=6)
        assert bytes(read(fast, "m")) == whole
    assert pool.sizes == [6, 6, 6, 3]
    pool = Pool()
    put(fast, {"m": value}, pool=pool, chunk_bytes=6,
        policy=BundleTransferPolicy(3, put_mode="parallel"))
    assert sorted(pool.sizes) == [3, 6, 6, 6] and pool.released == 4
    assert read(fast, "m") == whole
    array = sos._MultiBufferPayload(tuple(map(memoryview, parts)), (), "|u1", (3, 7))
    put(fast, {"m": array})
    assert read(fast, "m").shape == (3, 7)


def test_the_mode_of_many_buffers(fast, monkeypatch):
    resolve = MooncakeBundleTransfer(fast)._transport._resolve_buffer_group_put_mode
    groups = [[bytes(8), bytes(8)]] * 8
    two = BundleTransferPolicy(2)
    assert resolve(groups, two) == "batch"
    assert resolve(groups, BundleTransferPolicy(2, "parallel")) == "parallel"
    monkeypatch.setattr(sos, "AUTO_PARALLEL_MIN_BYTES", 128)
    assert resolve(groups, two) == "parallel"
    assert resolve(groups, BundleTransferPolicy(1)) == "batch"
    assert resolve(groups, BundleTransferPolicy(2, "batch")) == "batch"
    assert resolve(groups[:7] + [[bytes(16)] * 2], BundleTransferPolicy()) == "batch"
    assert resolve([[bytes(32)]] * 7, two) == "batch"


def test_parallel_puts_end_before_a_failure_is_told(fast):
    fast.fail["batch_put_from"] = OSError("lost")
    pool, before = Pool(), threading.active_count()
    value = sos._MultiBufferPayload((memoryview(bytes(8)),) * 16)
    with pytest.raises(OSError, match="lost"):
        put(fast, {"m": value}, pool=pool, chunk_bytes=8,
            policy=BundleTransferPolicy(4, "parallel"))
    assert threading.active_count() == before
    assert pool.released == len(pool.sizes) <= 4
    assert fast.values == {}


def test_whole_arrays_are_copied_fast(fast, monkeypatch):
    arrays = [np.arange(n, dtype=np.int16) for n in (3, 4, 5)]
    value = sos._DirectCopyPayload.from_flat_arrays(arrays, np.int16, 12)
    assert (value.nbytes, value.dtype, value.shape) == (24, "<i2", (12,))
    calls, copy = [], sos._concat_arrays_into

    def recorded(*args: object) -> int:
        calls.append(args[2:])
        return copy(*args)

    monkeypatch.setattr(sos, "_concat_arrays_into", recorded)
    pool = Pool()
    put(fast, {"d": value}, pool=pool, chunk_bytes=15)
    assert calls == [(14, 0, 2), (10, 2, 1)] and pool.sizes == [14, 10]
    assert read(fast, "d").tolist() == [0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4]
    put(fast, {"d": value}, pool=pool, chunk_bytes=9)  # one is larger: all joined
    assert len(calls) == 2 and pool.sizes[2:] == [9, 9, 6]
    put(fast, {"d": value})
    assert len(read(fast, "d")) == 12
    bundles = MooncakeBundleTransfer(fast, "p", buffer_pool=pool)._bundle_store
    spec, keys = bundles._put_direct_copy_payload(
        "p/k", value, chunk_bytes=15, transfer_policy=BundleTransferPolicy())
    assert keys == bundles.payload_keys(spec) == ["p/k/chunk/0", "p/k/chunk/1"]
    monkeypatch.setattr(sos, "_concat_arrays_into", lambda *args: 1)
    with pytest.raises(RuntimeError, match="native fast-copy wrote"):
        put(fast, {"d": value}, pool=pool)
    assert pool.released == len(pool.sizes)


def test_arrays_are_joined_without_a_fast_copy(fast, monkeypatch):
    arrays = [np.arange(n, dtype=np.int16) for n in (3, 4, 5)]
    value = sos._DirectCopyPayload.from_flat_arrays(arrays, np.int16, 12)
    monkeypatch.setattr(sos, "_concat_arrays_into", None)
    pool = Pool()
    put(fast, {"d": value}, pool=pool, chunk_bytes=15)
    assert pool.sizes == [15, 9] and pool.released == 2
    assert read(fast, "d").tolist() == [*range(3), *range(4), *range(5)]


def test_a_tensor_object_buffer_is_put_as_it_lies(fast):
    memory = np.arange(16, dtype=np.uint8)
    buffer = tensor_object_buffer(memory.ctypes.data, 16, memory, batch_size=3)
    assert len(buffer) == 3
    with pytest.raises(TypeError, match="batch_size"):
        len(tensor_object_buffer(1, 2))
    put(fast, {"t": buffer}, policy=BundleTransferPolicy(copy_mode="zero_copy"))
    assert "put_from" in fast.names()
    key = fast.ref.manifest["buffers"]["t"]["key"]
    assert fast.values[key] == memory.tobytes()
    plain = PlainStore()
    with pytest.raises(RuntimeError, match="put_from"):
        put(plain, {"t": buffer})
    assert plain.values == {}


# ---- reading ----


def test_a_read_is_one_operation_of_each_member(fast):
    put(fast, {"t": TOKENS, "b": b"abc"}, chunk_bytes=40)
    fast.calls.clear()
    assert np.array_equal(read(fast, "t", part=(1, 5)), TOKENS[1:5])
    assert fast.names() == ["register_buffer", "batch_get_into",
                            "unregister_buffer", "register_buffer",
                            "get_into_ranges", "unregister_buffer"]
    key = fast.ref.manifest["buffers"]["t"]["key"]
    ((_, _, keys, dsts, srcs, sizes),) = [
        call for call in fast.calls if call[0] == "get_into_ranges"]
    assert keys == [[f"{key}/chunk/0", f"{key}/chunk/1"]]
    assert (dsts, srcs, sizes) == ([[[0], [24]]], [[[16], [0]]], [[[24], [40]]])
    fast.calls.clear()
    assert read(fast, "b") == b"abc"
    assert fast.names()[3:] == ["register_buffer", "batch_get_into",
                                "unregister_buffer"]


def test_one_whole_chunk_is_read_by_get_into(fast):
    put(fast, {"t": TOKENS})
    fast.calls.clear()
    assert np.array_equal(read(fast, "t"), TOKENS)
    assert fast.names()[3:] == ["register_buffer", "get_into", "unregister_buffer"]
    assert np.array_equal(read(fast, "t", part=(0, 6, 4)), TOKENS[::4])
    for part, wanted in (((-2, 99), TOKENS[-2:]), ((4, 2), TOKENS[4:2])):
        assert np.array_equal(read(fast, "t", part=part), wanted)
    assert read(fast, "t", part=(4, 2)).shape == (0, 4)


def test_without_fast_calls_chunks_are_read_whole(plain):
    put(plain, {"t": TOKENS}, chunk_bytes=40)
    plain.calls.clear()
    assert np.array_equal(read(plain, "t", part=(3, 5)), TOKENS[3:5])
    assert [call[1].rpartition("/")[2] for call in plain.calls][-1:] == ["1"]
    plain.values[plain.calls[-1][1]] += b"x"
    with pytest.raises(RuntimeError, match="get failed"):
        read(plain, "t")


def test_with_a_pool_results_lie_in_leases(fast):
    put(fast, {"t": TOKENS, "b": b"abc"})
    pool = Pool()
    got = read(fast, "t", pool=pool)
    assert np.array_equal(got, TOKENS) and pool.sizes == [96]
    assert "get_into" not in fast.names()
    assert got[1:]._mooncake_pool_owner is got._mooncake_pool_owner
    MooncakeBundleTransfer.release_result({"a": [got]})
    assert pool.released == 1
    assert bytes(read(fast, "b", pool=pool)) == b"abc"
    pool.fail = RuntimeError("exhausted")
    assert np.array_equal(read(fast, "t", pool=pool), TOKENS)
    assert read(fast, "b", pool=pool) == b"abc"
    fast.codes["get_into_ranges"] = 1
    pool.fail, held = None, len(pool.sizes) - pool.released
    with pytest.raises(RuntimeError, match="get_into_ranges failed"):
        read(fast, "t", pool=pool)
    assert len(pool.sizes) - pool.released == held


@pytest.mark.parametrize("code", [-600, -1])
def test_memory_is_registered_once(fast, code):
    put(fast, {"t": TOKENS})
    fast.codes["register_buffer"] = code
    fast.calls.clear()
    if code == -600:  # somebody else's, and left alone
        assert np.array_equal(read(fast, "t"), TOKENS)
        assert "unregister_buffer" not in fast.names()
    else:
        with pytest.raises(RuntimeError, match="register_buffer"):
            read(fast, "t")


def test_registered_memory_is_given_back_after_errors(fast):
    put(fast, {"t": TOKENS}, chunk_bytes=40)
    fast.fail["get_into_ranges"] = ConnectionError("lost")
    fast.calls.clear()
    with pytest.raises(ConnectionError):
        read(fast, "t")
    assert fast.names()[-1] == "unregister_buffer"
    fast.fail = {"unregister_buffer": OSError("x"), "batch_get_into": KeyError("y")}
    with pytest.raises(KeyError, match="y"):
        read(fast, "t")


def test_destinations_are_what_is_read(fast):
    put(fast, {"t": TOKENS, "b": b"abc"})
    array = np.empty((6, 4), np.int32)
    assert read(fast, "t", to=array) is array and np.array_equal(array, TOKENS)
    array = np.empty((3, 4), np.int32)
    assert read(fast, "t", part=(0, 6, 2), to=array) is array
    assert np.array_equal(array, TOKENS[::2])
    memory = np.zeros(100, np.uint8)
    for registered in (False, True):
        memory[:] = 0
        got = read(fast, "t", to=raw_destination(
            memory.ctypes.data, 100, memory, pre_registered=registered))
        assert np.array_equal(got, TOKENS)
        assert memory[:96].tobytes() == TOKENS.tobytes()
    readonly = np.empty((6, 4), np.int32)
    readonly.flags.writeable = False
    for wrong, words in (
            (np.empty((6, 4), np.int64), "dtype mismatch"),
            (np.empty((5, 4), np.int32), "destination shape mismatch"),
            (np.empty((4, 6), np.int32).T, "C-contiguous"), (readonly, "writeable"),
            (raw_destination(memory.ctypes.data, 95), "expected at least")):
        with pytest.raises(ValueError, match=words):
            read(fast, "t", to=wrong)
    for wrong in (bytearray(96), tensor_object_buffer(memory.ctypes.data, 100)):
        with pytest.raises(TypeError, match="ndarray"):
            read(fast, "t", to=wrong)
    with pytest.raises(ValueError, match="materialize_into"):
        read(fast, "b", to=array)
    with pytest.raises(ValueError, match="slicing"):
        read(fast, "b", part=(0, 1))


def test_read_specs_are_checked_when_they_are_read(fast):
    put(fast, {"t": TOKENS})
    transfer = MooncakeBundleTransfer(fast, "p")
    spec = transfer.read_spec(fast.ref)
    fast.calls.clear()
    with pytest.raises(ValueError, match="selected no members"):
        transfer.materialize(spec.select_members([]))
    assert fast.calls == []
    assert spec.slice_member("no", 7, 1, 2).member_slice("no") == \
        StructuredMemberSlice(7, 1, 2)
    with pytest.raises(KeyError, match="no"):
        transfer.materialize(spec.select_members(["no"]))
    for args, words in (((1, 0, 2), "axis=0"), ((0, 0, 2, 0), "step must be "),
                        ((0, 0, 2, -1), "step must be positive")):
        with pytest.raises(ValueError, match=words):
            transfer.materialize(spec.slice_member("t", *args))
    assert transfer.materialize_into(
        spec.slice_member("no", 7, 1, 2), {"no": 5}).objects["t"].shape == (6, 4)
    with pytest.raises(RuntimeError, match="get failed"):
        transfer.materialize(transfer.read_spec({"manifest_key": "p/a/b/manifest"}))


# ---- removing ----


def test_all_is_removed_at_once(fast):
    ref = put(fast, {"t": TOKENS, "none": b""}, chunk_bytes=64)
    keys = list(fast.values)
    fast.calls.clear()
    MooncakeBundleTransfer(fast, "p").remove_bundle(ref)
    assert fast.calls == [("batch_remove", keys, True)] and not fast.values
    MooncakeBundleTransfer(fast, "p").remove_bundle(ref)
    fast.codes = {"batch_remove": -1, "remove": -704}
    MooncakeBundleTransfer(fast, "p").remove_bundle(ref)
    assert fast.names()[-len(keys):] == ["remove"] * len(keys)
    fast.codes["remove"] = -5
    with pytest.raises(RuntimeError, match="-5"):
        MooncakeBundleTransfer(fast, "p").remove_bundle(ref)
    fast.fail["batch_remove"] = OSError("lost")
    with pytest.raises(OSError):
        MooncakeBundleTransfer(fast, "p").remove_bundle(ref)


def test_what_stays_is_no_reason_to_leave_the_others(plain):
    ref = put(plain, {"t": TOKENS}, chunk_bytes=32)
    keys = [chunk["key"] for chunk in ref.manifest["buffers"]["t"]["chunks"]]
    removes = plain.remove

    def remove(key: str, force: bool = False) -> int:
        return -5 if key in keys[:2] else removes(key, force)

    plain.remove = remove
    transfer = MooncakeBundleTransfer(plain, "p")
    with pytest.raises(RuntimeError,
                       match=f"remove failed for {keys[0]}: -5, and 1 more"):
        transfer.remove_bundle(ref)
    assert list(plain.values) == keys[:2]
    with pytest.raises(RuntimeError, match="-5"):
        transfer.remove_bundle(ref)
    plain.remove = removes
    transfer.remove_bundle(ref)
    assert plain.values == {}


def test_a_removal_without_force_is_one_too(fast):
    ref = put(fast, {"t": TOKENS})
    calls = []

    def remove(keys: list[str]) -> list[int]:
        calls.append(keys)
        return [0] * len(keys)

    fast.batch_remove = remove
    MooncakeBundleTransfer(fast, "p").remove_bundle(ref)
    assert calls == [list(fast.values)]
