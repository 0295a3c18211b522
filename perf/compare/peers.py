# SPDX-License-Identifier: Apache-2.0
"""How each peer does a work; one class a peer.

A peer is asked once whether it is installed (missing(): why not), and then
for one work after another (measure(), which may raise Skip).
"""
from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from .process import (await_listening, await_port, free_port, run,
                      serving)
from .work import WORKING_SET, Result, Skip, Unfit, Work

LATENCIES = 2000  # a second; some take a millisecond each
SPARE_S = 40.0  # for a peer to start, connect and end


class Peer:
    """What they have in common; @python: where peers' wheels are."""

    name = ""
    has_threads = False  # that submit side by side

    def __init__(self, seconds: float, congestion: str, python: str) -> None:
        self.seconds = seconds
        self.congestion = congestion
        self.python = python

    def missing(self) -> str | None:
        raise NotImplementedError

    def version(self) -> str:
        raise NotImplementedError

    def measure(self, work: Work) -> Result:
        raise NotImplementedError

    @property
    def limit(self) -> float:
        return self.seconds + SPARE_S


def need(program: str, package: str) -> str | None:
    if shutil.which(program):
        return None
    return f"{program} is not installed (package {package})"


class Wheel(Peer):
    """A peer that comes as a Python package."""

    package = ""
    module = ""

    def missing(self) -> str | None:
        try:
            run([self.python, "-c", f"import {self.module}"], self.limit)
        except Skip as why:
            return f"wheel {self.package} is not usable: {why}"
        return None

    def version(self) -> str:
        code = ("import importlib.metadata as m; "
                f"print(m.version('{self.package}'))")
        return run([self.python, "-c", code], self.limit).strip()


class Ours(Peer):
    """This engine, by te-perf and store-perf of this build."""

    name = "ours"
    has_threads = True

    def __init__(self, seconds: float, congestion: str, python: str,
                 bin_dir: Path) -> None:
        super().__init__(seconds, congestion, python)
        self.bin_dir = bin_dir

    def missing(self) -> str | None:
        if (self.bin_dir / "te-perf").exists():
            return None
        return f"no te-perf in {self.bin_dir}; ./dev build makes it"

    def version(self) -> str:
        return run([str(self.bin_dir / "te-perf"), "--version"],
                   self.limit).strip().split()[-1]

    def measure(self, work: Work) -> Result:
        if work.way == "store-tcp":
            return self._store(work)
        command = [str(self.bin_dir / "te-perf"), "--json",
                   f"--backend={work.way}", f"--op={work.op}",
                   f"--size={work.size}", f"--batch={work.batch}",
                   f"--threads={work.threads}",
                   f"--duration={self.seconds}s",
                   f"--working-set={WORKING_SET}"]
        if work.way == "tcp":
            command.append(f"--engine=tcp.congestion={self.congestion}")
        if work.hot:
            command.append("--hot")
        return self._row(work, command)

    def _store(self, work: Work) -> Result:
        op = "put" if work.op == "write" else "get"
        return self._row(work, [
            str(self.bin_dir / "store-perf"), "--json", f"--op={op}",
            f"--value-size={work.size}", f"--batch={work.batch}",
            f"--duration={self.seconds}s", f"--working-set={WORKING_SET}"])

    def _row(self, work: Work, command: list[str]) -> Result:
        text = run(command, self.limit)
        row = json.loads(text[text.index("{"):])["rows"][0]
        key = "p50_us" if work.unit == "us" else "gb_per_s"
        return Result(row[key], row.get("cpu_s_per_gb"))


class Mooncake(Wheel):
    """transfer_engine_bench of the wheel, two processes on loopback."""

    name = "Mooncake"
    has_threads = True
    package = "mooncake-transfer-engine-non-cuda"
    module = "mooncake.engine"

    def _bench(self) -> str:
        code = ("import mooncake, pathlib; print(pathlib.Path("
                "mooncake.__path__[0]) / 'transfer_engine_bench')")
        return run([self.python, "-c", code], self.limit).strip()

    def measure(self, work: Work) -> Result:
        if work.way != "tcp":
            raise Unfit("its TCP transport only")
        if work.hot:
            raise Unfit("walks over its buffer")
        bench = self._bench()
        common = [bench, "--protocol=tcp", "--metadata_server=P2PHANDSHAKE",
                  "--local_server_name=127.0.0.1",
                  f"--buffer_size={WORKING_SET}"]
        with serving([*common, "--mode=target"]) as target:
            port = target.line(r"listening on 127\.0\.0\.1:(\d+)")[1]
            target.line("DRAM is used")
            text = run([*common, "--mode=initiator",
                        f"--segment_id=127.0.0.1:{port}",
                        f"--operation={work.op}",
                        f"--block_size={work.size}",
                        f"--batch_size={work.batch}",
                        f"--threads={work.threads}",
                        f"--duration={max(1, round(self.seconds))}"],
                       self.limit)
        match = re.search(r"duration ([\d.]+), batch count (\d+)", text)
        if not match or not int(match[2]):
            raise Skip("reported no batch")
        elapsed, batches = float(match[1]), int(match[2])
        if work.unit == "us":
            return Result(elapsed / batches * 1e6)
        return Result(batches * work.batch * work.size / elapsed / 1e9)


class Nixl(Wheel):
    """NIXL with its UCX, prepared transfers, progress thread at the target."""

    name = "NIXL"
    package = "nixl-cu12"
    module = "nixl_cu12._bindings, numpy"

    def measure(self, work: Work) -> Result:
        if work.way == "store-tcp":
            raise Unfit("no key/value store")
        tls = "tcp,self" if work.way == "tcp" else "tcp,posix,cma,self"
        area = work.size * work.batch if work.hot else WORKING_SET
        side = Path(__file__).with_name("nixl_side.py")
        text = run([self.python, str(side), tls, work.op, str(work.size),
                    str(work.batch), str(area), str(self.seconds)],
                   self.limit)
        result = json.loads(text[text.rindex("{"):])
        key = "us" if work.unit == "us" else "gb_per_s"
        return Result(result[key], result["cpu_s_per_gb"])


class Ucx(Peer):
    """ucx_perftest; one hot buffer, so a bound more than a like for like."""

    name = "UCX"
    options: tuple[str, ...] = ()

    def missing(self) -> str | None:
        return need("ucx_perftest", "ucx-utils")

    def version(self) -> str:
        text = run(["ucx_info", "-v"], self.limit)
        match = re.search(r"ersion[: ]+([\d.]+)", text)
        return match[1] if match else "unknown"

    def measure(self, work: Work) -> Result:
        if work.way == "store-tcp":
            raise Unfit("no key/value store")
        if work.op == "read":
            test = "ucp_get"
        else:
            test = "ucp_put_lat" if work.unit == "us" else "ucp_put_bw"
        tls = "tcp,self" if work.way == "tcp" else "posix,cma,self"
        env = {"UCX_TLS": tls, "UCX_LOG_LEVEL": "error"}
        port = free_port()
        n = int(self.seconds * (LATENCIES if work.unit == "us"
                                else 5e8 / max(work.size, 16384)))
        common = ["ucx_perftest", "-p", str(port), *self.options]
        with serving(common, env):
            await_listening(port)
            text = run([*common, "127.0.0.1", "-t", test, "-s",
                        str(work.size), "-n", str(max(100, n)), "-f"],
                       self.limit, env)
        figures = [line.split() for line in text.splitlines()
                   if re.match(r"^\s+\d{3,}\s", line)]
        if not figures:
            raise Skip("printed no result")
        row = [float(x) for x in figures[-1]]
        # iterations, p50 us, average us, overall us, MB/s average, overall
        return Result(row[3] if work.unit == "us" else row[5] * 1.048576e-3)


class UcxPeer(Ucx):
    """The same with detection of dead peers, which NIXL asks for."""

    name = "UCX -e"
    options = ("-e",)

    def missing(self) -> str | None:
        why = super().missing()
        if why:
            return why
        text = subprocess.run(["ucx_perftest", "-h"], text=True, check=False,
                              capture_output=True, timeout=10)
        if re.search(r"^\s+-e\s", text.stdout + text.stderr, re.M):
            return None
        return "this ucx_perftest has no -e"


class Libfabric(Peer):
    """fi_pingpong over the tcp provider: a ping-pong of blocks, hot."""

    name = "libfabric"

    def missing(self) -> str | None:
        return need("fi_pingpong", "libfabric-bin")

    def version(self) -> str:
        text = run(["fi_info", "--version"], self.limit)
        return text.split()[1] if len(text.split()) > 1 else "unknown"

    def measure(self, work: Work) -> Result:
        if work.way == "store-tcp":
            raise Unfit("no key/value store")
        if work.batch != 1 and not work.hot:
            raise Unfit("fi_pingpong sends one hot block at a time")
        if work.op == "read":
            raise Unfit("fi_pingpong has messages only")
        provider = "tcp" if work.way == "tcp" else "shm"
        n = max(100, int(self.seconds * 1e9 / max(work.size, 65536)))
        port = str(free_port())
        common = ["fi_pingpong", "-p", provider, "-e", "rdm", "-I",
                  str(min(n, 20000)), "-S", str(work.size)]
        with serving([*common, "-B", port]):
            await_listening(int(port))
            text = run([*common, "-P", port, "127.0.0.1"], self.limit)
        # bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec
        row = [line.split() for line in text.splitlines() if "us" not in line
               and re.match(r"^\d", line)]
        if not row or len(row[-1]) < 7:
            raise Skip("printed no result")
        if work.unit == "us":
            return Result(float(row[-1][6]))
        return Result(float(row[-1][5]) / 1e3)


class Iperf3(Peer):
    """The plain stream, one hot buffer of 1 MiB."""

    name = "iperf3"

    def missing(self) -> str | None:
        return need("iperf3", "iperf3")

    def version(self) -> str:
        return run(["iperf3", "--version"], self.limit).split()[1]

    def measure(self, work: Work) -> Result:
        if not work.hot or work.way != "tcp":
            raise Unfit("a plain stream from one hot buffer")
        port = str(free_port())
        with serving(["iperf3", "-s", "-1", "-p", port]):
            await_listening(int(port))
            text = run(["iperf3", "-c", "127.0.0.1", "-p", port, "-l",
                        str(work.size), "-C", self.congestion, "-J",
                        "-t", str(max(1, round(self.seconds))),
                        *(["-R"] if work.op == "read" else [])], self.limit)
        end = json.loads(text)["end"]
        received = end["sum_received"]
        gb_per_s = received["bits_per_second"] / 8e9
        cpu = end["cpu_utilization_percent"]
        return Result(gb_per_s, (cpu["host_total"] + cpu["remote_total"])
                      / 100 / gb_per_s)


class Redis(Peer):
    """redis-server without persistence, redis-benchmark with one client."""

    name = "Redis"

    def missing(self) -> str | None:
        return (need("redis-server", "redis-server")
                or need("redis-benchmark", "redis-tools"))

    def version(self) -> str:
        text = run(["redis-server", "--version"], self.limit)
        match = re.search(r"v=([\d.]+)", text)
        return match[1] if match else "unknown"

    def measure(self, work: Work) -> Result:
        if work.way != "store-tcp":
            raise Unfit("a key/value server")
        port = str(free_port())
        keys = WORKING_SET // work.size
        n = max(keys, int(self.seconds * 3e9 / work.size))
        with serving(["redis-server", "--port", port, "--bind", "127.0.0.1",
                      "--save", "", "--appendonly", "no"]) as server:
            await_port(int(port), server)
            common = ["redis-benchmark", "-p", port, "-c", "1", "-d",
                      str(work.size), "-r", str(keys), "--csv"]
            if work.op == "read":
                run([*common, "-n", str(2 * keys), "-t", "set"], self.limit)
            test = "get" if work.op == "read" else "set"
            text = run([*common, "-n", str(n), "-t", test], self.limit)
        match = re.search(r'"(?:SET|GET)","([\d.]+)"', text)
        if not match:
            raise Skip("printed no result")
        return Result(float(match[1]) * work.size / 1e9)


def all_peers(seconds: float, congestion: str, python: str,
              bin_dir: Path) -> list[Peer]:
    others = (Mooncake, Nixl, Ucx, UcxPeer, Libfabric, Iperf3, Redis)
    return [Ours(seconds, congestion, python, bin_dir),
            *(kind(seconds, congestion, python) for kind in others)]
