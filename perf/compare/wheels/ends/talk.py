# SPDX-License-Identifier: Apache-2.0
"""What the programs here share: orders by line, memory, clocks.

They are run by the Python that has the wheel in question, and use nothing but
it and the standard library. Orders come as JSON, one a line, on standard input;
answers go to standard output, which the libraries do not get to see.
"""
from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import sys
import threading
import time
from collections.abc import Callable

Order = dict[str, object]

# The wheels log to both.
_answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)


def say(**answer: object) -> None:
    print(json.dumps(answer), file=_answers, flush=True)


def obey(end: object) -> None:
    """Call its do_X() for each order X; with the last, end without farewell.

    What the destructors of a wheel take, and whether they hang, is measured
    elsewhere.
    """
    for line in sys.stdin:
        try:
            order = json.loads(line)
            say(**getattr(end, "do_" + order.pop("do"))(**order))
        except Exception as error:  # whatever a wheel raises is its answer
            say(error=f"{type(error).__name__}: {error}")
    os._exit(0)


def cpu_s() -> float:
    """CPU time of this process, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Memory:
    """Private memory as an allocator of tensors has it, touched."""

    def __init__(self, length: int) -> None:
        self.map = mmap.mmap(-1, length,
                             flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.length = length
        ctypes.memset(self.address, 1, length)


def repeat(work: Callable[[int], int], seconds: float,
           threads: int = 1) -> tuple[int, float]:
    """work(i) again and again by each thread: the sum of results, the time.

    The time is that of the slowest, who ends what it has begun.
    """
    sums, failures = [0] * threads, []

    def loop(me: int) -> None:
        i, end = me, time.perf_counter() + seconds
        try:
            while time.perf_counter() < end:
                sums[me] += work(i)
                i += threads
        except Exception as error:
            failures.append(error)

    start = time.perf_counter()
    others = [threading.Thread(target=loop, args=(me,))
              for me in range(1, threads)]
    for other in others:
        other.start()
    loop(0)
    for other in others:
        other.join()
    if failures:
        raise failures[0]
    return sum(sums), time.perf_counter() - start


def times_us(work: Callable[[], object], seconds: float,
             most: int = sys.maxsize) -> Order:
    """work() again and again, @most times: how long it takes."""
    taken: list[int] = []
    begin = time.perf_counter()
    end = begin + seconds
    while time.perf_counter() < end and len(taken) < most:
        start = time.perf_counter_ns()
        work()
        taken.append(time.perf_counter_ns() - start)
    n, elapsed = len(taken), time.perf_counter() - begin
    taken.sort()
    return {"p50_us": taken[len(taken) // 2] / 1e3,
            "p99_us": taken[len(taken) * 99 // 100] / 1e3,
            "p999_us": taken[len(taken) * 999 // 1000] / 1e3,
            "per_s": n / elapsed}
