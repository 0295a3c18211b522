# SPDX-License-Identifier: Apache-2.0
"""A client of a pool: one that lends memory, or one that does what it is told.

store.py PORT LENT LOCAL WORKING_SET
"""
from __future__ import annotations

import sys
import threading
import time

import talk
from mooncake.store import MooncakeDistributedStore

PASSES = 64  # at most, of filling and emptying the working set
TIMED = 100000  # puts of do_times(), at most
THERE = 2000  # keys that it gets, and asks for


class Client:
    def __init__(self, port: int, lent: int, local: int, length: int) -> None:
        self.store = MooncakeDistributedStore()
        rc = self.store.setup("127.0.0.1", "P2PHANDSHAKE", lent, local, "tcp",
                              "", f"127.0.0.1:{port}")
        if rc:
            raise RuntimeError(f"setup() = {rc}")
        self.memory = talk.Memory(length) if length else None
        if self.memory and self.store.register_buffer(self.memory.address,
                                                      length):
            raise RuntimeError("register_buffer() failed")
        self.n_named = 0  # objects of do_crowd()

    def do_cpu(self) -> talk.Order:
        return {"cpu_s": talk.cpu_s()}

    def do_idle(self, seconds: float) -> talk.Order:
        before = talk.cpu_s()  # without what the order itself takes
        time.sleep(seconds)
        return {"percent_of_core": 100 * (talk.cpu_s() - before) / seconds}

    def batches(self, size: int, batch: int, total: int) -> list[tuple]:
        """Keys, addresses and sizes of the calls that write @total."""
        slots = self.memory.length // size
        calls = []
        for i in range(total // (size * batch)):
            n = range(i * batch, (i + 1) * batch)
            calls.append(([f"{size}/{k}" for k in n],
                          [self.memory.address + k % slots * size for k in n],
                          [size] * batch))
        return calls

    def put(self, call: tuple) -> None:
        keys, addresses, sizes = call
        if len(keys) == 1:
            rcs = [self.store.put_from(keys[0], addresses[0], sizes[0])]
        else:
            rcs = self.store.batch_put_from(keys, addresses, sizes)
        if any(rcs):
            raise RuntimeError(f"put: {[rc for rc in rcs if rc][0]}")

    def get(self, call: tuple) -> None:
        keys, addresses, sizes = call
        if len(keys) == 1:
            got = [self.store.get_into(keys[0], addresses[0], sizes[0])]
        else:
            got = self.store.batch_get_into(keys, addresses, sizes)
        if got != sizes:
            raise RuntimeError(f"get: {got[:3]}")

    def clear(self) -> None:
        if self.store.remove_all(True) < 0:
            raise RuntimeError("remove_all() failed")

    def do_values(self, size: int, batch: int, total: int,
                  seconds: float) -> talk.Order:
        """Put @total into an empty pool, again and again; then get it."""
        calls = self.batches(size, batch, total)
        put_s, puts = 0.0, 0
        for n in range(PASSES):
            if n:
                self.clear()
            start = time.perf_counter()
            for call in calls:
                self.put(call)
                puts += batch
                if put_s + time.perf_counter() - start > 4 * seconds:
                    break
            put_s += time.perf_counter() - start
            if put_s >= seconds:
                break
        there = calls[:puts // batch] if n == 0 else calls

        def get(i: int) -> int:
            self.get(there[i % len(there)])
            return batch

        gets, get_s = talk.repeat(get, seconds)
        self.clear()
        return {"put_keys_per_s": puts / put_s, "get_keys_per_s": gets / get_s,
                "put_gb_per_s": puts * size / put_s / 1e9,
                "get_gb_per_s": gets * size / get_s / 1e9}

    def do_times(self, op: str, size: int, seconds: float) -> talk.Order:
        """How long one call takes, of keys that come one after the other."""
        calls = self.batches(size, 1, TIMED * size)
        if op != "put":
            for call in calls[:THERE]:
                self.put(call)
        n = 0

        def once() -> None:
            nonlocal n
            call = calls[n % (len(calls) if op == "put" else THERE)]
            n += 1
            if op == "put":
                self.put(call)
            elif op == "get":
                self.get(call)
            elif self.store.is_exist(call[0][0]) != 1:
                raise RuntimeError("is_exist() is not 1")

        if op == "put":
            times = talk.times_us(once, seconds, len(calls))
        else:
            times = talk.times_us(once, seconds)
        self.clear()
        return times

    def do_exist(self, batch: int, threads: int, seconds: float) -> talk.Order:
        calls = self.batches(4096, batch, 4096 * batch * 32)
        for call in calls:
            self.put(call)

        def ask(i: int) -> int:
            found = self.store.batch_is_exist(calls[i % len(calls)][0])
            if found != [1] * batch:
                raise RuntimeError(f"exist: {found[:3]}")
            return batch

        asked, elapsed = talk.repeat(ask, seconds, threads)
        self.clear()
        return {"keys_per_s": asked / elapsed}

    def do_fill(self, size: int, total: int) -> talk.Order:
        """As full as it gets; who cannot evict for it says so here already."""
        for k in range(total // size):
            self.store.put_from(f"fill/{k}", self.memory.address, size)
        return {}

    def do_crowd(self, size: int, threads: int, each: int) -> talk.Order:
        """All threads put new objects at the same time."""
        first, failed = self.n_named, [0] * threads
        self.n_named += threads * each
        slots = self.memory.length // size

        def put(me: int) -> None:
            for k in range(first + me * each, first + (me + 1) * each):
                at = self.memory.address + k % slots * size
                failed[me] += self.store.put_from(f"new/{k}", at, size) != 0

        crowd = [threading.Thread(target=put, args=(me,))
                 for me in range(threads)]
        start = time.perf_counter()
        for one in crowd:
            one.start()
        for one in crowd:
            one.join()
        elapsed = time.perf_counter() - start
        good = threads * each - sum(failed)
        return {"ok_percent": 100 * good / (threads * each),
                "gb_per_s": good * size / elapsed / 1e9}


talk.obey(Client(*(int(word) for word in sys.argv[1:5])))
