# SPDX-License-Identifier: Apache-2.0
"""Names, texts and constructors that programs for Mooncake lean on."""
from __future__ import annotations

import ast
import ctypes
from pathlib import Path

import pytest

import mooncake.engine
import mooncake.store
from mooncake.engine import TransferNotify, TransferOpcode
from mooncake.store import (
    MooncakeDistributedStore, MooncakeHostMemAllocator, ObjectDataType,
    ParallelAxis, ReadTarget, ReplicaStatus, ReplicateConfig, SoftPinAction,
    TaskStatus, TaskType, TensorParallelism)

ENUMS = [ObjectDataType, ReplicaStatus, SoftPinAction, TaskStatus, TaskType,
         TransferOpcode]


@pytest.mark.parametrize("enum", ENUMS)
def test_members_print_their_names(enum):
    for name, member in enum.__members__.items():
        assert str(member) == f"{member}" == f"{enum.__name__}.{member.name}"
        assert f"{member:>40}" == str(member).rjust(40)
        assert enum(int(member)) is member
        assert member == int(member)
        assert name.lower() == member.name.lower()


def test_modules_have_the_members_too():
    for enum in (ObjectDataType, TaskType, TaskStatus):
        for name, member in enum.__members__.items():
            assert getattr(mooncake.store, name) is member
    assert mooncake.store.COMPLETE is ReplicaStatus.COMPLETE
    assert mooncake.store.FAILED is TaskStatus.FAILED
    assert not hasattr(mooncake.store, "PRESERVE")
    assert mooncake.engine.Write is TransferOpcode.Write


@pytest.mark.parametrize("module, lazy", [
    (mooncake.store, {"BufferPool", "RegisteredBufferPool", "BufferLease",
                      "ParallelAxis", "TensorParallelism", "ReadTarget"}),
    (mooncake.engine, {"RpcInterface", "create_rpc_client", "SharedSegment"})])
def test_names_that_are_python_are_listed_and_imported_with_all(module, lazy):
    assert lazy < set(dir(module)) and len(dir(module)) == len(set(dir(module)))
    assert "__name__" in dir(module)
    got: dict = {}
    exec(f"from {module.__name__} import *", got)
    public = {name for name in dir(module) if not name.startswith("_")}
    assert lazy < public == got.keys() - {"__builtins__"} == set(module.__all__)
    assert all(got[name] is getattr(module, name) for name in public)


def test_flags_of_a_config_are_whatever_is_true_or_not():
    numpy = pytest.importorskip("numpy")

    class Sure:
        def __bool__(self) -> bool:
            return True

    class Unsure:
        def __bool__(self) -> bool:
            raise OSError("unsure")

    config = ReplicateConfig()
    for name in ("with_hard_pin", "with_soft_pin", "prefer_alloc_in_same_node"):
        for value in (1, 0, True, False, None, 0.5, numpy.True_, numpy.False_,
                      Sure()):
            setattr(config, name, value)
            assert getattr(config, name) is bool(value)
        setattr(config, name, True)
        for wrong in ("yes", "", b"1", [1], (), {}, object()):
            with pytest.raises(TypeError, match=name):
                setattr(config, name, wrong)
        with pytest.raises(OSError, match="unsure"):
            setattr(config, name, Unsure())
        assert getattr(config, name) is True


def test_a_config_prints_names():
    config = ReplicateConfig()
    config.data_type = ObjectDataType.TENSOR
    assert "TENSOR" in str(config) and "PRESERVE" in str(config)


def test_axes_are_filled_after_they_are_made():
    axis = ParallelAxis()
    assert (axis.kind, axis.rank, axis.size, axis.split_dim) == ("", 0, 1, None)
    axis.kind, axis.rank, axis.size = "tp", 1, 2
    parallelism = TensorParallelism()
    parallelism.axes = [axis]
    target = ReadTarget()
    target.mode, target.parallelism = "shard", parallelism
    assert target.parallelism.axes[0].kind == "tp"


def test_a_store_takes_no_arguments():
    for wrong in ((1,), ("127.0.0.1:50051",)):
        with pytest.raises(TypeError, match="setup"):
            MooncakeDistributedStore(*wrong)
    with pytest.raises(TypeError):
        MooncakeDistributedStore(config={})

    class Sub(MooncakeDistributedStore):
        def __init__(self, name: str) -> None:
            self.name = name

    assert Sub("a").name == "a"


def test_notifications_are_texts_or_bytes():
    empty = TransferNotify()
    assert (empty.name, empty.msg) == ("", "")
    empty.name, empty.msg = b"n", b"\xff"
    assert (empty.name, empty.msg) == ("n", "\udcff")
    with pytest.raises(TypeError, match="msg"):
        TransferNotify("n")
    with pytest.raises(TypeError, match="name"):
        TransferNotify(1, "m")
    with pytest.raises(ValueError, match="msg"):
        TransferNotify("n", "\ud800")
    with pytest.raises(AttributeError, match="name"):
        del empty.name


def test_memory_comes_by_callbacks():
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(
        mooncake.store.get_alloc_func_addr())
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
        mooncake.store.get_free_func_addr())
    size = 3 << 20
    addr = alloc(size)
    assert addr and addr % 4096 == 0
    ctypes.memset(addr, 7, size)
    assert ctypes.string_at(addr + size - 3, 3) == b"\7\7\7"
    free(addr)
    assert not mooncake.store._is_usable(addr, size, True)
    free(None)
    for impossible in (0, (1 << 64) - 1, 1 << 62):
        assert alloc(impossible) is None


def test_memory_that_is_given_back_counts():
    memory = MooncakeHostMemAllocator()
    addr = memory.alloc(4096)
    assert addr and memory.free(addr) == 0
    assert memory.free(addr) == memory.free(0) == -1


def test_disks_are_not_there(master):
    store = MooncakeDistributedStore()
    assert store.get_offload_rpc_read_count() == 0
    assert store.unmount_local_disk_segment() == -1
    with pytest.raises(TypeError, match="grace_period_seconds"):
        store.unmount_local_disk_segment(grace_period_seconds="1")
    store = master.store()
    assert store.unmount_local_disk_segment(grace_period_seconds=1) == -101
    assert store.get_offload_rpc_read_count() == 0
    store.close()


def test_no_memory_is_shared_by_gpus():
    from mooncake.engine import SharedSegment

    assert SharedSegment.supported(mmap=True, host_register=False) is False
    with pytest.raises(RuntimeError):
        SharedSegment.create("name", 4096, 1, 0)


def test_sizes_of_tensors_need_no_torch():
    assert mooncake.store._tensor_metadata_size() == 304


def test_what_is_stored_is_never_run():
    """Nobody imports what makes objects of bytes by running them."""
    for path in sorted(Path(mooncake.store.__file__).parent.glob("*.py")):
        if not path.exists():
            continue  # what an older build has left
        names = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module)
            elif isinstance(node, ast.Attribute):
                names.add(ast.unparse(node))
        assert not names & {"pickle", "_pickle", "marshal", "shelve", "dill",
                            "cloudpickle", "torch.load", "np.load",
                            "numpy.load", "yaml.load"}, path.name
