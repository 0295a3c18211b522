# SPDX-License-Identifier: Apache-2.0
"""mooncake.dataproto_catalog, of batches that are in the store."""
from __future__ import annotations

import threading

import numpy as np
import pytest
from mooncake.dataproto_catalog import DataProtoCatalog
from mooncake.structured_object_store import (
    MooncakeBundleTransfer, export_dataproto_ref)


@pytest.fixture
def transfer(store):
    return MooncakeBundleTransfer(store)


def fragment(transfer, *names: str, rows: int = 2, **meta_info: object) -> dict:
    return export_dataproto_ref(transfer.put({
        "batch": {name: np.arange(rows) + len(name) for name in names},
        "meta_info": meta_info}))


def key_of(handle: dict) -> str:
    return handle["stage_refs"]["default"]["manifest_key"]


def test_fields_of_rows_are_found_and_read(transfer):
    catalog = DataProtoCatalog()
    first = fragment(transfer, "ids", "mask", step=1)
    later = fragment(transfer, "score")
    assert catalog.update("train", ["a", "b"], tags=[{"n": 1}, {"n": 2}],
                          handle=first) == {
        "keys": ["a", "b"], "tags": [{"n": 1}, {"n": 2}],
        "fields": ["ids", "mask"], "retired_handles": []}
    catalog.update("train", ["b", "a"], handle=later, tags=[{}, {"done": True}])
    found = catalog.resolve("train", ["b", "a"])
    assert found["tags"] == [{"n": 2}, {"n": 1, "done": True}]
    assert found["field_groups"] == [
        {"fields": ["ids", "mask"],
         "locations": [(key_of(first), 1), (key_of(first), 0)]},
        {"fields": ["score"],
         "locations": [(key_of(later), 0), (key_of(later), 1)]}]
    assert found["handles"] == {key_of(first): first, key_of(later): later}
    assert found["meta_info"] == {"step": 1}
    group = found["field_groups"][0]
    got = transfer.get(found["handles"][key_of(first)], fields=["ids"],
                       rows=[row for _, row in group["locations"]])
    assert got["batch"]["ids"].tolist() == [4, 3]
    assert catalog.list() == {"train": {"a": {"n": 1, "done": True},
                                        "b": {"n": 2}}}
    assert catalog.list("other") == {}


def test_fields_that_are_not_there_are_errors(transfer):
    catalog = DataProtoCatalog()
    catalog.update("p", ["a"], handle=fragment(transfer, "ids", rows=1))
    catalog.update("p", ["b"], tags=[{}])
    for keys, fields in ((["a", "b"], None), (["c"], None), (["a"], ["score"]),
                         (["b"], None), (["a", "a"], None), ([], None)):
        with pytest.raises(ValueError):
            catalog.resolve("p", keys, fields)
    assert catalog.resolve("p", ["a"], ["ids"])["fields"] == ["ids"]


def test_fragments_that_nobody_needs_are_retired(transfer):
    catalog = DataProtoCatalog()
    old, new = fragment(transfer, "ids"), fragment(transfer, "ids")
    catalog.publish("1", "p", ["a", "b"], handle=old)
    read = catalog.resolve("p", ["a"], pin=True)["read_token"]
    assert catalog.publish("2", "p", ["a", "b"], handle=new)[
        "retired_handles"] == []
    assert catalog.publish("2", "p", ["x"], handle=old)["keys"] == ["a", "b"]
    catalog.ack_publication("2")
    assert catalog.release_read(read)["retired_handles"] == [old]
    assert catalog.release_read(read)["retired_handles"] == [old]
    with pytest.raises(ValueError, match="removed"):
        catalog.publish("3", "p", ["a", "b"], handle=old)
    transfer.cleanup_dataproto(old)
    assert catalog.ack_retired([old])["retired_handles"] == []
    assert catalog.remove("p", ["a", "none"])["retired_handles"] == []
    assert catalog.remove("p", ["b"])["retired_handles"] == [new]
    assert catalog.list() == {}


def test_fragments_of_others_are_forgotten(transfer):
    catalog = DataProtoCatalog()
    mine, other = fragment(transfer, "ids"), fragment(transfer, "score")
    catalog.update("p", ["a", "b"], handle=other)
    catalog.publish("1", "p", ["a", "b"], handle=mine)
    with pytest.raises(ValueError):
        catalog.update("p", ["a", "b"], handle=mine)
    read = catalog.resolve("p", ["a"], pin=True)["read_token"]
    with pytest.raises(RuntimeError):
        catalog.drain()
    catalog.release_read(read)
    assert catalog.drain()["retired_handles"] == [mine]
    with pytest.raises(RuntimeError):
        catalog.update("p", ["a"], tags=[{}])


def test_arguments_that_cannot_be_change_nothing(transfer):
    catalog = DataProtoCatalog()
    good = fragment(transfer, "ids")
    both = export_dataproto_ref(transfer.append_dataproto_fields(
        good, {"score": np.ones(2)}, stage="more"))
    for keys, options in (
            (["a", "b"], {}), (["a"], {"handle": good}), (["a", "a"], {"tags": [
                {}, {}]}), (["a", ""], {"handle": good}),
            (["a", "b"], {"tags": [{}]}), (["a", "b"], {"tags": [1, 2]}),
            (["a", "b"], {"handle": both}), (["a", "b"], {"handle": {}}),
            (["a", "b"], {"handle": good | {"batch_size": 3}})):
        with pytest.raises(ValueError):
            catalog.update("p", keys, **options)
    with pytest.raises(TypeError, match="keys"):
        catalog.update("p", "ab", tags=[{}, {}])
    with pytest.raises(ValueError, match="partition"):
        catalog.update("", ["a"], tags=[{}])
    with pytest.raises(TypeError, match="pickle"):  # by copy.deepcopy()
        catalog.update("p", ["a", "b"], tags=[{"n": 1}, {"n": threading.Lock()}])
    assert catalog.list() == {}
    with pytest.raises(ValueError, match="disagree"):
        catalog.update("p", ["a"], handle=fragment(transfer, "x", rows=1, n=1))
        catalog.update("p", ["a"], handle=fragment(transfer, "y", rows=1, n=2))
        catalog.resolve("p", ["a"])
