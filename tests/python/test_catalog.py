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
        "fields": ["ids", "mask"]}
    catalog.update("train", ["b", "a"], handle=later, tags=[{}, {"done": True}])
    found = catalog.resolve("train", ["b", "a"])
    assert found["tags"] == [{"n": 2}, {"n": 1, "done": True}]
    assert found["field_groups"] == [
        {"fields": ["ids", "mask"],
         "locations": [(key_of(first), 1), (key_of(first), 0)]},
        {"fields": ["score"],
         "locations": [(key_of(later), 0), (key_of(later), 1)]}]
    assert found["handles"] == {key_of(first): first, key_of(later): later}
    assert set(found) == {"keys", "tags", "fields", "field_groups", "handles"}
    assert catalog.resolve("train", ["a"], pin=True)["meta_info"] == {"step": 1}
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
    for keys, fields, words in (
            (["a", "b"], None, "not ready"), (["a", "c", "d"], None,
                                              r"were not found.*'c', 'd'"),
            (["a"], ["score"], "not ready"), (["b"], None, "do not contain any fields"),
            (["a", "a"], None, "unique"), ([], None, "non-empty strings"),
            (["a"], "ids", "sequence"), (["a"], [], "non-empty strings")):
        with pytest.raises(ValueError, match=words):
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
    empty = good | {"field_index": {}}
    for keys, options, words in (
            (["a", "b"], {}, "requires tags or"),
            (["a"], {"handle": good}, "does not match"),
            (["a", "a"], {"tags": [{}, {}]}, "unique"),
            (["a", ""], {"handle": good}, "non-empty strings"),
            (["a", 5], {"handle": good}, "non-empty strings"),
            ([], {"tags": []}, "non-empty strings"),
            ("ab", {"tags": [{}, {}]}, "sequence"),
            (["a", "b"], {"tags": [{}]}, "same length"),
            (["a", "b"], {"handle": both}, "exactly one .*stage"),
            (["a", "b"], {"handle": empty}, "cannot be empty"),
            (["a", "b"], {"handle": {}}, "handle"),
            (["a", "b"], {"handle": good | {"version": 3}}, "unsupported .*version"),
            (["a", "b"], {"handle": good | {"batch_size": 3}}, "does not match")):
        with pytest.raises(ValueError, match=words):
            catalog.update("p", keys, **options)
    with pytest.raises(TypeError, match="mapping"):
        catalog.update("p", ["a", "b"], tags=[{}, 2])
    for partition in ("", None, 5):
        with pytest.raises(ValueError, match="partition"):
            catalog.update(partition, ["a"], tags=[{}])
    with pytest.raises(TypeError, match="pickle"):  # by copy.deepcopy()
        catalog.update("p", ["a", "b"], tags=[{"n": 1}, {"n": threading.Lock()}])
    assert catalog.list() == {}
    catalog.update("p", ["a"], handle=fragment(transfer, "x", rows=1, n=1))
    catalog.update("p", ["a"], handle=fragment(transfer, "y", rows=1, n=2))
    assert catalog.resolve("p", ["a"])["fields"] == ["x", "y"]
    with pytest.raises(ValueError, match="disagree"):
        catalog.resolve("p", ["a"], pin=True)


def test_a_fragment_is_one_and_the_same(transfer):
    catalog = DataProtoCatalog()
    one, other = fragment(transfer, "x", "y"), fragment(transfer, "x")
    catalog.update("p", ["a", "b"], handle=one)
    with pytest.raises(ValueError, match="collision"):
        catalog.update("q", ["a", "b"], handle=one | {"meta_info": {"n": 1}})
    assert catalog.list() == {"p": {"a": {}, "b": {}}}
    # A field that is written again keeps its turn.
    assert catalog.update("p", ["b", "a"], handle=other)["fields"] == ["x", "y"]
    found = catalog.resolve("p", ["a", "b"])
    assert found["fields"] == ["x", "y"]
    assert found["field_groups"][0]["locations"] == [
        (key_of(other), 1), (key_of(other), 0)]
    catalog.update("p", ["a", "b"], handle=fragment(transfer, "y"))
    assert key_of(one) not in catalog.resolve("p", ["a"])["handles"]
