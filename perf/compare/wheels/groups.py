# SPDX-License-Identifier: Apache-2.0
"""The processes of one system that do the tasks of a group.

All of them stay while the group is measured; who is not asked sleeps.
"""
from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..process import await_port, free_port, serving
from ..work import Skip
from .rows import (DEFAULT, FIELDS, LOCAL, MIB, PEER, POOL, RAW, SMALL_POOL,
                   TCP, WORKING_SET, Task)

ENDS = Path(__file__).with_name("ends")
IDLE_S = 2.0  # at least, for a figure of CPU time to mean something
PUBLISHED_MOST = 2048  # its queue refuses calls of more entries
LIMIT_S = 60.0  # of one answer; a crowd at the published wheel needs some

Figures = dict[str, float]


@dataclass(frozen=True)
class System:
    """Who is measured: a Python that has the wheel, and its environment."""

    name: str
    python: Path
    env: dict[str, str] = field(default_factory=dict)
    wheel_mb: float | None = None
    most: int = 1 << 20  # entries that a call may have
    fields: int = FIELDS  # bytes of its batch of tensors

    def program(self, name: str) -> str:
        return str(self.python.with_name(name))


def systems_of(ours: Path, theirs: Path, wheel_mb: dict[str, float],
               fields: int = FIELDS) -> list[System]:
    made = [System(RAW, ours),
            System(PEER, theirs, {}, wheel_mb.get(PEER), PUBLISHED_MOST),
            System(TCP, ours, {"MC_FORCE_TCP": "1"}, wheel_mb.get(DEFAULT)),
            System(DEFAULT, ours, {}, wheel_mb.get(DEFAULT))]
    return [replace(one, fields=fields) for one in made]


class End:
    """A program of ends/, which answers orders."""

    def __init__(self, system: System, name: str, *args: object) -> None:
        self._log = tempfile.TemporaryFile()
        self._left = b""
        self.process = subprocess.Popen(
            [str(system.python), "-u", str(ENDS / f"{name}.py"),
             *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._log, env={**os.environ, **system.env,
                                   "PYTHONDONTWRITEBYTECODE": "1"})

    def _why(self) -> str:
        self._log.seek(0)
        text = self._log.read().decode(errors="replace").strip()
        return (text.splitlines() or ["no output"])[-1][:160]

    def _line(self) -> bytes:
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._left:
                if not ready.select(LIMIT_S):
                    # Its answer would be taken for that to the next order.
                    self.process.kill()
                    raise Skip(f"no answer within {LIMIT_S:.0f} s")
                part = os.read(self.process.stdout.fileno(), 1 << 16)
                if not part:
                    raise Skip(f"its process has ended: {self._why()}")
                self._left += part
        line, _, self._left = self._left.partition(b"\n")
        return line

    def answer(self) -> dict[str, object]:
        answer = json.loads(self._line())
        if "error" in answer:
            raise Skip(str(answer["error"]))
        return answer

    def ask(self, **order: object) -> dict[str, object]:
        try:
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise Skip(f"its process has ended: {self._why()}") from error
        return self.answer()

    def close(self) -> None:
        """It ends with its input; whoever hangs is killed."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._log.close()


class Group(contextlib.ExitStack):
    """What the kinds of groups have in common; left, its processes end."""

    def __init__(self, system: System) -> None:
        super().__init__()
        self.system = system
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        pass

    def measure(self, task: Task, seconds: float) -> Figures:
        raise NotImplementedError

    def end(self, name: str, *args: object) -> End:
        end = End(self.system, name, *args)
        self.callback(end.close)
        return end

    def master(self) -> int:
        """Its port."""
        port = free_port()
        server = self.enter_context(serving(
            [self.system.program("mooncake_master"), f"--port={port}",
             f"--metrics_port={free_port()}"], self.system.env))
        await_port(port, server)
        return port


class RawGroup(Group):
    def start(self) -> None:
        self.one = self.end("raw", WORKING_SET)

    def measure(self, task: Task, seconds: float) -> Figures:
        return self.one.ask(**task.order, seconds=seconds)


class EngineGroup(Group):
    """Two engines; @kind: whose memory they move."""

    kind = "managed"

    def start(self) -> None:
        self.target = self.end("engine", WORKING_SET, self.kind)
        self.one = self.end("engine", WORKING_SET, self.kind)
        self.one.ask(do="meet", **self.target.ask(do="where"))

    def measure(self, task: Task, seconds: float) -> Figures:
        before = self.target.ask(do="cpu")["cpu_s"]
        order = dict(task.order, seconds=seconds)
        if order["do"] == "move":
            order["most"] = self.system.most
        figures = self.one.ask(**order)
        cpu = self.target.ask(do="cpu")["cpu_s"] - before
        if "bytes" in figures:
            figures["cpu_s_per_gb"] = ((cpu + figures["cpu_s"])
                                       / figures["bytes"] * 1e9)
        return figures


class OwnGroup(EngineGroup):
    kind = "own"


class StoreGroup(Group):
    """A master, who lends the pool, and a client that lends nothing."""

    pool = POOL

    def start(self) -> None:
        self.port = self.master()
        self.owner = self.end("store", self.port, self.pool, 16 * MIB, 0)
        self.owner.ask(do="cpu")  # the pool is there
        self.one = self.end("store", self.port, 0, 64 * MIB, 256 * MIB)

    def measure(self, task: Task, seconds: float) -> Figures:
        if task.order["do"] == "idle":
            seconds = max(seconds, IDLE_S)
        return self.one.ask(**task.order, seconds=seconds)


class OwnStoreGroup(StoreGroup):
    """The client has the pool in its own process."""

    def start(self) -> None:
        if self.system.name == TCP:
            raise Skip("nothing goes over tcp")
        self.port = self.master()
        self.one = self.end("store", self.port, self.pool, 64 * MIB, 256 * MIB)


class BatchGroup(Group):
    """A master, who lends the pool, and a client of batches of rows."""

    def start(self) -> None:
        self.join(self.master())

    def join(self, port: int) -> None:
        self.lender = self.end("store", port, self.pool(), 16 * MIB, 0)
        self.lender.ask(do="cpu")  # the pool is there
        self.one = self.client(port, 0)

    def pool(self) -> int:
        """So much that nobody evicts."""
        return 2 * self.system.fields + POOL

    def client(self, port: int, lent: int) -> End:
        # Published, a result lies in the local buffer until it is let go.
        return self.end("batch", port, lent, self.pool(), self.system.fields)

    def lender_cpu_s(self) -> float:
        return float(self.lender.ask(do="cpu")["cpu_s"])

    def measure(self, task: Task, seconds: float) -> Figures:
        figures: Figures = {}
        for op in ("put", "get"):
            self.one.ask(do="begin", **task.order, there=op == "get")
            before = self.lender_cpu_s()
            found = self.one.ask(do=op, seconds=seconds)
            cpu = found["cpu_s"] + self.lender_cpu_s() - before
            self.one.ask(do="end")
            figures |= {f"{op}_p50_ms": found["p50_ms"],
                        f"{op}_p99_ms": found["p99_ms"],
                        f"{op}_cpu_ms": cpu / found["calls"] * 1e3}
        return figures


class OwnBatchGroup(BatchGroup):
    """The client has the pool in its own process."""

    def join(self, port: int) -> None:
        if self.system.name == TCP:
            raise Skip("nothing goes over tcp")
        self.one = self.client(port, self.pool())

    def lender_cpu_s(self) -> float:
        return 0.0


class CrowdGroup(StoreGroup):
    """A pool that is full before."""

    pool = SMALL_POOL

    def start(self) -> None:
        super().start()
        self.one.ask(do="fill", size=MIB, total=2 * SMALL_POOL)

    def measure(self, task: Task, seconds: float) -> Figures:
        return self.one.ask(**task.order)


class LifeGroup(Group):
    """A pool; every time a new process joins it."""

    def start(self) -> None:
        self.port = self.master()
        self.end("store", self.port, 64 * MIB, 16 * MIB, 0).ask(do="cpu")

    def measure(self, task: Task, seconds: float) -> Figures:
        one = End(self.system, "life", self.port, LOCAL)
        try:
            return one.answer()
        finally:
            one.close()


class WheelGroup(Group):
    def measure(self, task: Task, seconds: float) -> Figures:
        if self.system.wheel_mb is None:
            raise Skip("its file is not at hand")
        return {"wheel_mb": self.system.wheel_mb}


GROUPS: dict[str, type[Group]] = {
    "raw": RawGroup, "engine": EngineGroup, "own": OwnGroup,
    "store": StoreGroup, "own store": OwnStoreGroup, "crowd": CrowdGroup,
    "life": LifeGroup, "batch": BatchGroup, "own batch": OwnBatchGroup, "wheel": WheelGroup}
