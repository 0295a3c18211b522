# SPDX-License-Identifier: Apache-2.0
"""Two hosts in network namespaces, joined by virtual networks.

This process is one host; the other is a process that does nothing but hold a
namespace, and ends when the pipe to it is closed, so also with us, however we
end. Networks go with the namespaces: nothing is left, and nothing outside is
touched. What is lost is dropped as it arrives, by a filter of classic BPF, so
that senders do not notice it earlier than they would on a real network.
"""
from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compare.work import Skip

WITHIN = "TE_RAILS_WITHIN"  # set: our namespace is our own already
COMMAND_S = 10.0
RANDOM = 0xFFFFF000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM
BURST_MS = 1  # of a limit: what may go at once after a rest


def needed() -> str | None:
    """What is missing, in a few words."""
    for program, package in (("ip", "iproute2"), ("tc", "iproute2"),
                             ("unshare", "util-linux"),
                             ("nsenter", "util-linux"),
                             ("setpriv", "util-linux")):
        if not shutil.which(program):
            return f"{program} is not installed (package {package})"
    return None


def enter() -> None:
    """Start over in a network namespace of our own; Skip where that fails."""
    if os.environ.get(WITHIN):
        return
    command = ["unshare", "--net"]
    if os.geteuid():
        command += ["--user", "--map-root-user"]
    if subprocess.run([*command, "true"], stdin=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip("network namespaces are not allowed here")
    os.environ[WITHIN] = "1"
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def call(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, timeout=COMMAND_S, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Skip(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it failed"])[0]
        raise Skip(f"{' '.join(command)}: {why}")


@dataclass(frozen=True)
class Host:
    side: str  # begin of its interfaces' names
    number: int  # end of its addresses
    within: tuple[str, ...]  # what runs a command there

    def call(self, *command: str) -> None:
        call([*self.within, *command])

    def device(self, rail: int) -> str:
        return f"{self.side}{rail}"

    def address(self, rail: int) -> str:
        return f"10.99.{rail}.{self.number}"

    def devices(self, rails: int) -> str:
        return " ".join(self.device(rail) for rail in range(rails))

    def join(self, rail: int, mbit: int) -> None:
        """Give its end of a network an address and a limit."""
        device = self.device(rail)
        burst = mbit * 1000 // 8 * BURST_MS
        self.call("ip", "addr", "add", f"{self.address(rail)}/24", "dev",
                  device)
        self.set_up(rail, True)
        self.call("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate",
                  f"{mbit}mbit", "burst", str(max(burst, 1 << 17)), "latency",
                  "20ms")

    def set_up(self, rail: int, up: bool) -> None:
        self.call("ip", "link", "set", self.device(rail),
                  "up" if up else "down")

    def lose(self, rail: int, share: float) -> None:
        """Drop @share of what arrives, at random."""
        device = self.device(rail)
        keep = round((1 - share) * 0xFFFFFFFF)
        code = f"4,32 0 0 {RANDOM},53 0 1 {keep},6 0 0 2,6 0 0 0"
        if share >= 1:
            code = "1,6 0 0 2"
        self.call("tc", "qdisc", "add", "dev", device, "clsact")
        self.call("tc", "filter", "add", "dev", device, "ingress", "prio",
                  "1", "protocol", "all", "bpf", "da", "bytecode", code)

    def lose_nothing(self, rail: int) -> None:
        self.call("tc", "qdisc", "del", "dev", self.device(rail), "clsact")


@dataclass(frozen=True)
class Network:
    ours: Host
    theirs: Host
    mbits: tuple[int, ...]  # of each rail

    @contextlib.contextmanager
    def losing(self, rails: Sequence[int], share: float) -> Iterator[None]:
        done: list[tuple[Host, int]] = []
        try:
            for rail in rails:
                for host in (self.ours, self.theirs):
                    done.append((host, rail))
                    host.lose(rail, share)
            yield
        finally:
            for host, rail in done:
                with contextlib.suppress(Skip):
                    host.lose_nothing(rail)

    def sent(self, rail: int) -> int:
        """Bytes that have left by the rail, with their headers."""
        wanted = self.ours.device(rail) + ":"
        with open("/proc/self/net/dev", encoding="ascii") as rows:
            for row in rows:
                words = row.split()
                if words[0] == wanted:
                    return int(words[9])
        raise Skip(f"{wanted} is gone")


def await_own_namespace(pid: int) -> None:
    until = time.monotonic() + COMMAND_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if (os.readlink(f"/proc/{pid}/ns/net") !=
                    os.readlink("/proc/self/ns/net")):
                return
        time.sleep(0.01)
    raise Skip("the other host does not come up")


@contextlib.contextmanager
def network(mbits: tuple[int, ...]) -> Iterator[Network]:
    """The two hosts, while it lasts; call enter() before."""
    holder = subprocess.Popen(["unshare", "--net", "cat"],
                              stdin=subprocess.PIPE)
    try:
        await_own_namespace(holder.pid)
        ours = Host("rail", 1, ())
        theirs = Host("peer", 2,
                      ("nsenter", f"--net=/proc/{holder.pid}/ns/net"))
        for host in (ours, theirs):
            host.call("ip", "link", "set", "lo", "up")
        for rail, mbit in enumerate(mbits):
            ours.call("ip", "link", "add", "name", ours.device(rail), "type",
                      "veth", "peer", "name", theirs.device(rail), "netns",
                      str(holder.pid))
            ours.join(rail, mbit)
            theirs.join(rail, mbit)
        yield Network(ours, theirs, mbits)
    finally:
        assert holder.stdin
        holder.stdin.close()
        try:
            holder.wait(COMMAND_S)
        except subprocess.TimeoutExpired:
            holder.kill()
            holder.wait()
