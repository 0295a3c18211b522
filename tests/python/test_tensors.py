# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch as values; skipped where there is no torch."""
from __future__ import annotations

import ctypes
import struct
import subprocess
import sys

import pytest
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from pool import MB, Memory

torch = pytest.importorskip("torch")
METADATA = 304

TENSORS = [
    torch.arange(24, dtype=torch.float32).reshape(2, 3, 4),
    torch.arange(24).reshape(2, 3, 4).transpose(0, 2),
    torch.tensor(7, dtype=torch.int16), torch.tensor([True, False]),
    torch.ones(3, 5, dtype=torch.bfloat16), torch.empty(0, 4),
    torch.zeros(1, 1, 1, 1, 1, 1, 1, 2, dtype=torch.uint8),
    torch.ones(4, dtype=torch.float64).to(torch.float8_e4m3fn)]


def same(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    return (got.dtype == wanted.dtype and got.shape == wanted.shape
            and got.contiguous().view(-1).view(torch.uint8).tolist()
            == wanted.contiguous().view(-1).view(torch.uint8).tolist())


def test_tensors_come_back_as_they_were(store):
    keys = [f"tensor{i}" for i in range(len(TENSORS))]
    assert store.batch_put_tensor(keys, TENSORS) == [0] * len(keys)
    got = store.batch_get_tensor([*keys, "none"])
    assert got.pop() is None
    assert all(same(*pair) for pair in zip(got, TENSORS))
    assert same(store.get_tensor(keys[0]), TENSORS[0])
    assert store.get_tensor("none") is None


def test_the_bytes_are_those_of_the_format(store):
    tensor = torch.tensor([[1, 2, 3]], dtype=torch.int32)
    assert store.put_tensor("k", tensor) == 0
    value = store.get("k")
    head = struct.unpack_from("<IHHiiIIQQ", value)
    assert head == (0x4D4F4F4E, 1, METADATA, 6, 2, 0, 0, METADATA, 12)
    shapes = struct.unpack_from("<8q8qII", value, 40)
    assert shapes == (1, 3, -1, -1, -1, -1, -1, -1) * 2 + (0, 0)
    assert value[METADATA:] == struct.pack("<3i", 1, 2, 3)


def test_values_of_the_older_format_are_read(store):
    """Whose header has the size of its first part, and zeros behind shapes."""
    assert store.put_tensor("k", TENSORS[0]) == 0
    value = bytearray(store.get("k"))
    struct.pack_into("<H", value, 6, 40)
    for at in (40, 104):
        struct.pack_into("<5q", value, at + 3 * 8, *[0] * 5)
    assert store.upsert("k", value) == 0
    assert same(store.get_tensor("k"), TENSORS[0])


def test_puts_leave_and_upserts_replace(store):
    one, two = torch.tensor([1.0]), torch.tensor([2.0, 3.0])
    config = ReplicateConfig()
    assert store.pub_tensor("k", one, config) == 0
    assert store.put_tensor("k", two) == 0
    assert same(store.get_tensor("k"), one)
    assert store.upsert_tensor("k", two) == 0
    assert same(store.get_tensor("k"), two)
    assert store.upsert_pub_tensor("k", one, config) == 0
    assert store.batch_upsert_pub_tensor(["k"], [two], config) == [0]
    assert store.batch_upsert_tensor(["l"], [one]) == [0]
    assert store.batch_pub_tensor(["m"], [one], config) == [0]
    assert [t.tolist() for t in store.batch_get_tensor(["k", "l", "m"])] == [
        [2.0, 3.0], [1.0], [1.0]]


def test_tensors_lie_in_the_callers_memory(store):
    memory = Memory(4096)
    tensor = torch.tensor([5, 6], dtype=torch.int64)
    store.put_tensor("k", tensor)
    got = store.get_tensor_into("k", memory.addr, 4096)
    assert same(got, tensor)
    assert got.data_ptr() == memory.addr + METADATA
    assert store.put_tensor_from("l", memory.addr, METADATA + 16) == 0
    assert store.upsert_tensor_from("l", memory.addr, METADATA + 16) == 0
    assert store.batch_put_tensor_from(["m"], [memory.addr],
                                       [METADATA + 16]) == [0]
    assert store.batch_upsert_tensor_from(["m"], [memory.addr],
                                          [METADATA + 16]) == [0]
    got = store.batch_get_tensor_into(
        ["l", "none", "m"], [memory.addr + i * 1024 for i in (1, 2, 3)],
        [1024] * 3)
    assert same(got[0], tensor) and got[1] is None and same(got[2], tensor)
    assert store.get_tensor_into("k", memory.addr, 8) is None


def test_shards_are_stored_for_every_rank(store):
    tensor = torch.arange(32.0).reshape(4, 8)
    assert store.put_tensor_with_tp("w", tensor, 0, 4, 1) == 0
    for rank in range(4):
        wanted = tensor[:, 2 * rank:2 * rank + 2]
        assert same(store.get_tensor_with_tp("w", rank, 4, 1), wanted)
    kind, shape = struct.unpack_from("<16xI20x8q", store.get("w_tp_3"))[:2]
    assert (kind, shape) == (1, 4)
    assert store.batch_put_tensor_with_tp(["a", "b"], [tensor, tensor],
                                          tp_size=2) == [0, 0]
    assert same(store.batch_get_tensor_with_tp(["a", "b"], 1, 2)[1], tensor[2:])
    assert store.pub_tensor_with_tp("whole", tensor, ReplicateConfig()) == 0
    assert same(store.get_tensor_with_tp("whole"), tensor)
    for wrong in ((0, 3, 1), (0, 9, 1), (5, 4, 1), (0, 2, 2), (0, 2, -1)):
        assert store.put_tensor_with_tp("y", tensor, *wrong) == -600


def test_values_that_are_no_tensors_are_none(store):
    store.put_tensor("k", torch.ones(3))
    value = bytearray(store.get("k"))
    store.put("short", b"no tensor")
    for at, wrong in ((0, b"X"), (8, b"\xff"), (12, b"\x09"), (24, b"\x00"),
                      (32, b"\xff"), (104, b"\xff" * 8)):
        changed = bytearray(value)
        changed[at:at + len(wrong)] = wrong
        assert store.upsert("wrong", changed) == 0
        assert store.get_tensor("wrong") is None
    struct.pack_into("<i", value, 12, 3)  # no elements, and yet too many
    struct.pack_into("<Q", value, 32, 0)
    struct.pack_into("<3q", value, 104, 0, 1 << 62, 8)
    assert store.upsert("wrong", value) == 0
    assert store.get_tensor("wrong") is None
    assert store.get_tensor("short") is None


ONE = torch.ones(1)
NO_TENSORS = [b"bytes", None, 1, torch.ones([1] * 9),
              torch.ones(1, dtype=torch.complex64), torch.ones(3).to_sparse(),
              torch.ones(1, device="meta")]


@pytest.mark.parametrize("wrong", NO_TENSORS, ids=str)
def test_what_is_no_tensor_is_a_code(store, wrong):
    for name in ("put_tensor", "pub_tensor", "upsert_tensor",
                 "upsert_pub_tensor", "put_tensor_with_tp"):
        assert getattr(store, name)("k", wrong) == -600
    for name in ("batch_put_tensor", "batch_pub_tensor", "batch_upsert_tensor",
                 "batch_upsert_pub_tensor"):
        assert getattr(store, name)(["k", f"good by {name}"], [wrong, ONE]) == [
            -600, 0]
    assert store.is_exist("k") == 0


def test_lists_of_tensors_go_with_their_keys(store):
    config = ReplicateConfig()
    config.group_ids = ["g"]
    for name in ("batch_put_tensor", "batch_pub_tensor", "batch_upsert_tensor",
                 "batch_upsert_pub_tensor", "batch_put_tensor_with_tp"):
        method = getattr(store, name)
        assert method(["a", "b"], [ONE]) == method(["a", "b"], None) == [-600] * 2
        assert method([], [ONE]) == []
        if "pub" in name:
            assert method(["a", "b"], [ONE, ONE], config) == [-600] * 2
    assert store.batch_is_exist(["a", "b"]) == [0, 0]


def test_preferred_segments_are_one_for_each_replica(store):
    config = ReplicateConfig()
    config.preferred_segments = [store.get_hostname()] * 2
    assert store.pub_tensor("k", ONE, config) == -600
    assert store.upsert_pub_tensor("k", ONE, config) == -600
    assert store.batch_pub_tensor(["k", "l"], [ONE] * 2, config) == [-600] * 2
    assert store.batch_upsert_pub_tensor(["k"], [ONE], config) == [-600]
    assert store.pub_tensor_with_tp("k", ONE, config) == -600
    assert store.batch_pub_tensor_with_tp(["k"], [ONE], config) == [-600]
    config.preferred_segments = [store.get_hostname()]
    assert store.pub_tensor("k", ONE, config) == 0


def test_calls_that_cannot_be_are_lists_of_codes(store):
    memory = Memory(4096)
    at = memory.addr
    assert store.put_tensor("k", ONE) == 0
    for name, miss in (("batch_get_tensor_into", None),
                       ("batch_get_tensor_with_tp_into", None)):
        get = getattr(store, name)
        assert get(["k", "l"], [at], [8, 8]) == [-600] * 2
        assert get(["k", "l"], [at, at], [8]) == [-600] * 2
        assert get(["k", "l"], [at, 0], [400, 400]) == [-600] * 2
        assert get([], [], []) == []
        assert get(["none"], [at], [400]) == [miss]
        assert get(["k"], [at], [8]) == [None]
    assert store.get_tensor_into("k", 0, 400) is None
    assert store.get_tensor_with_tp_into("k", 0, 400) is None


def test_only_tensors_are_stored_from_memory(store):
    memory = Memory(4096)
    at = memory.addr
    assert store.put_tensor("k", torch.ones(4)) == 0
    assert store.get_tensor_into("k", at, 4096) is not None
    size = METADATA + 16
    for wrong in ((0, size), (at, METADATA - 1), (at, size - 1), (at, size + 1),
                  (at + 8, size), (8, size), (at, 0)):
        assert store.put_tensor_from("l", *wrong) == -600
        assert store.upsert_tensor_from("l", *wrong) == -600
        for name in ("batch_put_tensor_from", "batch_upsert_tensor_from"):
            places = [[one, two] for one, two in zip((at, size), wrong)]
            assert getattr(store, name)(["l", "m"], *places) == [-600] * 2
    assert store.batch_is_exist(["l", "m"]) == [0, 0]
    for name in ("batch_put_tensor_from", "batch_upsert_tensor_from"):
        put = getattr(store, name)
        assert put([], [], []) == []
        assert put(["l", "m"], [at], [size]) == [-600] * 2
        assert put(["l"], [at], [size, size]) == [-600]
        assert put(["l", "m"], [at] * 2, [size] * 2) == [0, 0]


INTO = ("get_tensor_into", "get_tensor_with_tp_into",
        "get_tensor_with_parallelism_into")
FROM = ("put_tensor_from", "upsert_tensor_from", "put_tensor_with_tp_from",
        "put_tensor_with_parallelism_from", "upsert_tensor_with_parallelism_from")


@pytest.mark.parametrize("registered", [False, True])
def test_tensors_lie_in_no_memory_that_does_not_do(store, registered):
    """Registered memory is a byte too short; or there is none at the address."""
    memory, size = Memory(4096), METADATA + 16
    at = memory.addr if registered else 4096
    assert store.put_tensor("k", torch.ones(4)) == 0
    for name in INTO:
        assert getattr(store, name)("k", memory.addr, size) is not None
    for name in FROM:
        assert getattr(store, name)("good", memory.addr, size) == 0
    if registered:
        assert store.register_buffer(at, size - 1) == 0
    before = memory.read(0, 4096)
    assert store.upsert_tensor("k", torch.zeros(4)) == 0
    for name in INTO:
        assert getattr(store, name)("k", at, size) is None
        assert getattr(store, f"batch_{name}")(["k"], [at], [size]) == [None]
    for name in FROM:
        assert getattr(store, name)("bad", at, size) == -600
        assert getattr(store, f"batch_{name}")(["bad"], [at], [size]) == [-600]
    assert memory.read(0, 4096) == before
    assert store.is_exist("bad") == 0
    if registered:
        assert store.unregister_buffer(at) == 0


def test_without_a_client_all_answer():
    store, memory = MooncakeDistributedStore(), Memory(4096)
    at, two, sizes = memory.addr, ["k", "l"], [400, 400]
    for name in ("put_tensor", "upsert_tensor", "pub_tensor",
                 "upsert_pub_tensor", "put_tensor_with_tp"):
        assert getattr(store, name)("k", ONE) == -600
        batch = getattr(store, f"batch_{name}")
        assert batch(two, [ONE, ONE]) == [-600] * 2
    assert store.get_tensor("k") is store.get_tensor_with_tp("k") is None
    assert store.get_tensor_into("k", at, 400) is None
    assert store.get_tensor_with_tp_into("k", at, 400) is None
    assert store.batch_get_tensor(two) == [None] * 2
    assert store.batch_get_tensor_with_tp(two) == [None] * 2
    assert store.batch_get_tensor_into(two, [at] * 2, sizes) == [-600] * 2
    assert store.batch_get_tensor_with_tp_into(two, [at] * 2, sizes) == [None] * 2
    for name in ("put_tensor_from", "upsert_tensor_from",
                 "put_tensor_with_tp_from"):
        assert getattr(store, name)("k", at, 400) == -600
        batch = getattr(store, f"batch_{name}")
        assert batch(two, [at] * 2, sizes) == [-600] * 2
    assert store.get_tensor_into_cuda("k", ONE) == -600
    assert store.batch_get_tensor_into_cuda(two, [ONE] * 2) == [-600] * 2


def test_torch_is_imported_when_it_is_needed():
    script = ("import sys, mooncake.store as m; s = m.MooncakeDistributedStore()"
              "; s.put('k', b'v'); assert 'torch' not in sys.modules"
              "; s.get_tensor('k'); assert 'torch' in sys.modules")
    subprocess.run([sys.executable, "-c", script], check=True)


def test_large_tensors_are_whole(master):
    store = master.store(segment=64 * MB)
    tensor = torch.arange(4 * MB, dtype=torch.int32)
    assert store.put_tensor("large", tensor) == 0
    assert torch.equal(store.get_tensor("large"), tensor)
    store.close()


def test_tensors_are_filled_in_place(store):
    keys = [f"tensor{i}" for i in range(len(TENSORS))]
    assert store.batch_put_tensor(keys, TENSORS) == [0] * len(keys)
    places = [torch.zeros(one.shape, dtype=one.dtype) for one in TENSORS]
    assert store.batch_get_tensor_into_cuda(keys, places) == [
        one.numel() * one.element_size() for one in TENSORS]
    assert all(same(*pair) for pair in zip(places, TENSORS))
    place = torch.zeros(2, 3, 4)
    assert store.get_tensor_into_cuda(key="tensor0", tensor=place) == 96
    assert same(place, TENSORS[0])


def test_what_cannot_be_filled_is_left_as_it_was(store):
    assert store.put_tensor("k", torch.arange(8, dtype=torch.float32)) == 0
    assert store.put("text", b"no tensor") == 0
    wrong = [torch.full((8,), 5, dtype=torch.int32), torch.full((9,), 5.0),
             torch.full((16,), 5.0)[::2]]
    for tensor in wrong:
        assert store.get_tensor_into_cuda("k", tensor) == -600
        assert (tensor == 5).all()
    place = torch.full((8,), 5.0)
    assert store.batch_get_tensor_into_cuda(["none", "text"], [place, place]) == [
        -704, -600]
    assert (place == 5).all()
    assert store.batch_get_tensor_into_cuda(["k"], []) == [-600]
    assert store.batch_get_tensor_into_cuda([], []) == []
    assert store.get_tensor_into_cuda("k", b"12345678") == -600
    closed = MooncakeDistributedStore()
    assert closed.get_tensor_into_cuda("k", place) == -600


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_of_a_gpu_are_read_and_filled(store):
    there = torch.arange(1 << 16, dtype=torch.float32, device="cuda")
    assert store.put_tensor("k", there) == 0
    place = torch.zeros_like(there)
    assert store.get_tensor_into_cuda("k", place) == 4 << 16
    assert torch.equal(place, there)


def test_tensors_are_values_without_a_store():
    from mooncake.store import _deserialize_tensor, _serialize_tensor

    for tensor in TENSORS:
        head, addr, size, owner = _serialize_tensor(tensor)
        assert len(head) == METADATA and owner.data_ptr() == addr
        data = ctypes.string_at(addr, size) if size else b""
        assert same(_deserialize_tensor(head + data), tensor)
    with pytest.raises(ValueError):
        _serialize_tensor(3)
    for wrong in (b"", b"x", bytes(METADATA), head + data + b"x"):
        with pytest.raises(ValueError):
            _deserialize_tensor(wrong)
