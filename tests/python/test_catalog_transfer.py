# SPDX-License-Identifier: Apache-2.0
"""DataProtoCatalogTransfer: batches in the store and their catalog, in step."""
from __future__ import annotations

import threading

import numpy as np
import pytest
from mooncake.dataproto_catalog import DataProtoCatalog, DataProtoCatalogTransfer
from mooncake.structured_object_store import MooncakeBundleTransfer


class Elsewhere:
    """A catalog whose calls, or whose answers, get lost when a test says so."""

    def __init__(self) -> None:
        self.catalog = DataProtoCatalog()
        self.lost: dict[str, list[str]] = {}  # of a method: "call" or "answer"
        self.calls: list[str] = []

    def __call__(self, name: str, *args: object, **options: object) -> object:
        self.calls.append(name)
        how = self.lost.get(name)
        what = how.pop(0) if how else ""
        if what == "call":
            raise ConnectionError(name)
        answer = getattr(self.catalog, name)(*args, **options)
        if what == "answer":
            raise ConnectionError(name)
        return answer


@pytest.fixture
def elsewhere():
    return Elsewhere()


@pytest.fixture
def transfer(store, elsewhere):
    return DataProtoCatalogTransfer(MooncakeBundleTransfer(store), elsewhere)


def batch(**fields: list) -> dict:
    return {"batch": {name: np.array(rows) for name, rows in fields.items()}}


def read(transfer, keys: list[str], field: str) -> list:
    plan = transfer.resolve("p", keys, [field])
    values = [
        transfer.transfer.get(plan["handles"][name], fields=[field],
                              rows=[row])["batch"][field][0].item()
        for name, row in plan["field_groups"][0]["locations"]]
    transfer.release_read(plan["read_token"])
    return values


def n_objects(store) -> int:
    return store.remove_by_regex(".*", force=True)


def test_a_batch_is_found_and_removed(transfer, store):
    assert transfer.put(batch(ids=[1, 2]), partition="p", keys=("a", "b"),
                        tags=[{"n": 1}, {}])["fields"] == ["ids"]
    assert transfer.put(None, partition="p", keys=["b"], tags=[{"n": 2}])[
        "tags"] == [{"n": 2}]
    assert transfer.list("p") == {"p": {"a": {"n": 1}, "b": {"n": 2}}}
    assert read(transfer, ["b", "a"], "ids") == [2, 1]
    transfer.remove("p", ["a", "b"])
    transfer.close()
    assert n_objects(store) == 0


def test_a_reader_keeps_what_it_reads(transfer, store):
    transfer.put(batch(ids=[1]), partition="p", keys=["a"])
    plan = transfer.resolve("p", ["a"])
    transfer.put(batch(ids=[2]), partition="p", keys=["a"])
    (handle,) = plan["handles"].values()
    assert transfer.transfer.get(handle)["batch"]["ids"].tolist() == [1]
    transfer.release_read(plan["read_token"])
    with pytest.raises(RuntimeError):
        transfer.transfer.get(handle)
    assert read(transfer, ["a"], "ids") == [2]
    transfer.drain()
    assert n_objects(store) == 0


def test_fields_are_added_to_a_batch(transfer, store):
    transfer.put(batch(ids=[1, 2]), partition="p", keys=["a", "b"])
    plan = transfer.resolve("p", ["a", "b"])
    ((name, handle),) = plan["handles"].items()
    answer = transfer.append(name, handle, batch(score=[5, 6]), partition="p",
                             keys=["a", "b"], stage="reward")
    assert answer["fields"] == ["ids", "score"]
    assert read(transfer, ["b", "a"], "score") == [6, 5]
    with pytest.raises(ValueError, match="changed"):
        transfer.append(name, handle, batch(more=[5, 6]), partition="p",
                        keys=["a", "b"], stage="late")
    with pytest.raises(ValueError, match="overwrite"):
        transfer.append(name, handle, batch(score=[5, 6]), partition="p",
                        keys=["a", "b"], stage="reward", overwrite=True)
    transfer.release_read(plan["read_token"])
    transfer.drain()
    transfer.close()
    assert n_objects(store) == 0


def test_a_drained_catalog_refuses_a_batch_for_good(transfer, store):
    transfer.put(batch(ids=[1]), partition="p", keys=["a"])
    transfer.drain()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="has been drained"):
            transfer.put(batch(ids=[1]), partition="p", keys=["a"])
        with pytest.raises(RuntimeError, match="has been drained"):
            transfer.put(None, partition="p", keys=["a"], tags=[{"n": 1}])
    assert n_objects(store) == 0
    transfer.close()


def test_of_two_that_add_fields_one_is_refused(transfer, elsewhere, store):
    transfer.put(batch(ids=[1, 2]), partition="p", keys=["a", "b"])
    ((name, handle),) = elsewhere("resolve", "p", ["a"])["handles"].items()
    plain = transfer.transfer.append_dataproto_fields

    def overtaken(*args: object, **options: object) -> object:
        transfer.transfer.append_dataproto_fields = plain
        transfer.append(name, handle, batch(first=[1, 2]), partition="p",
                        keys=["a", "b"], stage="first")
        return plain(*args, **options)

    transfer.transfer.append_dataproto_fields = overtaken
    with pytest.raises(ValueError, match="changed"):
        transfer.append(name, handle, batch(second=[1, 2]), partition="p",
                        keys=["a", "b"], stage="second")
    assert read(transfer, ["a"], "first") == [1]
    transfer.drain()
    assert n_objects(store) == 0


def test_rows_in_another_order_are_refused(transfer, elsewhere, store):
    transfer.put(batch(ids=[1, 2]), partition="p", keys=["a", "b"])
    ((name, handle),) = elsewhere("resolve", "p", ["a"])["handles"].items()
    with pytest.raises(ValueError, match="rows"):
        transfer.append(name, handle, batch(score=[5, 6]), partition="p",
                        keys=["b", "a"], stage="reward")
    transfer.drain()
    assert n_objects(store) == 0


@pytest.mark.parametrize("lost", ["call", "answer"])
def test_a_publication_counts_once(transfer, elsewhere, store, lost):
    elsewhere.lost = {"publish": [lost]}
    transfer.put(batch(ids=[1]), partition="p", keys=["a"])
    assert elsewhere.calls.count("publish") == 2
    assert read(transfer, ["a"], "ids") == [1]
    transfer.remove("p", ["a"])
    assert n_objects(store) == 0


@pytest.mark.parametrize("lost", ["call", "answer"])
def test_what_was_not_published_is_before_the_next(
        transfer, elsewhere, store, lost):
    elsewhere.lost = {"publish": [lost] * 3}
    with pytest.raises(ConnectionError):
        transfer.put(batch(ids=[1]), partition="p", keys=["a"])
    with pytest.raises(RuntimeError, match="earlier"):
        transfer.put(batch(ids=[2]), partition="p", keys=["b"])
    transfer.put(batch(ids=[2]), partition="p", keys=["b"])
    assert read(transfer, ["a", "b"], "ids") == [1, 2]
    transfer.drain()
    transfer.close()
    assert n_objects(store) == 0


def test_acknowledgements_are_sent_again(transfer, elsewhere):
    elsewhere.lost = {"ack_publication": ["call"] * 2}
    transfer.put(batch(ids=[1]), partition="p", keys=["a"])
    with pytest.raises(RuntimeError, match="acknowledge"):
        transfer.close()
    transfer.close()
    assert elsewhere.calls.count("ack_publication") == 3
    transfer.close()
    assert elsewhere.calls.count("ack_publication") == 3


def test_what_is_refused_leaves_nothing(transfer, store):
    for wrong in (dict(partition="p", keys=["a"]),
                  dict(partition="p", keys=["a", "a"]),
                  dict(partition="p", keys=["a", "b"], tags=[{}])):
        with pytest.raises(ValueError):
            transfer.put(batch(ids=[1, 2]), **wrong)
    with pytest.raises(ValueError):
        transfer.put(None, partition="p", keys=["a"])
    transfer.close()
    assert n_objects(store) == 0


def test_what_cannot_be_removed_is_removed_later(transfer, store):
    transfer.put(batch(ids=[1]), partition="p", keys=["a"])
    plain = transfer.transfer.cleanup_dataproto

    def fail(handle: dict) -> None:
        transfer.transfer.cleanup_dataproto = plain
        raise RuntimeError("not now")

    transfer.transfer.cleanup_dataproto = fail
    transfer.remove("p", ["a"])
    transfer.put(None, partition="p", keys=["b"], tags=[{}])
    assert n_objects(store) == 0


def test_results_are_released(transfer):
    class Output:
        pass

    output, released = Output(), []

    def release(result: str) -> None:
        if result == "bad" and "bad" not in released:
            released.append("bad")
            raise RuntimeError(result)
        released.append(result)

    transfer.transfer.release_result = release
    transfer.attach_results(output, ["one", "bad"])
    transfer.release_result(output)
    transfer.release_result(output)
    assert released == ["one", "bad"]
    transfer.discard_results(["two"], strict=True)
    assert released == ["one", "bad", "two", "bad"]


def test_what_another_thread_does_once_more_is_waited_for(
        transfer, elsewhere, store):
    elsewhere.lost["publish"] = ["call", "call"]
    with pytest.raises(ConnectionError):
        transfer.put(batch(ids=[1]), partition="p", keys=["a"])
    reached, go_on = threading.Event(), threading.Event()
    publish = elsewhere.catalog.publish

    def slow(*args: object, **options: object) -> object:
        reached.set()
        assert go_on.wait(60)
        return publish(*args, **options)

    elsewhere.catalog.publish = slow
    first = threading.Thread(target=transfer.close)
    first.start()
    assert reached.wait(60)
    elsewhere.catalog.publish = publish
    waits = threading.Event()
    settling = transfer._settling

    class Told:
        def __enter__(self) -> None:
            waits.set()
            settling.acquire()

        def __exit__(self, *error: object) -> None:
            settling.release()

    transfer._settling = Told()
    later = threading.Thread(target=transfer.put, args=(batch(ids=[2]),),
                             kwargs={"partition": "p", "keys": ["a"]})
    later.start()
    # It waits for the first one, or else has come before it.
    while not waits.wait(0.01) and later.is_alive():
        pass
    go_on.set()
    first.join()
    later.join()
    assert read(transfer, ["a"], "ids") == [2]
    transfer.drain()
    assert n_objects(store) == 0


def test_threads_publish_at_the_same_time(transfer, store):
    def run(name: str) -> None:
        for i in range(5):
            transfer.put(batch(ids=[i]), partition="p", keys=[name])

    threads = [threading.Thread(target=run, args=(f"k{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(transfer, [f"k{n}" for n in range(8)], "ids") == [4] * 8
    transfer.drain()
    assert n_objects(store) == 0
