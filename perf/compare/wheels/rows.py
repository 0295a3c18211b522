# SPDX-License-Identifier: Apache-2.0
"""What is done, and which rows of the table come of it."""
from __future__ import annotations

import re
from dataclasses import dataclass, field

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
WORKING_SET = 512 * MIB  # of each side of an engine
POOL = 1024 * MIB
SMALL_POOL = 256 * MIB  # that a crowd puts into
LOCAL = 4096 * MIB  # of the client that joins and leaves
FIELDS = GIB  # of a batch of 64 tensors, unless the caller says otherwise

BATCH_GROUPS = ("batch", "own batch")  # groups that need what frameworks have

RAW, PEER, TCP, DEFAULT = "raw", "peer", "ours, tcp", "ours"


@dataclass(frozen=True)
class Task:
    """One measurement, which every system does in turn."""

    name: str
    group: str  # of processes that do it: see groups.py
    order: dict[str, object]  # to the process; without the seconds


@dataclass(frozen=True)
class Goal:
    """@kind: times PEER or RAW, times another row of the same system's
    ("one thread"); or "at least", "at most" so much."""

    kind: str
    number: float


def times(number: float) -> Goal:
    return Goal(PEER, number)


@dataclass(frozen=True)
class Row:
    """One figure of a task."""

    name: str
    unit: str
    task: str
    figure: str
    goals: dict[str, Goal] = field(default_factory=dict)  # by system
    than: str = ""  # the row to compare with, of the same system; or of RAW


def both(tcp: float, default: float) -> dict[str, Goal]:
    return {TCP: times(tcp), DEFAULT: times(default)}


def bound(kind: str, number: float) -> dict[str, Goal]:
    return {TCP: Goal(kind, number), DEFAULT: Goal(kind, number)}


def _size(size: int) -> str:
    return (f"{size // MIB} MiB" if size >= MIB else
            f"{size // KIB} KiB" if size >= KIB else f"{size} B")


def _move(op: str, size: int, batch: int, threads: int = 1,
          group: str = "engine") -> Task:
    name = f"engine {op} {_size(size)} x{batch}"
    if threads > 1:
        name += f", {threads} threads"
    if group == "own":
        name += ", caller's memory"
    return Task(name, group, {"do": "move", "op": op, "size": size,
                              "batch": batch, "threads": threads})


def _values(size: int, batch: int, total: int) -> Task:
    return Task(f"store {_size(size)} x{batch}", "store",
                {"do": "values", "size": size, "batch": batch,
                 "total": total})


def _exist(threads: int) -> Task:
    name = "one thread" if threads == 1 else f"{threads} threads"
    return Task(f"store batch_is_exist x128, {name}", "store",
                {"do": "exist", "batch": 128, "threads": threads})


_STREAM = Task("stream of 1 MiB", "raw", {"do": "stream"})
_PINGPONGS = [Task(f"ping-pong of {_size(size)}", "raw",
                   {"do": "pingpong", "size": size})
              for size in (8, 64 * KIB)]
_MOVES = [_move(op, size, batch) for size, batch in
          ((MIB, 16), (64 * KIB, 16), (64 * KIB, 1), (16 * KIB, 4096))
          for op in ("write", "read")]
_PAIRS = [_move("write", MIB, 16, 2), _move("write", 64 * KIB, 1, 2)]
_OWN = [_move(op, MIB, 16, group="own") for op in ("write", "read")]
_LATENCIES = [Task(f"engine write {_size(size)}", "engine",
                   {"do": "latency", "size": size})
              for size in (8, 64 * KIB)]
_CALLS = [Task(f"store {op} 4 KiB", "store",
               {"do": "times", "op": op, "size": 4 * KIB})
          for op in ("put", "get", "exist")]
_VALUES = [_values(4 * KIB, 1, 2 * MIB), _values(4 * KIB, 128, 32 * MIB),
           _values(64 * KIB, 32, 128 * MIB), _values(MIB, 32, 256 * MIB)]
_OWN_VALUES = Task("store 1 MiB x1, own segment", "own store",
                   {"do": "values", "size": MIB, "batch": 1,
                    "total": 256 * MIB})
_EXIST = [_exist(1), _exist(4)]


def _batch(kind: str, name: str) -> list[Task]:
    """Through another process's pool, and into a pool of the client's own."""
    return [Task(f"DataProto {name}", "batch", {"kind": kind}),
            Task(f"DataProto {name}, own pool", "own batch", {"kind": kind})]


_FIELDS = _batch("fields", "64 tensors")
_RAGGED = _batch("ragged", "10,000 ragged rows")
_PLAIN = _batch("plain", "10,000 plain rows")
_BATCHES = [*_FIELDS, *_RAGGED, *_PLAIN]
_IDLE = Task("store idle", "store", {"do": "idle"})
_LIFE = Task("store client's life", "life", {})
_CROWD = Task("store 200 threads", "crowd", {"do": "crowd", "size": MIB,
                                             "threads": 200, "each": 3})
_WHEEL = Task("wheel", "wheel", {})

TASKS = [_STREAM, *_MOVES, *_PAIRS, *_PINGPONGS, *_LATENCIES, *_OWN,
         *_VALUES, _OWN_VALUES, *_CALLS, *_EXIST, _IDLE, _LIFE, _CROWD, *_BATCHES, _WHEEL]


def _rates(task: Task) -> Row:
    return Row(task.name, "GB/s", task.name, "gb_per_s", both(2, 4))


def _put_get(task: Task, unit: str, goals: dict[str, Goal]) -> list[Row]:
    figure = "gb_per_s" if unit == "GB/s" else "keys_per_s"
    return [Row(task.name.replace("store", f"store {op}"), unit, task.name,
                f"{op}_{figure}", goals) for op in ("put", "get")]


def _batch_rows(task: Task, faster: float) -> list[Row]:
    """The slowest, and the CPU time of client and lender, are never worse."""
    goals = {DEFAULT: times(faster)}
    if task.group == "batch":
        goals[TCP] = times(faster)
    rows = []
    for op in ("put", "get"):
        name = task.name.replace("DataProto", f"DataProto {op}")
        rows += [Row(f"{name}, p50", "ms", task.name, f"{op}_p50_ms", goals),
                 Row(f"{name}, p99", "ms", task.name, f"{op}_p99_ms",
                     {system: times(1) for system in goals}),
                 Row(f"CPU of {name}", "ms", task.name, f"{op}_cpu_ms",
                     {system: times(1) for system in goals})]
    return rows


PERCENTILES = {"p50": "p50_us", "p99": "p99_us", "p99.9": "p999_us"}


def _latency_rows(ping: Task, write: Task) -> list[Row]:
    """The p99 of a busy host is held against raw's; at rest p50 tells more."""
    small = write.order["size"] == 8
    goals = {"p50": {TCP: Goal(RAW, 1.1), DEFAULT: Goal(RAW, 0.3)}
             if small else {},
             "p99": {TCP: Goal(RAW, 1.3)}, "p99.9": {}}
    rows = []
    for name, figure in PERCENTILES.items():
        raw = f"raw {ping.name}, {name}"
        rows += [Row(raw, "us", ping.name, figure),
                 Row(f"{write.name}, {name}", "us", write.name, figure,
                     goals[name], than=raw if goals[name] else "")]
    raw = f"raw {ping.name}, rate"
    return rows + [Row(raw, "calls/s", ping.name, "per_s"),
                   Row(f"{write.name}, rate", "calls/s", write.name, "per_s")]


def _call_rows(task: Task) -> list[Row]:
    """Of one call at a time: never later than the published wheel."""
    return [*(Row(f"{task.name}, {name}", "us", task.name, figure,
                  {} if name == "p99.9" else both(1, 1))
              for name, figure in PERCENTILES.items()),
            Row(f"{task.name}, rate", "calls/s", task.name, "per_s",
                both(2, 2))]


def _rows() -> list[Row]:
    one, many, middle, large = _VALUES
    rows = [Row("raw stream of 1 MiB", "GB/s", _STREAM.name, "gb_per_s"),
            *map(_rates, _MOVES)]
    rows += [Row(task.name, "GB/s", task.name, "gb_per_s",
                 bound("one thread", 1.0), than=task.name.split(",")[0])
             for task in _PAIRS]
    for ping, write in zip(_PINGPONGS, _LATENCIES):
        rows += _latency_rows(ping, write)
    rows += [Row(f"CPU of {task.name}", "CPU s/GB", task.name, "cpu_s_per_gb",
                 {TCP: times(1 / 0.6), DEFAULT: times(1 / 0.25)})
             for task in _MOVES[:2]]
    rows += [Row(task.name, "GB/s", task.name, "gb_per_s") for task in _OWN]
    for task in _CALLS:
        rows += _call_rows(task)
    rows += _put_get(one, "keys/s", both(2, 3))
    rows += _put_get(many, "keys/s", both(10, 15))
    rows += _put_get(middle, "GB/s", both(2, 4))
    rows += _put_get(large, "GB/s", both(1.7, 3.5))
    rows += _put_get(_OWN_VALUES, "GB/s", {DEFAULT: times(1.3)})
    rows += [Row(task.name, "keys/s", task.name, "keys_per_s",
                 {TCP: times(n), DEFAULT: times(n)})
             for task, n in zip(_EXIST, (1.8, 2.0))]
    rows += [
        Row("store 200 threads into a full pool, ok", "%", _CROWD.name,
            "ok_percent", bound("at least", 99)),
        Row("store 200 threads into a full pool", "GB/s", _CROWD.name,
            "gb_per_s", both(10, 10)),
        Row("store close()", "ms", _LIFE.name, "close_ms",
            bound("at most", 50)),
        Row("store setup(), 4 GiB local", "ms", _LIFE.name, "setup_ms",
            bound("at most", 50)),
        Row("memory that it takes", "MB", _LIFE.name, "setup_mb"),
        Row("import mooncake.store", "ms", _LIFE.name, "import_ms",
            bound("at most", 50)),
        Row("idle client", "% of a core", _IDLE.name, "percent_of_core",
            bound("at most", 0.1)),
        *(row for task in [*_FIELDS, *_RAGGED] for row in _batch_rows(
            task, 2 if task.group == "batch" else 1)),
        *(row for task in _PLAIN for row in _batch_rows(task, 1)),
        Row("wheel", "MB", _WHEEL.name, "wheel_mb", bound("at most", 6)),
    ]
    return rows


ROWS = _rows()


def rows_named(pattern: str) -> list[Row]:
    """Those that a regular expression finds, and what they need."""
    chosen = [row for row in ROWS if re.search(pattern, row.name, re.I)]
    needed = {row.than for row in chosen} | {row.name for row in chosen}
    return [row for row in ROWS if row.name in needed]


def tasks_of(rows: list[Row]) -> list[Task]:
    names = {row.task for row in rows}
    return [task for task in TASKS if task.name in names]
