# SPDX-License-Identifier: Apache-2.0
"""Batches in a store of any kind: what is written and read of them, and when."""
from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from mooncake import structured_object_store as sos
from mooncake.structured_object_store import (
    FieldSchema, MooncakeBundleTransfer, MooncakeDataProtoRef, RemoteBundleRef,
    export_dataproto_ref, import_dataproto_ref)
from recorded import FastStore

IDS = np.arange(8).reshape(4, 2)


@pytest.fixture
def store():
    return FastStore()


@pytest.fixture
def transfer(store):
    return MooncakeBundleTransfer(store, "p")


def objects(*rows: object) -> np.ndarray:
    array = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        array[i] = row
    return array


def batch(**fields: object) -> dict:
    return {"batch": fields}


WHOLE = {"batch": {"ids": IDS}, "non_tensor_batch": {
    "text": objects("a", None, "b", "\u00e4"), "n": np.arange(4)},
    "meta_info": {"step": 3}}


# ---- what is stored ----


def test_what_a_batch_is_in_the_store(transfer, store):
    ref = transfer.put(WHOLE, namespace="ns", partition="train", stage="s")
    assert (ref.batch_size, ref.namespace, ref.partition) == (4, "ns", "train")
    (bundle,) = ref.stage_refs.values()
    assert bundle.manifest_key.startswith("p/train/")
    text = "non_tensor_batch.text"
    assert list(bundle.manifest["buffers"]) == [
        "batch.ids", f"{text}.data", f"{text}.offsets", f"{text}.nulls",
        "non_tensor_batch.n"]
    meta = json.loads(store.values[bundle.manifest["meta"]["key"]])
    assert meta["layout"] == "dataproto_stage"
    assert meta["dataproto"] == {"version": 1, "namespace": "ns",
                                 "partition": "train", "stage": "s",
                                 "batch_size": 4}
    entry = ref.encoded_non_tensor["text"]
    assert (entry["codec"], entry["rows"]) == ("utf8_ragged", 4)
    assert entry["payload_members"] == {
        one: f"{text}.{one}" for one in ("data", "offsets", "nulls")}
    assert {name: (at.stage, at.member, at.section)
            for name, at in ref.field_index.items()} == {
        "ids": ("s", "batch.ids", "batch"),
        "text": ("s", text, "non_tensor_batch"),
        "n": ("s", "non_tensor_batch.n", "non_tensor_batch")}


def test_parts_are_told_from_fields(transfer):
    ref = transfer.put({"batch": IDS, "meta_info": IDS})
    assert set(ref.field_index) == {"batch", "meta_info"}
    ref = transfer.put({"batch": None, "meta_info": {"a": 1}})
    assert (ref.stage_refs, ref.batch_size, ref.meta_info) == ({}, 0, {"a": 1})
    ref = transfer.put(SimpleNamespace(batch={"ids": IDS}, non_tensor_batch=None))
    assert set(ref.field_index) == {"ids"}
    with pytest.raises(TypeError, match="meta_info"):
        transfer.put(SimpleNamespace(batch={}, meta_info=[1]))


def test_what_is_refused_is_refused_before_any_write(transfer, store):
    ref = transfer.put(batch(ids=IDS))
    store.calls.clear()
    text = {"non_tensor_batch": {"ids": IDS}}
    for data, options, words in (
            (batch(a=IDS, b=IDS[:1]), {}, "inconsistent batch sizes"),
            ({**batch(ids=IDS), **text}, {}, "overlap"),
            (batch(ids=IDS), {"field_schemas": {"ids": FieldSchema(
                "auto", metadata={"section": "meta_info"})}}, "declares section"),
            (batch(ids=IDS), {"config": SimpleNamespace(group_ids=["a", "b"])},
             "config.group_ids"),
            (batch(ids=IDS), {"config": SimpleNamespace(group_ids=[5])},
             "must contain strings")):
        with pytest.raises(ValueError, match=words):
            transfer.put(data, **options)
    for data, options, words in (
            (batch(a=IDS[:2]), {}, "batch size"),
            (batch(ids=IDS), {}, "already exist"),
            (batch(a=IDS), {"overwrite": True}, "must include existing fields"),
            (batch(a=IDS), {"config": SimpleNamespace(group_ids=["x"])},
             "conflicts")):
        with pytest.raises(ValueError, match=words):
            transfer.append_dataproto_fields(ref, data, stage="default", **options)
    with pytest.raises(TypeError, match="ref"):
        transfer.append_dataproto_fields({"type": "x"}, batch(a=IDS), stage="s")
    assert store.calls == []


# ---- groups ----


def groups_of(store) -> list:
    return [getattr(call[-1].get("config"), "group_ids", None)
            for call in store.calls if call[0].startswith(("put", "batch_put"))]


def test_all_writes_of_a_batch_are_of_one_group(transfer, store):
    ref = transfer.put(WHOLE)
    group = ref._storage_group_id
    assert group.startswith("structured-") and "_storage" not in repr(ref)
    transfer.append_dataproto_fields(export_dataproto_ref(ref), batch(a=IDS),
                                     stage="default")
    assert len(groups_of(store)) > 10
    assert all(one == [group] for one in groups_of(store))
    store.calls.clear()
    config = SimpleNamespace(group_ids="mine", other=5)
    assert transfer.put(WHOLE, config=config)._storage_group_id == "mine"
    assert all(one == ["mine"] for one in groups_of(store))
    assert store.calls[0][-1]["config"].other == 5 and config.group_ids == "mine"
    for none in ("", [""]):
        store.calls.clear()
        config = SimpleNamespace(group_ids=none)
        ref = transfer.put(batch(ids=IDS), config=config)
        assert ref._storage_group_id is None
        assert "storage_group_id" not in export_dataproto_ref(ref)
    store.calls.clear()
    new = transfer.append_dataproto_fields(ref, batch(a=IDS), stage="s")
    assert set(map(str, groups_of(store))) == {"None"}
    assert all("config" not in call[-1] for call in store.calls)
    assert new._storage_group_id is None


# ---- appends ----


def test_a_new_stage_reads_nothing_old(transfer, store):
    ref = transfer.put(batch(ids=IDS), stage="a")
    handle = export_dataproto_ref(ref)
    store.calls.clear()
    new = transfer.append_dataproto_fields(
        handle, {"non_tensor_batch": {"text": objects(*"abcd")},
                 "meta_info": {"x": 1}}, stage="b")
    assert "get" not in store.names() and "batch_get_into" not in store.names()
    assert sorted(new.stage_refs) == ["a", "b"] and new.meta_info == {"x": 1}
    assert list(new.encoded_non_tensor) == ["text"]
    over = transfer.append_dataproto_fields(
        new, {"non_tensor_batch": {"text": np.arange(4)}}, stage="b",
        overwrite=True)
    assert over.encoded_non_tensor == {}
    with pytest.raises(RuntimeError):
        transfer.get(new, fields=["text"])


def test_the_same_stage_is_merged(transfer, store):
    ref = transfer.put(batch(ids=IDS))
    old = ref.stage_refs["default"]
    new = transfer.append_dataproto_fields(ref, batch(a=IDS), stage="default")
    bundle = new.stage_refs["default"]
    manifest = bundle.manifest
    assert list(manifest)[-2:] == ["buffer_object_ids", "cleanup_keys"]
    assert list(manifest["buffers"]) == ["batch.ids", "batch.a"]
    assert manifest["buffers"]["batch.ids"] == old.manifest["buffers"]["batch.ids"]
    ids = manifest["buffer_object_ids"]
    assert len(ids) == 2 and ids == sorted(ids)
    assert old.manifest["object_id"] in ids and manifest["object_id"] not in ids
    cleanup = manifest["cleanup_keys"]
    assert cleanup[:2] == [old.manifest_key, old.manifest["meta"]["key"]]
    assert len(cleanup) == 4 and cleanup[2].endswith("/manifest")
    # Its own manifest and metadata are gone; the old ones are there.
    assert not set(cleanup[2:]) & store.values.keys()
    assert set(cleanup[:2]) < store.values.keys()
    assert set(transfer.get(ref)["batch"]) == {"ids"}
    third = transfer.append_dataproto_fields(new, batch(b=IDS), stage="default")
    assert set(transfer.get(export_dataproto_ref(third))["batch"]) == {
        "ids", "a", "b"}
    transfer.cleanup_dataproto(third)
    assert store.values == {}


def test_a_merge_that_fails_leaves_the_old(transfer, store):
    ref = transfer.put(batch(ids=IDS))
    there = dict(store.values)
    handle = export_dataproto_ref(ref)
    handle["namespace"] = "other"
    with pytest.raises(ValueError, match="stage metadata mismatch"):
        transfer.append_dataproto_fields(handle, batch(a=IDS), stage="default")
    assert store.values == there
    handle = export_dataproto_ref(ref)
    handle["field_index"] = {}  # so that it knows of no such field
    with pytest.raises(ValueError, match="already exist"):
        transfer.append_dataproto_fields(handle, batch(ids=IDS), stage="default")
    assert store.values == there


def test_a_ref_that_names_another_manifest_is_refused(transfer, store):
    ref = transfer.put(batch(ids=IDS))
    old = ref.stage_refs["default"]
    store.values["p/default/copy/manifest"] = store.values[old.manifest_key]
    there = dict(store.values)
    for name in ("elsewhere/x", "p/x", "p/default/copy/manifest"):
        for manifest in (old.manifest, {}):
            if not manifest and name not in store.values:
                continue
            wrong = replace(ref, stage_refs={
                "default": RemoteBundleRef(name, manifest)})
            for fields, overwrite in ((batch(a=IDS), False),
                                      (batch(ids=IDS), True)):
                with pytest.raises(ValueError, match="manifest_key"):
                    transfer.append_dataproto_fields(
                        wrong, fields, stage="default", overwrite=overwrite)
                assert store.values == there
            with pytest.raises(ValueError, match="manifest_key"):
                transfer.cleanup_dataproto(wrong)
    nameless = replace(ref, stage_refs={"default": RemoteBundleRef(
        "", old.manifest)})
    new = transfer.append_dataproto_fields(nameless, batch(a=IDS),
                                           stage="default")
    assert set(transfer.get(new)["batch"]) == {"ids", "a"}
    transfer.cleanup_dataproto(new)
    assert list(store.values) == ["p/default/copy/manifest"]


def test_only_metadata_is_not_stored(transfer, store):
    ref = transfer.put({"meta_info": {"a": 1}})
    new = transfer.append_dataproto_fields(ref, {"meta_info": {"b": 2}}, stage="s")
    assert new.meta_info == {"a": 1, "b": 2} and store.calls == []
    assert new._storage_group_id == ref._storage_group_id is not None
    assert transfer.get(new) == {"batch": {}, "non_tensor_batch": {},
                                 "meta_info": {"a": 1, "b": 2}}
    transfer.cleanup_dataproto(new)
    assert store.calls == []
    with pytest.raises(ValueError, match="batch size"):
        transfer.append_dataproto_fields(transfer.put(batch(ids=IDS)),
                                         {"meta_info": {"b": 2}}, stage="s")


# ---- reading ----


def test_only_what_is_wanted_is_read(transfer, store):
    ref = transfer.put(WHOLE)
    store.calls.clear()
    assert transfer.get(ref, fields=[]) == {
        "batch": {}, "non_tensor_batch": {}, "meta_info": {"step": 3}}
    assert store.calls == []
    assert list(transfer.get(ref, non_tensor_fields=["text", "n"])[
        "non_tensor_batch"]) == ["n", "text"]  # what is encoded comes last
    assert not transfer.get(ref, non_tensor_fields=["n"])["batch"]
    assert transfer.get(ref, fields=[], meta_info_keys=["no"])["meta_info"] == {}
    got = transfer.get(ref, batch_fields=["text"])  # names, of any section
    assert not got["batch"] and list(got["non_tensor_batch"]) == ["text"]
    for wrong in ("fields", "batch_fields", "non_tensor_fields"):
        with pytest.raises(KeyError, match="unknown DataProto fields"):
            transfer.get(ref, **{wrong: ["none"]})
    with pytest.raises(ValueError, match="fields cannot be combined"):
        transfer.get(ref, fields=["ids"], batch_fields=[])


def test_rows_of_an_encoded_field_need_their_bytes_only(transfer, store):
    ref = transfer.put({"non_tensor_batch": {"text": objects(
        *(str(n) * 1000 for n in range(10)))}})
    store.calls.clear()
    got = transfer.get(ref, rows=[7, 2, 2])["non_tensor_batch"]["text"]
    assert got.tolist() == ["7" * 1000, "2" * 1000, "2" * 1000]
    read = sum(size for call in store.calls if call[0] == "get_into_ranges"
               for buffer in call[-1] for parts in buffer for size in parts)
    assert read < 3200


def test_results_are_of_the_class_that_is_wanted(transfer):
    class Plain:
        def __init__(self, batch, non_tensor_batch, meta_info):
            self.parts = batch, non_tensor_batch, meta_info

    class Made:
        @classmethod
        def from_dict(cls, batch, others, meta_info):
            return "made", set(batch), meta_info

    ref = transfer.put(WHOLE)
    assert transfer.get(ref, data_cls=Plain).parts[2] == {"step": 3}
    assert transfer.get(ref, data_cls=Made) == ("made", {"ids"}, {"step": 3})
    assert set(transfer.get(ref, data_cls=dict)) == {
        "batch", "non_tensor_batch", "meta_info"}
    with pytest.raises(TypeError, match="cannot be constructed"):
        transfer.get(ref, data_cls=int)
    flat = transfer.get(ref, type="dict")
    assert list(flat) == ["step", "ids", "n", "text"]
    assert type(flat["text"]) is list and isinstance(flat["n"], np.ndarray)
    ref.meta_info["ids"] = 5
    with pytest.raises(ValueError, match="Duplicate keys"):
        transfer.get(ref, type="dict")


def test_a_view_tells_how_fields_are_stored(transfer):
    ref = transfer.put(WHOLE, namespace="ns")
    view = transfer.dataproto_manifest_view(export_dataproto_ref(ref))
    assert list(view) == ["namespace", "partition", "batch_size", "batch_fields",
                          "non_tensor_fields", "meta_info_keys", "stages"]
    assert view["batch_fields"] == {"ids": {
        "section": "batch", "stage": "default", "member": "batch.ids",
        "spec": {"encoding": "ndarray", "dtype": "<i8", "shape": [4, 2]}}}
    spec = view["non_tensor_fields"]["text"]["spec"]
    assert (spec["encoding"], spec["codec"]) == ("structured_non_tensor",
                                                 "utf8_ragged")
    assert spec["payload_specs"]["nulls"] == {
        "encoding": "ndarray", "dtype": "|b1", "shape": [4]}
    assert view["meta_info_keys"] == ["step"]
    assert view["stages"]["default"]["dataproto"]["namespace"] == "ns"


# ---- handles ----


def test_handles_are_json(transfer):
    ref = transfer.put({**WHOLE, "meta_info": {"a": np.int64(1), 5: (1, 2),
                                               "b": np.arange(2)}})
    handle = export_dataproto_ref(ref)
    assert list(handle) == [
        "type", "version", "kind", "batch_size", "namespace", "partition",
        "global_indexes", "stage_refs", "field_index", "meta_info",
        "encoded_non_tensor", "storage_group_id"]
    assert handle["version"] == 1
    assert handle["meta_info"] == {"a": 1, "5": [1, 2], "b": [0, 1]}
    again = import_dataproto_ref(json.loads(json.dumps(handle)))
    assert export_dataproto_ref(again) == handle
    assert again.stage_refs["default"].manifest == {}
    assert sos.export_ref is export_dataproto_ref
    assert sos.import_ref is import_dataproto_ref
    with pytest.raises(TypeError, match="JSON-safe"):
        export_dataproto_ref(MooncakeDataProtoRef(0, {}, {}, {"a": object()}))
    with pytest.raises(TypeError, match="ref"):
        export_dataproto_ref({})


@pytest.mark.parametrize("wrong, words", [
    ({"type": "x"}, "not a .* handle"), ({"version": 3}, "unsupported .* version"),
    ({"version": "x"}, "unsupported .* version"),
    ({"version": float("inf")}, "unsupported .* version"),
    ({"version": float("nan")}, "unsupported .* version"),
    ({"kind": "x"}, "unsupported .* kind"),
    ({"stage_refs": 5}, "stage_refs must be a mapping"),
    ({"field_index": None}, "field_index must be a mapping"),
    ({"meta_info": []}, "meta_info must be a mapping"),
    ({"encoded_non_tensor": 5}, "encoded_non_tensor must be a mapping"),
    ({"stage_refs": {"s": 5}}, "must be a mapping"),
    ({"stage_refs": {"": {"manifest_key": "k"}}}, "non-empty"),
    ({"stage_refs": {"s": {"manifest_key": ""}}}, "non-empty"),
    ({"field_index": {"f": 5}}, "must be a mapping"),
    ({"field_index": {"f": {"stage": "s", "member": "m", "section": "x"}}},
     "section"),
    ({"field_index": {"f": {"stage": "s", "member": "", "section": "batch"}}},
     "non-empty"),
    ({"field_index": {"f": {"stage": "t", "member": "m", "section": "batch"}}},
     "unknown stage"),
    ({"storage_group_id": ""}, "storage_group_id"),
    ({"storage_group_id": 5}, "storage_group_id"),
    ({"version": 2}, "storage_group_id"),
    ({"global_indexes": 5}, "global_indexes"),
    ({"global_indexes": [True]}, "global_indexes"),
    *(({"batch_size": size}, "batch_size") for size in (
        "x", None, -1, "-1", 4.5, float("inf"), float("nan"), []))])
def test_handles_that_lie_are_refused(wrong, words):
    good = {"type": "mooncake_dataproto_ref", "version": 1, "kind": "bundle_stages",
            "batch_size": 4, "stage_refs": {"s": {"manifest_key": "k"}},
            "field_index": {"f": {"stage": "s", "member": "m",
                                  "section": "batch"}}}
    ref = import_dataproto_ref({**good, "later": 5})
    assert (ref.namespace, ref.partition, ref.meta_info) == ("default",) * 2 + ({},)
    assert ref._storage_group_id is None and ref.global_indexes is None
    for size in ("4", 4.0, np.int64(4)):
        assert import_dataproto_ref({**good, "batch_size": size}) == ref
    assert import_dataproto_ref({**good, "version": 2, "storage_group_id": "g"}
                                )._storage_group_id == "g"
    with pytest.raises(ValueError, match=words):
        import_dataproto_ref(good | wrong)
