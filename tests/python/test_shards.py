# SPDX-License-Identifier: Apache-2.0
"""Shards of tensors, and tensors in files; skipped where there is no torch."""
from __future__ import annotations

import json
import struct
from types import SimpleNamespace

import pytest
from mooncake.store import (MooncakeDistributedStore, ParallelAxis, ReadTarget,
                            ReplicateConfig, TensorParallelism)
from pool import Memory

torch = pytest.importorskip("torch")

from mooncake import _tensors as tensors  # noqa: E402 (it needs torch)
from mooncake._tensors import Layout  # noqa: E402

METADATA = 304
WHOLE = torch.arange(96.0).reshape(8, 12)


def of(*axes: tuple, **keywords: int) -> TensorParallelism:
    return TensorParallelism([ParallelAxis(*axis, **keywords) for axis in axes])


def shard(*axes: tuple) -> ReadTarget:
    return ReadTarget("shard", of(*axes))


def axes_in(value: bytes) -> list[tuple]:
    """Kind, index, rank, count and dimension of each, as they are stored."""
    (count,) = struct.unpack_from("<I", value, 40 + 128)
    return [struct.unpack_from("<Iiiii", value, 176 + i * 32)
            for i in range(count)]


def manifest_of(store, key: str) -> tuple:
    """Type, dimensions, the one that is split, into how many, and the shape."""
    head, dims, shape = (0x574D414E, 1, 96), 2, (-1,) * 6
    fields = struct.unpack("<IHHiiiii4x8q", store.get(key))
    assert (fields[:3], fields[7], fields[8 + dims:]) == (head, 0, shape)
    return fields[3:7] + fields[8:8 + dims]


def laid_down(store, memory: Memory, tensor: torch.Tensor) -> int:
    """A tensor with its metadata in memory; returns how many bytes."""
    assert store.upsert_tensor("laid", tensor) == 0
    got = store.get_tensor_into("laid", memory.addr, memory.size)
    assert got is not None
    return METADATA + tensor.numel() * tensor.element_size()


# ---- storing ----


def test_without_axes_a_tensor_is_stored_whole(store):
    assert store.put_tensor_with_parallelism("k", WHOLE) == 0
    assert torch.equal(store.get_tensor("k"), WHOLE)
    assert store.batch_put_tensor_with_parallelism(
        ["a", "b"], [WHOLE + 1, WHOLE + 2]) == [0, 0]
    got = store.batch_get_tensor_with_parallelism(["a", "none", "b"])
    assert torch.equal(got[0], WHOLE + 1) and torch.equal(got[2], WHOLE + 2)
    assert got[1] is None


def test_a_shard_of_tensor_parallelism_is_the_tensor_itself(store):
    for rank, part in enumerate(WHOLE.chunk(4, 1)):
        assert store.put_tensor_with_parallelism(
            "k", part, of(("tp", rank, 4, 1))) == 0
    value = store.get("k_tp_2")
    assert axes_in(value) == [(1, 0, 2, 4, 1)]
    assert struct.unpack_from("<iq", value, 176 + 20) == (0, 3)
    assert struct.unpack_from("<16q", value, 40) == (
        8, 12, *[-1] * 6, 8, 3, *[-1] * 6)
    assert torch.equal(store.get_tensor_with_tp("k", 1, 4), WHOLE[:, 3:6])
    assert torch.equal(store.get_tensor_with_parallelism(
        "k", shard(("tp", 3, 4, 1))), WHOLE[:, 9:])
    assert manifest_of(store, "k__parallelism_manifest") == (0, 2, 1, 4, 8, 12)


def test_of_several_axes_a_part_of_the_whole_is_stored(store):
    for rank in range(2):
        assert store.put_tensor_with_parallelism(
            "k", WHOLE, of(("tp", rank, 2, 0), ("dp", 1, 2))) == 0
    value = store.get("k__dp_1of2__tp_1of2_sd0")
    assert axes_in(value) == [(1, 0, 1, 2, 0), (0, 1, 1, 2, -1)]
    assert value[METADATA:] == WHOLE[4:].numpy().tobytes()
    assert manifest_of(store, "k__parallelism_manifest") == (0, 2, 0, 2, 8, 12)
    full = ReadTarget("full", of(("dp", 1, 2), ("tp", 0, 2, 0)))
    assert torch.equal(store.get_tensor_with_parallelism("k", full), WHOLE)


def test_axes_that_split_nothing_only_name_a_value(store):
    stage = of(("pp", 1, 4), stage_id=7)
    assert store.put_tensor_with_parallelism("k", WHOLE, stage) == 0
    assert store.is_exist("k__pp_1of4_sid7") == 1
    expert = TensorParallelism([ParallelAxis("EP", 0, 2, expert_id=3)])
    assert store.put_tensor_with_parallelism("k", WHOLE, expert) == 0
    value = store.get("k__ep_0of2_eid3")
    assert struct.unpack_from("<I", value, 16) == (1,)
    assert struct.unpack_from("<2q", value, 40) == (8, 12)
    assert struct.unpack_from("<Iiiiiiq", value, 176) == (2, 0, 0, 2, -1, 3, 0)
    assert store.is_exist("k__parallelism_manifest") == 0
    for wanted in (stage, expert):
        assert torch.equal(store.get_tensor_with_parallelism(
            "k", ReadTarget("shard", wanted)), WHOLE)


def test_writers_store_their_part_of_a_whole(store):
    for rank in range(3):
        assert store.put_tensor_with_parallelism(
            "k", WHOLE, writer_partition=(rank, 3, 1)) == 0
    assert axes_in(store.get("k__writer_1of3_sd1")) == [(1, 0, 1, 3, 1)]
    assert manifest_of(store, "k__writer_manifest") == (0, 2, 1, 3, 8, 12)
    assert torch.equal(
        store.get_tensor_with_parallelism("k", ReadTarget("full")), WHOLE)
    assert torch.equal(store.get_tensor_with_parallelism(
        "k", shard(("tp", 1, 2, 1))), WHOLE[:, 6:])
    assert torch.equal(store.get_tensor_with_parallelism(
        "k", shard(("tp", 2, 3, 1))), WHOLE[:, 8:])
    assert store.put_tensor("k", WHOLE + 1) == 0  # writers come first
    assert torch.equal(
        store.get_tensor_with_parallelism("k", ReadTarget("full")), WHOLE)


@pytest.mark.parametrize("kinds", [
    ("pp", "tp"), ("ep", "tp"), ("pp", "ep", "tp", "dp"), ("pp", "ep")])
def test_axes_are_in_one_order_in_keys(store, kinds):
    axes = {"dp": ParallelAxis("dp", 0, 2), "tp": ParallelAxis("tp", 1, 2, 0),
            "ep": ParallelAxis("ep", 1, 4, expert_id=0),
            "pp": ParallelAxis("PP", 2, 3, stage_id=5)}
    names = {"dp": "__dp_0of2", "tp": "__tp_1of2_sd0", "ep": "__ep_1of4_eid0",
             "pp": "__pp_2of3_sid5"}
    wanted = TensorParallelism([axes[kind] for kind in kinds])
    assert store.put_tensor_with_parallelism("k", WHOLE, wanted) == 0
    key = "k" + "".join(names[kind] for kind in names if kind in kinds)
    assert [one[0] for one in axes_in(store.get(key))] == [
        list(names).index(kind) for kind in kinds]
    part = WHOLE[4:] if "tp" in kinds else WHOLE
    assert torch.equal(store.get_tensor_with_parallelism(
        "k", ReadTarget("Shard", wanted)), part)


def test_upserts_replace_and_keep_to_the_configuration(store):
    axes = of(("tp", 0, 2, 0))
    config = ReplicateConfig()
    assert store.put_tensor_with_parallelism("k", WHOLE[:4], axes, config) == 0
    assert store.put_tensor_with_parallelism("k", WHOLE[4:], axes) == 0
    assert torch.equal(store.get_tensor("k_tp_0"), WHOLE[:4])
    assert store.upsert_tensor_with_parallelism("k", WHOLE[4:], axes) == 0
    assert torch.equal(store.get_tensor("k_tp_0"), WHOLE[4:])
    assert store.batch_upsert_tensor_with_parallelism(
        ["k", "l"], [WHOLE, WHOLE], [None, axes], config) == [0, 0]


def grouped(*groups: str) -> ReplicateConfig:
    config = ReplicateConfig()
    config.group_ids = list(groups)
    return config


def group_of(store, key: str, *groups: str) -> str:
    """An object keeps its group: an upsert that names another one is refused."""
    (group,) = [one for one in groups if store.upsert(key, b"x", grouped(one)) == 0]
    return group


def test_all_that_is_written_of_a_key_has_its_group(store):
    memory, config = Memory(4096), grouped("g", "h")
    size = laid_down(store, memory, WHOLE)
    axes = of(("tp", 0, 2, 0))
    two, both = ["a", "b"], [axes, axes]
    assert store.batch_put_tensor_with_parallelism(
        two, [WHOLE[:4]] * 2, both, config) == [0, 0]
    assert store.batch_upsert_tensor_with_parallelism(
        two, [WHOLE[:4]] * 2, both, config) == [0, 0]
    assert store.batch_put_tensor_with_parallelism(
        ["c", "d"], [WHOLE] * 2, [of(("tp", 2, 2, 0)), axes], config) == [-600, 0]
    assert store.batch_put_tensor_with_parallelism_from(
        ["e", "f"], [memory.addr] * 2, [size] * 2, both, config) == [0, 0]
    assert store.batch_pub_tensor_with_tp(["i", "k"], [WHOLE] * 2, config,
                                          tp_size=4) == [0, 0]
    assert store.pub_tensor_with_tp("l", WHOLE, grouped("h"), tp_size=2) == 0
    for key in ("b_tp_0", "b__parallelism_manifest", "d_tp_0",
                "d__parallelism_manifest", "f_tp_0", "f_tp_1", "k_tp_3", "l_tp_1"):
        assert group_of(store, key, "g", "h") == "h"
    assert group_of(store, "a__parallelism_manifest", "h", "g") == "g"


def test_groups_are_as_many_as_keys(store):
    axes, config = of(("tp", 0, 2, 0)), grouped("g")
    assert store.batch_put_tensor_with_parallelism(
        ["w", "x"], [WHOLE[:4]] * 2, [axes, None], config) == [-600] * 2
    assert store.batch_pub_tensor_with_tp(
        ["w", "x"], [WHOLE] * 2, config, tp_size=2) == [-600] * 2
    assert store.pub_tensor_with_tp("w", WHOLE, grouped("g", "h"), tp_size=2) == -600
    assert store.remove_by_regex("^[wx]", True) == 0


# ---- reading ----


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("other", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_shards_are_made_of_shards_of_another_split(store, dim, other, count):
    assert store.put_tensor_with_tp("k", WHOLE, 0, 4, dim) == 0
    for rank, part in enumerate(WHOLE.chunk(count, other)):
        got = store.get_tensor_with_parallelism(
            "k", shard(("tp", rank, count, other)))
        assert torch.equal(got, part)


@pytest.mark.parametrize("others", [[], [("dp", 0, 2)]], ids=["alone", "dp"])
def test_splits_are_into_equal_shards(store, others):
    six = torch.arange(12.0).reshape(6, 2)
    for rank in range(2):
        part = six if others else six.chunk(2)[rank]
        assert store.put_tensor_with_parallelism(
            "k", part, of(("tp", rank, 2, 0), *others)) == 0
    get = store.get_tensor_with_parallelism
    for mode in ("shard", "full"):
        for count in (4, 5, 12):
            assert get("k", ReadTarget(
                mode, of(("tp", 0, count, 0), *others))) is None
    assert torch.equal(get("k", shard(("tp", 2, 3, 0), *others)), six[4:])
    assert torch.equal(
        get("k", ReadTarget("full", of(("tp", 0, 3, 0), *others))), six)
    assert get("k", ReadTarget("full", of(("tp", 0, 3, 2), *others))) is None
    assert get("k", shard(("tp", 0, 2, 0), ("pp", 0, 2))) is None


# ---- what older versions have stored ----


def stored_before(store, key: str, part: torch.Tensor, whole: torch.Tensor,
                  *axes: ParallelAxis) -> None:
    assert tensors.write(store, [key], [part], None, False,
                         [Layout(whole.shape, axes)]) == [0]


def test_uneven_shards_are_joined(store):
    uneven = torch.arange(33).reshape(11, 3)
    for rank, part in enumerate(uneven.chunk(4)):
        stored_before(store, f"k_tp_{rank}", part, uneven,
                      ParallelAxis("tp", rank, 4, 0))
    assert torch.equal(
        store.get_tensor_with_parallelism("k", ReadTarget("full")), uneven)
    assert torch.equal(store.get_tensor_with_parallelism(
        "k", shard(("tp", 10, 11, 0))), uneven[10:])


@pytest.mark.parametrize("into", [False, True])
def test_older_keys_are_found(store, into):
    memory, stage = Memory(4096), ParallelAxis("pp", 1, 2, stage_id=7)
    expert = ParallelAxis("ep", 0, 2, expert_id=3)
    for rank, part in enumerate(WHOLE.chunk(2)):
        stored_before(store, f"k__pp_1of2_sid7__tp_{rank}of2_sd0", part, WHOLE,
                      stage, ParallelAxis("tp", rank, 2, 0))
    manifest = struct.pack("<IHHiiiii4x8q", 0x574D414E, 1, 28, 0, 2, 0, 2, 0,
                           8, 12, *[0] * 6)
    assert store.put("k__parallelism_manifest", manifest) == 0
    stored_before(store, "k__pp_1of2_sid7__ep_0of2_eid3", WHOLE, WHOLE, stage,
                  expert)

    def get(mode: str, *axes: ParallelAxis) -> torch.Tensor | None:
        target = ReadTarget(mode, TensorParallelism(list(axes)))
        if not into:
            return store.get_tensor_with_parallelism("k", target)
        return store.get_tensor_with_parallelism_into(
            "k", memory.addr, memory.size, target)

    assert torch.equal(get("shard", ParallelAxis("tp", 1, 2, 0), stage),
                       WHOLE[4:])
    assert torch.equal(get("shard", ParallelAxis("tp", 3, 4, 0), stage),
                       WHOLE[6:])
    assert torch.equal(get("full", stage, ParallelAxis("tp", 0, 2, 0)), WHOLE)
    assert torch.equal(get("shard", expert, stage), WHOLE)
    assert get("shard", expert, ParallelAxis("pp", 0, 2, stage_id=7)) is None


def test_shards_are_cut_out_of_a_whole(store):
    assert store.put_tensor("k", WHOLE) == 0
    assert torch.equal(store.get_tensor_with_parallelism(
        "k", shard(("tp", 2, 3, 1))), WHOLE[:, 8:])
    assert torch.equal(
        store.get_tensor_with_parallelism("k", ReadTarget("full")), WHOLE)


def test_what_is_not_whole_is_none(store):
    assert store.put_tensor_with_tp("k", WHOLE, 0, 4, 0) == 0
    assert store.remove("k_tp_2", force=True) == 0
    assert store.get_tensor_with_parallelism("k", ReadTarget("full")) is None
    assert torch.equal(store.get_tensor_with_parallelism(
        "k", shard(("tp", 0, 2, 0))), WHOLE[:4])
    assert store.get_tensor_with_parallelism("k", shard(("tp", 1, 2, 0))) is None
    assert store.get_tensor_with_parallelism(
        "k", ReadTarget("as_stored", of(("tp", 0, 8, 0)))) is None
    assert store.get_tensor_with_parallelism("none", ReadTarget("full")) is None


# ---- memory of the caller's ----


def test_shards_lie_in_the_callers_memory(store):
    memory = Memory(8192)
    assert store.put_tensor_with_tp("k", WHOLE, 0, 4, 1) == 0
    targets = [shard(("tp", 1, 4, 1)), shard(("tp", 1, 2, 1)),
               ReadTarget("full"), None]
    got = store.batch_get_tensor_with_parallelism_into(
        ["k"] * 4, [memory.addr + i * 2048 for i in range(4)], [2048] * 4,
        targets)
    assert got[3] is None
    for i, wanted in enumerate((WHOLE[:, 3:6], WHOLE[:, 6:], WHOLE)):
        assert torch.equal(got[i], wanted)
        assert got[i].data_ptr() == memory.addr + i * 2048 + METADATA
    assert axes_in(memory.read(2048, METADATA)) == [(1, 0, 1, 2, 1)]
    assert store.get_tensor_with_parallelism_into(
        "k", memory.addr, METADATA + 8, ReadTarget("full")) is None
    assert torch.equal(store.get_tensor_with_tp_into(
        "k", memory.addr, 2048, 2, 4, 1), WHOLE[:, 6:9])
    assert store.batch_get_tensor_with_tp_into(
        ["k", "none"], [memory.addr] * 2, [2048] * 2, 0, 4)[1] is None


def test_shards_are_stored_from_the_callers_memory(store):
    memory = Memory(4096)
    size = laid_down(store, memory, WHOLE)
    place = (memory.addr, size)
    assert store.put_tensor_with_parallelism_from("a", *place) == 0
    assert torch.equal(store.get_tensor("a"), WHOLE)
    both = of(("dp", 0, 2), ("tp", 1, 2, 0))
    assert store.put_tensor_with_parallelism_from("b", *place, both) == 0
    for rank, part in enumerate(WHOLE.chunk(2)):  # whatever the rank
        assert torch.equal(
            store.get_tensor(f"b__dp_0of2__tp_{rank}of2_sd0"), part)
    assert torch.equal(store.get_tensor_with_parallelism(
        "b", ReadTarget("full", both)), WHOLE)
    assert store.put_tensor_with_parallelism_from(
        "t", *place, of(("tp", 1, 4, 1))) == 0
    assert torch.equal(store.get_tensor("t_tp_0"), WHOLE[:, :3])
    assert store.batch_is_exist(["t_tp_3", "t", "t__parallelism_manifest",
                                 "b__parallelism_manifest"]) == [1, 0, 0, 0]
    assert store.upsert_tensor_with_parallelism_from(
        "c", *place, writer_partition={"rank": 1, "size": 2}) == 0
    assert torch.equal(store.get_tensor("c__writer_1of2_sd0"), WHOLE[4:])
    places = ([memory.addr] * 2, [size] * 2)
    assert store.batch_put_tensor_with_parallelism_from(
        ["d", "e"], *places, [None, both]) == [0, 0]
    assert store.batch_upsert_tensor_with_parallelism_from(
        ["d", "e"], *places, None, ReplicateConfig()) == [0, 0]
    assert store.batch_put_tensor_with_tp_from(["f", "g"], *places, 0, 2, 1) == [
        0, 0]
    assert torch.equal(store.get_tensor_with_tp("g", 1, 2), WHOLE[:, 6:])


def test_a_shard_in_memory_is_stored_alone(store):
    memory = Memory(4096)
    assert store.put_tensor_with_tp("k", WHOLE, 0, 2, 1) == 0
    assert store.get_tensor_with_tp_into("k", memory.addr, 4096, 1, 2) is not None
    size = store.get_size("k_tp_1")
    assert store.put_tensor_with_tp_from("l", memory.addr, size, 1, 2, 1) == 0
    assert store.get("l_tp_1") == store.get("k_tp_1")
    assert store.is_exist("l_tp_0") == 0
    assert store.put_tensor_with_tp_from("l", memory.addr, size, 0, 2, 1) == -600


# ---- mistakes, and what cannot be believed ----


def test_arguments_that_cannot_be_are_codes(store):
    put = store.put_tensor_with_parallelism
    memory = Memory(1024)
    assert put("k", WHOLE, of(("tp", 2, 2, 0))) == -600
    assert put("k", WHOLE, of(("xp", 0, 2, 0))) == -600
    assert put("k", WHOLE, of(("tp", 0, 2, 5))) == -600
    assert put("k", WHOLE, of(("tp", 0, 2), ("tp", 1, 2))) == -600
    assert put("k", WHOLE, of(("tp", 0, 5, 0), ("dp", 0, 2))) == -600
    assert put("k", WHOLE, writer_partition=(0, 7, 0)) == -600
    assert put("k", WHOLE, of(("tp", 0, 2, 0)), None, (0, 2, 0)) == -600
    assert store.batch_put_tensor_with_parallelism(
        ["a", "b"], [WHOLE] * 2, [of(("tp", 9, 2)), None]) == [-600, 0]
    assert store.batch_put_tensor_with_parallelism(
        ["a", "b"], [WHOLE] * 2, [None]) == [-600] * 2
    put_from = store.put_tensor_with_parallelism_from
    for place in ((memory.addr, 1024), (8, 1024), (memory.addr, 0),
                  (1 << 70, 1024), (memory.addr, -1)):
        assert put_from("k", *place) == -600
    assert store.put_tensor_with_tp_from("k", 8, 1024) == -600
    size = laid_down(store, memory, WHOLE[:4])
    for wrong in (size - 1, size + 1):  # it is a tensor from end to end
        assert put_from("k", memory.addr, wrong) == -600
        assert store.put_tensor_with_tp_from("k", memory.addr, wrong, 0, 2) == -600
    assert store.put_tensor("k", WHOLE) == 0
    no_axes = TensorParallelism()
    for target in (ReadTarget("shard"), "full", 5,
                   SimpleNamespace(mode="other", parallelism=None),
                   SimpleNamespace(mode="full"),
                   ReadTarget("as_stored", of(("tp", 0, 1, 0))),
                   ReadTarget("full", of(("dp", 0, 1))),
                   *(ReadTarget(mode, no_axes)
                     for mode in ("as_stored", "shard", "full"))):
        wanted = WHOLE if target == SimpleNamespace(mode="full") else None
        got = store.get_tensor_with_parallelism("k", target)
        assert got is wanted or torch.equal(got, wanted)
    without = MooncakeDistributedStore()
    assert without.put_tensor_with_parallelism("k", WHOLE) == -600
    assert without.get_tensor_with_parallelism("k", ReadTarget("full")) is None


BREACHES = [
    of(("tp", 0, 2)), of(("dp", 0, 2, 0)), of(("ep", 0, 2)),
    of(("ep", 0, 2, 0), expert_id=1), of(("pp", 0, 2)),
    of(("pp", 0, 2, 0), stage_id=1), of(("tp", 0, 0, 0)), of(("tp", -1, 2, 0)),
    of(("tp", 2, 2, 0)), of(("xp", 0, 2, 0)), of(("", 0, 2, 0)),
    of(("tp", 0, 2, 0), ("TP", 1, 2, 1)), of(("tp", 0, 2, -1)),
    of(("tp", 0, 2, 2)), of(("tp", "0", 2, 0)), TensorParallelism(),
    SimpleNamespace(axes=[SimpleNamespace(kind="tp")]),
    SimpleNamespace(axes=5), 5, b"tp"]


@pytest.mark.parametrize("wrong", BREACHES, ids=str)
def test_parallelism_that_cannot_be_is_refused(store, wrong):
    memory = Memory(4096)
    size = laid_down(store, memory, WHOLE)
    assert store.put_tensor("k", WHOLE) == 0
    for name in ("put_tensor_with_parallelism", "upsert_tensor_with_parallelism"):
        assert getattr(store, name)("w", WHOLE, wrong) == -600
        assert getattr(store, f"batch_{name}")(
            ["w", "x"], [WHOLE] * 2, [wrong, None]) == [-600, 0]
        assert getattr(store, f"{name}_from")("w", memory.addr, size,
                                              wrong) == -600
    for mode in ("shard", "full"):
        target = SimpleNamespace(mode=mode, parallelism=wrong)
        assert store.get_tensor_with_parallelism("k", target) is None
        assert store.get_tensor_with_parallelism_into(
            "k", memory.addr, 4096, target) is None
    assert store.remove_by_regex("^w", True) == 0


@pytest.mark.parametrize("wrong", [
    (0, 0, 0), (2, 2, 0), (-1, 2, 0), (0, 2, -1), (0, 2, 2), (0, 5, 0), 3,
    SimpleNamespace(rank=0, size=2), ("0", 2, 0)], ids=str)
def test_writers_that_cannot_be_are_refused(store, wrong):
    assert store.put_tensor_with_parallelism(
        "w", WHOLE, writer_partition=wrong) == -600
    assert store.batch_put_tensor_with_parallelism(
        ["w", "x"], [WHOLE] * 2, writer_partitions=[wrong, (0, 2, 0)]) == [
            -600, 0]


def test_lists_of_parallelism_go_with_their_keys(store):
    memory = Memory(4096)
    size = laid_down(store, memory, WHOLE)
    axes, writer = of(("tp", 0, 2, 0)), (0, 2, 0)
    for name, place in (
            ("batch_put_tensor_with_parallelism", [[WHOLE] * 2]),
            ("batch_upsert_tensor_with_parallelism", [[WHOLE] * 2]),
            ("batch_put_tensor_with_parallelism_from",
             [[memory.addr] * 2, [size] * 2]),
            ("batch_upsert_tensor_with_parallelism_from",
             [[memory.addr] * 2, [size] * 2])):
        for wrong in (dict(parallelisms=[axes] * 2, writer_partitions=[writer] * 2),
                      dict(parallelisms=[axes]), dict(parallelisms=axes),
                      dict(writer_partitions=[writer] * 3),
                      dict(writer_partitions=writer[0])):
            assert getattr(store, name)(["w", "x"], *place, **wrong) == [-600] * 2
    assert store.remove_by_regex("^[wx]", True) == 0


def test_arguments_of_a_wrong_type_are_named(store):
    assert store.put_tensor_with_parallelism("k", b"bytes") == -600
    with pytest.raises(TypeError, match="buffer_ptr"):
        store.put_tensor_with_parallelism_from("k", "0", 5)


def test_modes_are_texts_of_any_case():
    target = ReadTarget()
    assert (target.mode, target.parallelism) == ("as_stored", None)
    for mode in ("FULL", "Shard", "as_STORED"):
        target.mode = mode
        assert target.mode == mode.lower()
    for wrong in ("", "whole"):
        with pytest.raises(RuntimeError, match="Unsupported ReadTarget mode"):
            target.mode = wrong
        with pytest.raises(RuntimeError, match="Unsupported ReadTarget mode"):
            ReadTarget(wrong)
    with pytest.raises(TypeError, match="mode"):
        target.mode = None
    assert target.mode == "as_stored"


def test_shards_that_lie_are_none(store):
    """Each byte of what a reader believes, in turn."""
    assert store.put_tensor_with_tp("k", WHOLE, 0, 4, 0) == 0
    assert store.put_tensor_with_parallelism("w", WHOLE,
                                             writer_partition=(0, 1, 0)) == 0
    for key, length in (("k_tp_0", METADATA), ("w__writer_manifest", 96)):
        whole = store.get(key)
        for at in range(0, length, 2):
            wrong = bytearray(whole)
            wrong[at:at + 2] = b"\xff\xff"
            assert store.upsert(key, wrong) == 0
            for target in (ReadTarget("full"), shard(("tp", 1, 2, 0))):
                got = store.get_tensor_with_parallelism(key[0], target)
                assert got is None or got.shape in ((8, 12), (4, 12))
        assert store.upsert(key, whole) == 0


# ---- files ----


def test_files_are_those_of_safetensors(store, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    for i, tensor in enumerate((WHOLE, torch.tensor(3, dtype=torch.int16),
                                torch.empty(0, 2), torch.ones(3).bfloat16(),
                                torch.tensor([True, False]))):
        path = tmp_path / f"{i}.safetensors"
        store.put_tensor(f"k{i}", tensor)
        assert store.save_tensor_to_safetensor(f"k{i}", path) == 0
        (got,) = safetensors.load_file(path).values()
        assert torch.equal(got, tensor) and got.dtype == tensor.dtype
        safetensors.save_file({"any": tensor}, path)
        loaded = store.load_tensor_from_safetensor(f"l{i}", str(path))
        assert torch.equal(loaded, tensor)
        assert torch.equal(store.get_tensor(f"l{i}"), tensor)
    safetensors.save_file({"a": WHOLE, "b": WHOLE + 1}, path)
    assert torch.equal(store.load_tensor_from_safetensor("b", path), WHOLE + 1)
    assert store.load_tensor_from_safetensor("c", path) is None


def test_files_that_are_none_are_refused(store, tmp_path):
    path = tmp_path / "file"
    assert store.save_tensor_to_safetensor("none", path) == -704
    store.put_tensor("k", WHOLE)
    assert store.save_tensor_to_safetensor("k", tmp_path / "no" / "file") == -600
    assert store.load_tensor_from_safetensor("k", path) is None
    assert store.load_tensor_from_safetensor() is None
    good = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
    for entry in ([], {}, 5, good | {"shape": [1 << 62, 4]},
                  good | {"shape": "4"}, good | {"data_offsets": [-4, 0]},
                  good | {"data_offsets": [0, 5]}, good | {"dtype": ["U8"]},
                  good | {"shape": [4.0]}, good | {"shape": [True]}):
        header = json.dumps({"t": entry}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + b"1234")
        assert store.load_tensor_from_safetensor("t", path) is None
    for data in (b"", b"\xff" * 8, b"\xff" * 64, bytes(8), (2).to_bytes(8, "little")
                 + b"[]", (4096).to_bytes(8, "little") + b"[" * 4096):
        path.write_bytes(data)
        assert store.load_tensor_from_safetensor("t", path) is None


def test_a_tensor_is_not_split_into_any_number_of_shards(store):
    long = torch.zeros(65537, dtype=torch.int8)
    for tp_size in (65537, 1 << 31, 1 << 70):
        assert store.put_tensor_with_tp("many", long, 0, tp_size, 0) == -600
    assert store.is_exist("many_tp_0") == 0
