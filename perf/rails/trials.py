# SPDX-License-Identifier: Apache-2.0
"""What is tried over the networks, and what each trial gives."""
from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from compare.process import serving
from compare.work import Skip

from .network import Host, Network

PORT = 7000
MIB = 1 << 20
WORKING_SET = 256 * MIB
SPARE_S = 60.0  # for te-perf to start, touch its memory and compare it
BEFORE_S = 1.0  # of transfer, until something happens
AWAY_S = 1.5
AFTER_S = 2.5
BACK_BYTES = MIB  # sent by a rail that is in use again
LOOK_S = 0.005  # interval of te-perf's series
STILL_S = 0.1  # without a byte: the rail is away
BEFORE_STILL_S = 0.05  # what moved last may hide that it has begun
LOSS = 0.05
LOSS_THREADS = 4  # batches in flight, for one alone waits for its last byte

Figures = dict[str, float]


@dataclass(frozen=True)
class Goal:
    """What a figure should be; least: not less than it, else not more."""

    value: float
    least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.value if self.least else value <= self.value


GOALS = {
    "of the sum": Goal(0.95, least=True),
    "p99 of ideal": Goal(2.0),
    "gap, link down": Goal(20.0),
    "gap, silent": Goal(2000.0),
    "back in use": Goal(2000.0),
    "wrong bytes": Goal(0.0),
    "failed": Goal(0.0),
}


@dataclass(frozen=True)
class Trial:
    name: str
    measure: Callable[[Tool], Figures]


class Tool:
    """te-perf on both hosts."""

    def __init__(self, net: Network, program: Path, seconds: float) -> None:
        self.net = net
        self.program = str(program)
        self.seconds = seconds

    def command(self, host: Host, settings: str, *args: str) -> list[str]:
        engine = f"tcp.devices={host.devices(len(self.net.mbits))}"
        return ["setpriv", "--pdeathsig", "KILL", *host.within, self.program,
                "--insecure", "--working-set", str(WORKING_SET), "--engine",
                ",".join(filter(None, (engine, settings))), *args]

    @contextlib.contextmanager
    def listening(self, settings: str) -> Iterator[str]:
        at = f"{self.net.theirs.address(0)}:{PORT}"
        with serving(self.command(self.net.theirs, settings, "--listen",
                                  at)) as server:
            server.line("te-perf listens")
            yield at

    @contextlib.contextmanager
    def running(self, at: str, settings: str,
                *args: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            self.command(self.net.ours, settings, "--connect", at, "--json",
                         *args),
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()

    def rows(self, process: subprocess.Popen[str]) -> list[dict]:
        try:
            out, err = process.communicate(timeout=SPARE_S + self.seconds * 8)
        except subprocess.TimeoutExpired as error:
            raise Skip("te-perf does not end") from error
        try:
            return json.loads(out)["rows"]
        except (ValueError, KeyError) as error:
            last = err.strip().splitlines()[-1:] or ["no output"]
            raise Skip(f"te-perf: {last[0][:200]}") from error

    def run(self, settings: str, *args: str) -> list[dict]:
        with (self.listening(settings) as at,
              self.running(at, settings, *args) as process):
            return self.rows(process)

    def references(self) -> list[str]:
        rails = range(len(self.net.mbits))
        return ["--reference", "--reference-at",
                ",".join(self.net.theirs.address(rail) for rail in rails)]


# ---- striping ----

def beside_raw(row: dict) -> Figures:
    return {
        "GB/s": row["gb_per_s"],
        "raw streams GB/s": row["bound"]["gb_per_s"],
        "of the sum": row["bound"]["share"],
        "p99 of ideal": row["reference"]["p99_of_ideal"],
        "wrong bytes": float(row["wrong_bytes"]),
        "failed": float(row["failed"]),
    }


def stripe(op: str, size: str, batch: int) -> Trial:
    def measure(tool: Tool) -> Figures:
        rows = tool.run("", "--op", op, "--size", size, "--batch", str(batch),
                        "--duration", str(tool.seconds), "--verify", "10",
                        *tool.references())
        return beside_raw(rows[0])
    return Trial(f"{op} {size} x {batch}, both rails", measure)


# ---- rails that go away ----

def await_bytes(net: Network, rail: int, n: int, seconds: float) -> float:
    """Seconds until @n bytes more have gone by the rail."""
    start = time.monotonic()
    before = net.sent(rail)
    while net.sent(rail) < before + n:
        if time.monotonic() > start + seconds:
            raise Skip(f"nothing goes by rail {rail}")
        time.sleep(0.001)
    return time.monotonic() - start


def gap_of(row: dict, rail: str) -> float:
    """The longest gap, in ms, from when @rail goes away to when it is back.

    The rest of the transfer has gaps of its own on a machine that is busy.
    """
    points = row["series"]
    still = [not point["rail_bytes"][rail] for point in points]
    need = round(STILL_S / LOOK_S)
    for begin in range(len(points) - need):
        if all(still[begin:begin + need]):
            break
    else:
        raise Skip(f"{rail} never stood still")
    end = begin
    while end < len(points) and still[end]:
        end += 1
    begin = max(0, begin - round(BEFORE_STILL_S / LOOK_S))
    return max(point["gap_ms"] for point in points[begin:end + 1])


def disturb(tool: Tool, rail: int, away: Callable[[], None],
            back: Callable[[], None], gap: str) -> Figures:
    """Transfer, take a rail away in the middle, and give it back."""
    duration = BEFORE_S + AWAY_S + AFTER_S
    with (tool.listening("") as at,
          tool.running(at, "", "--size", "256k", "--batch", "4", "--threads",
                       "2", "--duration", str(duration), "--interval",
                       f"{LOOK_S * 1e3:.0f}ms", "--verify",
                       "100") as process):
        await_bytes(tool.net, rail, 16 * MIB, SPARE_S)
        time.sleep(BEFORE_S)
        away()
        time.sleep(AWAY_S)
        back()
        back_s = await_bytes(tool.net, rail, BACK_BYTES, AFTER_S)
        row = tool.rows(process)[0]
    name = f"tcp/{tool.net.ours.device(rail)}"
    return {gap: gap_of(row, name), "back in use": back_s * 1e3,
            "GB/s": row["gb_per_s"],
            "wrong bytes": float(row["wrong_bytes"]),
            "failed": float(row["failed"])}


def undisturbed(tool: Tool) -> Figures:
    """The gaps that the machine makes by itself, for comparison."""
    rows = tool.run("", "--size", "256k", "--batch", "4", "--threads", "2",
                    "--duration", str(BEFORE_S + AWAY_S + AFTER_S),
                    "--verify", "100")
    return {"gap": rows[0]["gap_ms"], "GB/s": rows[0]["gb_per_s"],
            "wrong bytes": float(rows[0]["wrong_bytes"])}


def link_down(rail: int, at_ours: bool) -> Trial:
    def measure(tool: Tool) -> Figures:
        host = tool.net.ours if at_ours else tool.net.theirs
        return disturb(tool, rail, lambda: host.set_up(rail, False),
                       lambda: host.set_up(rail, True), "gap, link down")
    side = "our" if at_ours else "the peer's"
    return Trial(f"rail {rail} down at {side} end, then up", measure)


def silence(rail: int) -> Trial:
    def measure(tool: Tool) -> Figures:
        with contextlib.ExitStack() as dropping:
            return disturb(
                tool, rail,
                lambda: dropping.enter_context(tool.net.losing([rail], 1.0)),
                dropping.close, "gap, silent")
    return Trial(f"rail {rail} silent without an event", measure)


# ---- loss ----

def loss(congestion: str) -> Trial:
    def measure(tool: Tool) -> Figures:
        settings = f"tcp.congestion={congestion}"
        rails = range(len(tool.net.mbits))
        with tool.net.losing(rails, LOSS):
            row = tool.run(settings, "--size", "1m", "--batch", "16",
                           "--threads", str(LOSS_THREADS), "--duration",
                           str(2 * tool.seconds), "--verify", "100",
                           "--congestion", congestion,
                           *tool.references())[0]
        return {"GB/s": row["gb_per_s"],
                "raw streams GB/s": row["bound"]["gb_per_s"],
                "of raw streams": row["bound"]["share"],
                "raw exchange GB/s": row["raw"]["gb_per_s"],
                "wrong bytes": float(row["wrong_bytes"]),
                "failed": float(row["failed"])}
    return Trial(f"{LOSS:.0%} loss both ways, {congestion}", measure)


def congestions() -> list[str]:
    path = "/proc/sys/net/ipv4/tcp_available_congestion_control"
    with open(path, encoding="ascii") as names:
        have = names.read().split()
    return [name for name in ("cubic", "bbr") if name in have]


def all_trials() -> list[Trial]:
    return [
        stripe("write", "1m", 16), stripe("read", "1m", 16),
        stripe("write", "64k", 16), stripe("write", "16m", 1),
        Trial("nothing happens", undisturbed),
        *(link_down(rail, at_ours) for rail in (0, 1)
          for at_ours in (True, False)),
        silence(0), silence(1), *(loss(name) for name in congestions()),
    ]
