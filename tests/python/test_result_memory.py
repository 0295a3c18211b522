# SPDX-License-Identifier: Apache-2.0
"""Memory of results, which later results use again."""
from __future__ import annotations

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from mooncake import structured_object_store as sos
from mooncake._structured import memory
from mooncake._structured.memory import allocate

MIB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(memory, "_kept", [])


def address_of(size: int) -> int:
    """Where a result of that size lies, which nobody holds any more."""
    return allocate(size, "it").ctypes.data


def n_kept() -> int:
    return len(memory._kept)


def test_what_nobody_holds_is_used_again():
    first = address_of(16 * MIB)
    assert n_kept() == 1
    second = allocate(16 * MIB, "it")
    assert second.ctypes.data == first and n_kept() == 0
    assert allocate(16 * MIB, "it").ctypes.data != first  # it is held


@pytest.mark.parametrize("share", [
    lambda array: array[5:7], lambda array: array.view(np.int64).reshape(2, -1).T,
    memoryview, lambda array: pytest.importorskip("torch").from_numpy(array)[3:]])
def test_whatever_shares_memory_holds_it(share):
    array = allocate(8 * MIB, "it")
    array[:] = 1
    shared = share(array)
    del array
    assert n_kept() == 0
    allocate(8 * MIB, "it")[:] = 2
    assert set(np.asarray(shared).tobytes()) == {1}
    del shared
    gc.collect()
    assert n_kept() == 2


def test_memory_begins_at_a_huge_page_and_is_all_there():
    for size in (4 * MIB, 4 * MIB + 1, 5 * MIB, 16 * MIB + 304, 33 * MIB - 1):
        for _ in range(2):  # new, and used again
            array = allocate(size, "it")
            assert array.nbytes == size and array.flags.writeable
            array[:] = 7
            assert array[-1] == 7
    assert address_of(16 * MIB) % (2 * MIB) == 0


def test_a_block_serves_results_of_about_its_size():
    large = address_of(32 * MIB)
    assert address_of(8 * MIB) != large
    assert n_kept() == 2
    nearly = address_of(31 * MIB)
    assert nearly == large and n_kept() == 2


def test_the_smallest_block_that_fits_is_used():
    both = [allocate(size, "it") for size in (17 * MIB, 16 * MIB)]
    addresses = [one.ctypes.data for one in both]
    del both
    assert address_of(16 * MIB) == addresses[1]
    assert address_of(17 * MIB) == addresses[0]


def test_no_more_is_kept_than_the_limit(monkeypatch):
    monkeypatch.setattr(memory, "KEPT_MAX", 40 * MIB)
    held = [allocate(16 * MIB, "it") for _ in range(4)]
    addresses = {one.ctypes.data for one in held}
    del held
    assert n_kept() == 2
    with open("/proc/self/maps") as maps:
        mapped = [range(*(int(end, 16) for end in line.split()[0].split("-")))
                  for line in maps]
    assert sum(any(address in one for one in mapped) for address in addresses) == 2


def test_small_results_are_not_kept():
    for size in (0, 1, 4 * MIB - 1):
        assert allocate(size, "it").nbytes == size
    assert n_kept() == 0


def test_memory_that_there_is_not_is_refused():
    for size in (1 << 50, 1 << 62, 1 << 63, 1 << 70):
        with pytest.raises(ValueError, match=f"a key: .* no memory for {size}"):
            allocate(size, "a key")


def lazily_free_kib(address: int) -> int:
    """Of the mapping that has the address."""
    inside = False
    with open("/proc/self/smaps") as smaps:
        for line in smaps:
            first = line.split()[0]
            if "-" in first:
                begin, end = (int(one, 16) for one in first.split("-"))
                inside = begin <= address < end
            elif inside and first == "LazyFree:":
                return int(line.split()[1])
    return 0


def test_the_kernel_may_take_what_is_kept():
    array = allocate(16 * MIB, "it")
    array[:] = 1
    begin = array.ctypes.data
    assert lazily_free_kib(begin) == 0
    del array
    assert lazily_free_kib(begin) >= 15 * 1024  # small pages are counted late


def test_the_newest_are_kept(monkeypatch):
    monkeypatch.setattr(memory, "KEPT_MAX", 40 * MIB)
    held = [allocate(8 * MIB, "it") for _ in range(4)]
    del held
    large = address_of(32 * MIB)
    assert n_kept() == 1
    assert address_of(32 * MIB) == large
    address_of(64 * MIB)  # alone it is too much
    assert n_kept() == 1


def test_what_is_kept_makes_room_for_what_is_asked():
    """A process of its own has a limit of addresses."""
    script = """if True:
        import resource
        from mooncake._structured.memory import allocate
        held = [allocate(100 << 20, "it") for _ in range(6)]
        del held
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + (300 << 20),) * 2)
        assert allocate(600 << 20, "it").nbytes == 600 << 20
        """
    subprocess.run([sys.executable, "-c", script], check=True)


class Contended(list):
    """The first that is wanted of it has just been taken by another thread."""

    taken = None

    def remove(self, block):
        if self.taken is None:
            self.taken = block
            super().remove(block)
            raise ValueError("it is not there")
        super().remove(block)


def test_a_block_that_another_thread_has_taken_is_its(monkeypatch):
    held = [allocate(8 * MIB, "it") for _ in range(2)]
    addresses = {one.ctypes.data for one in held}
    del held
    monkeypatch.setattr(memory, "_kept", Contended(memory._kept))
    mine = allocate(8 * MIB, "it")
    taken = np.frombuffer(memory._kept.taken, np.uint8)
    assert mine.ctypes.data in addresses
    assert not taken.ctypes.data <= mine.ctypes.data < taken.ctypes.data + taken.nbytes


def test_a_block_that_the_kernel_must_keep_is_let_go(monkeypatch):
    """As one that a caller has locked."""
    monkeypatch.setattr(memory, "_MADV_FREE", -1)
    address_of(16 * MIB)
    assert n_kept() == 0


def test_threads_never_share_a_block():
    wrong = []

    def work(mine: int) -> None:
        for i in range(60):
            array = allocate((4 + i % 3) * MIB, "it")
            array[::4096] = mine
            if i % 2:
                cycle = [array]
                cycle.append(cycle)  # it is the garbage collector that ends it
            if (array[::4096] != mine).any():
                wrong.append(mine)
            if not i % 7:
                gc.collect()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(1, 5)))
    gc.collect()
    assert not wrong
    assert len({id(block) for block in memory._kept}) == n_kept() >= 1


def test_a_child_process_has_memory_of_its_own():
    first = address_of(8 * MIB)
    child = os.fork()
    if not child:
        array = allocate(8 * MIB, "it")
        array[:] = 9
        os._exit(0 if array.ctypes.data == first else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    array = allocate(8 * MIB, "it")
    assert array.ctypes.data == first and not (array == 9).any()


def test_results_of_a_pool_use_it_again(joined):
    transfer = sos.MooncakeBundleTransfer(joined)
    for value in range(3):
        array = np.full(6 * MIB, value, np.uint8)
        ref = transfer.put({"x": array})
        assert (transfer.get(ref)["batch"]["x"] == array).all()
        transfer.cleanup_dataproto(ref)
        assert n_kept() == 1
