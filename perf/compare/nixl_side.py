# SPDX-License-Identifier: Apache-2.0
"""One side of a NIXL transfer, run by the Python that has NIXL installed.

nixl_side.py TLS OP SIZE BATCH WORKING_SET SECONDS

Starts its target by forking, moves blocks for SECONDS over a working set that
is walked through on both sides, and prints one JSON object. Transfers are
prepared once and reused; only the target has a progress thread, which is the
arrangement that was fastest with two cores.
"""
import json
import mmap
import os
import resource
import socket
import sys
import time

import numpy as np

HANDLES_MAX = 2048  # each costs memory and time to prepare


def memory(length: int) -> tuple[mmap.mmap, int]:
    area = mmap.mmap(-1, length)
    view = np.frombuffer(area, dtype=np.uint8)
    view[:: mmap.PAGESIZE] = 1
    return area, view.ctypes.data


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def agent_of(name: str, thread: bool):
    from nixl_cu12._api import nixl_agent, nixl_agent_config

    config = nixl_agent_config(enable_prog_thread=thread, backends=["UCX"])
    return nixl_agent(name, config)


def send(sock: socket.socket, data: bytes) -> None:
    sock.sendall(len(data).to_bytes(8, "little") + data)


def receive(sock: socket.socket) -> bytes:
    def exactly(n: int) -> bytes:
        data = b""
        while len(data) < n:
            part = sock.recv(n - len(data))
            if not part:
                raise EOFError("the other side is gone")
            data += part
        return data

    return exactly(int.from_bytes(exactly(8), "little"))


def target(sock: socket.socket, working_set: int) -> None:
    _area, addr = memory(working_set)
    agent = agent_of("target", True)
    agent.register_memory([(addr, working_set, 0, "")], "DRAM")
    send(sock, addr.to_bytes(8, "little"))
    send(sock, agent.get_agent_metadata())
    receive(sock)  # the initiator begins
    before = cpu_s()
    receive(sock)  # and is done
    send(sock, json.dumps(cpu_s() - before).encode())
    os._exit(0)


def prepare(agent, op: str, local: int, remote: int, size: int, batch: int,
            working_set: int) -> list:
    """A reusable transfer for each batch that the working set holds."""
    handles = []
    step = max(size * batch, working_set // HANDLES_MAX)
    for start in range(0, working_set - size * batch + 1, step):
        mine = [(local + start + i * size, size, 0) for i in range(batch)]
        other = [(remote + start + i * size, size, 0) for i in range(batch)]
        handles.append(agent.initialize_xfer(
            op, agent.get_xfer_descs(mine, "DRAM"),
            agent.get_xfer_descs(other, "DRAM"), "target"))
    return handles


def run_one(agent, handle) -> None:
    state = agent.transfer(handle)
    while state != "DONE":
        if state == "ERR":
            raise RuntimeError("the transfer failed")
        state = agent.check_xfer_state(handle)


def main() -> None:
    tls, op = sys.argv[1], sys.argv[2].upper()
    size, batch, working_set = (int(a) for a in sys.argv[3:6])
    seconds = float(sys.argv[6])
    os.environ["UCX_TLS"] = tls
    os.environ.setdefault("UCX_LOG_LEVEL", "error")
    mine, other = socket.socketpair()
    if os.fork() == 0:
        mine.close()
        target(other, working_set)
    other.close()
    _area, local = memory(working_set)
    agent = agent_of("initiator", False)
    agent.register_memory([(local, working_set, 0, "")], "DRAM")
    remote = int.from_bytes(receive(mine), "little")
    agent.add_remote_agent(receive(mine))
    handles = prepare(agent, op, local, remote, size, batch, working_set)
    run_one(agent, handles[0])  # connects
    send(mine, b"begin")
    before = cpu_s()
    n, start = 0, time.monotonic()
    while time.monotonic() - start < seconds:
        run_one(agent, handles[n % len(handles)])
        n += 1
    elapsed = time.monotonic() - start
    cpu = cpu_s() - before
    send(mine, b"done")
    cpu += json.loads(receive(mine))
    moved = n * size * batch
    print(json.dumps({"gb_per_s": moved / elapsed / 1e9,
                      "us": elapsed / n * 1e6,
                      "cpu_s_per_gb": cpu / moved * 1e9}))
    sys.stdout.flush()
    os._exit(0)  # the target ends with the socket; its destructors may hang


main()
