# SPDX-License-Identifier: Apache-2.0
"""A host with no network but loopback, as containers and CI are."""
from __future__ import annotations

import os
import subprocess
import sys

import pytest

from peer import DEADLINE_S

# Sets the loopback of a new network up, and becomes the program that follows.
BEGIN = """
import fcntl, os, socket, struct, sys
with socket.socket() as one:  # SIOCSIFFLAGS, IFF_UP
    fcntl.ioctl(one, 0x8914, struct.pack("16sh22x", b"lo", 1))
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""

WORK = """
import sys
import vram
from mooncake.engine import TransferEngine
from mooncake.store import MooncakeDistributedStore
from peer import ADDRESS, Peer
from pool import MB, Master, Memory
host, protocol = sys.argv[1:]
engine, memory = TransferEngine(), Memory(5)
assert engine.initialize(host, "P2PHANDSHAKE", protocol, "") == 0
assert not vram.GPU or engine.register_memory(memory.addr, 5) == 0
memory.fill(b"alone")
with Peer() as peer:
    assert engine.transfer_sync_write(peer.name, memory.addr, ADDRESS, 5) == 0
    assert peer.bytes_at(0, 5) == b"alone"
master, stores = Master(), []
owner = master.owner()
for segment in (MB, 0):
    stores.append(MooncakeDistributedStore())
    assert stores[-1].setup(host, "P2PHANDSHAKE", segment, 0, protocol, "",
                            master.address) == 0
for key in ("a", "b", "c", "d"):
    assert stores[1].put(key, b"by " + key.encode()) == 0
    assert stores[0].get(key) == b"by " + key.encode()
for store in stores:
    assert store.close() == 0
"""


def alone(*program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c",
         BEGIN, *program], text=True, capture_output=True, timeout=DEADLINE_S * 2,
        check=False, cwd=os.path.dirname(__file__))


@pytest.mark.parametrize("host, protocol, tcp", [
    ("127.0.0.1", "rdma", ""), ("localhost", "tcp", "1"),
    ("0.0.0.0", "rdma", "1"),  # what vLLM finds where there is no network
])
def test_engines_and_stores_work(monkeypatch, host, protocol, tcp):
    if alone("pass").returncode:
        pytest.skip("no network of our own is allowed here")
    monkeypatch.setenv("MC_FORCE_TCP", tcp)
    done = alone(WORK, host, protocol)
    assert done.returncode == 0, done.stderr
