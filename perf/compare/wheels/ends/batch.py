# SPDX-License-Identifier: Apache-2.0
"""A client that stores batches of rows, by mooncake.structured_object_store.

batch.py PORT LENT LOCAL FIELDS: with LENT it has the pool in its own process;
FIELDS are the bytes of the batch of tensors.
"""
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import talk
import numpy as np
import torch
from mooncake.store import MooncakeDistributedStore
from mooncake.structured_object_store import MooncakeBundleTransfer

N_FIELDS = 64
ROWS = 1024  # of a batch of tensors
MANY_ROWS = 10_000
LENGTH_MIN, LENGTH_MAX = 16, 512  # of a ragged row
LEAST = 3  # calls, however long they take

Batch = dict[str, dict[str, Any]]


def fields(total: int) -> Batch:
    """Tensors of the same size."""
    width = total // N_FIELDS // ROWS // 4
    made = torch.arange(ROWS * width, dtype=torch.int32).reshape(ROWS, width)
    return {"batch": {f"field{i:02}": made + i for i in range(N_FIELDS)},
            "non_tensor_batch": {}, "meta_info": {}}


def rows(values: list[Any]) -> Batch:
    column = np.empty(len(values), object)
    for i, value in enumerate(values):
        column[i] = value
    return {"batch": {}, "non_tensor_batch": {"column": column},
            "meta_info": {}}


def ragged(_: int) -> Batch:
    """Token numbers, as many as each answer has."""
    lengths = np.random.default_rng(7).integers(LENGTH_MIN, LENGTH_MAX,
                                                MANY_ROWS)
    return rows([np.arange(i, i + n) for i, n in enumerate(lengths)])


def plain(_: int) -> Batch:
    """What a reward model is told."""
    return rows([{"data_source": "openai/gsm8k", "index": i, "split": "train"}
                 for i in range(MANY_ROWS)])


MAKE: dict[str, Callable[[int], Batch]] = {
    "fields": fields, "ragged": ragged, "plain": plain}


def is_same(got: Any, put: Any) -> bool:
    if isinstance(put, torch.Tensor):
        return got.dtype == put.dtype and torch.equal(got, put)
    if isinstance(put, np.ndarray) and put.dtype != object:
        return got.dtype == put.dtype and np.array_equal(got, put)
    return len(got) == len(put) and all(
        is_same(one, other) if isinstance(other, np.ndarray) else one == other
        for one, other in zip(got, put))


class Client:
    def __init__(self, port: int, lent: int, local: int, total: int) -> None:
        self.store = MooncakeDistributedStore()
        rc = self.store.setup("127.0.0.1", "P2PHANDSHAKE", lent, local, "tcp",
                              "", f"127.0.0.1:{port}")
        if rc:
            raise RuntimeError(f"setup() = {rc}")
        self.transfer = MooncakeBundleTransfer(self.store)
        self.total = total
        self.batches: dict[str, Batch] = {}
        self.batch: Batch = {}
        self.ref: Any = None

    def do_begin(self, kind: str, there: bool) -> talk.Order:
        """What follows is of such a batch; whether it is stored already."""
        if kind not in self.batches:
            self.batches[kind] = MAKE[kind](self.total)
            self.batch = self.batches[kind]
            self.put()  # memory is touched, modules are imported
            self.check()
        self.batch = self.batches[kind]
        self.remove()
        if there:
            self.put()
        return {}

    def put(self) -> None:
        self.ref = self.transfer.put_dataproto(self.batch)

    def remove(self) -> None:
        if self.ref is not None:
            self.transfer.cleanup_dataproto(self.ref)
            self.ref = None

    def check(self) -> None:
        """RuntimeError: what is stored is not what was put."""
        got = self.transfer.get_dataproto(self.ref)
        for section in ("batch", "non_tensor_batch"):
            for name, put in self.batch[section].items():
                if not is_same(got[section][name], put):
                    raise RuntimeError(f"{name} is not what was put")
        MooncakeBundleTransfer.release_result(got)

    def do_put(self, seconds: float) -> talk.Order:
        return self.timed(self.put, self.remove, seconds)

    def do_get(self, seconds: float) -> talk.Order:
        """What is read is let go within the time, as its memory has a price."""
        def get() -> None:
            MooncakeBundleTransfer.release_result(
                self.transfer.get_dataproto(self.ref))

        return self.timed(get, lambda: None, seconds)

    def timed(self, work: Callable[[], None], before: Callable[[], None],
              seconds: float) -> talk.Order:
        taken: list[float] = []
        cpu = 0.0
        while len(taken) < LEAST or sum(taken) < seconds:
            before()
            used, start = talk.cpu_s(), time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
            cpu += talk.cpu_s() - used
        taken.sort()
        return {"p50_ms": taken[len(taken) // 2] * 1e3,
                "p99_ms": taken[len(taken) * 99 // 100] * 1e3,
                "cpu_s": cpu, "calls": len(taken)}

    def do_end(self) -> talk.Order:
        self.check()
        self.remove()
        return {}


talk.obey(Client(*(int(word) for word in sys.argv[1:5])))
