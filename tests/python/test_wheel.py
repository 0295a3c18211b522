# SPDX-License-Identifier: Apache-2.0
"""The wheel: built, checked, installed where nothing is, and used."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUTSIDE = ("PYTHONPATH", "LD_LIBRARY_PATH")

# Two processes: this one writes to a peer of the installed package.
TRANSFER = """
import ctypes, mooncake.engine
from peer import ADDRESS, Peer
assert "site-packages" in mooncake.engine.__file__, mooncake.engine.__file__
engine = mooncake.engine.TransferEngine()
assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
text = ctypes.create_string_buffer(b"by wheel")
with Peer() as peer:
    assert engine.transfer_sync_write(
        peer.name, ctypes.addressof(text), ADDRESS, 8) == 0
    assert peer.bytes_at(0, 8) == b"by wheel"
"""

# One puts, one gets.
GET = """
import sys
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "",
                   sys.argv[1]) == 0
print(store.get("wheel").decode())
"""
PUT = f"""
import mooncake.store, re, subprocess, sys
assert "site-packages" in mooncake.store.__file__, mooncake.store.__file__
master = subprocess.Popen(
    [sys.argv[1], "--port", "0", "--metrics_port", "0"],
    stdout=subprocess.PIPE, text=True)
for line in master.stdout:
    found = re.search(r"Master service started on port (\\d+)", line)
    if found:
        break
address = f"127.0.0.1:{{found[1]}}"
store = mooncake.store.MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 1 << 24, 0, "tcp", "",
                   address) == 0
assert store.put("wheel", b"from the pool") == 0
subprocess.run([sys.executable, "-c", {GET!r}, address], check=True)
store.close()
master.kill()
"""

# What an engine says of a directory: nothing of one that answers; https is spoken, too,
# which a server without it does not understand.
JOIN = """
import sys
from mooncake.engine import TransferEngine
engine = TransferEngine()
assert engine.initialize("127.0.0.1:0", sys.argv[1], "tcp", "") == 0
"""
DIRECTORY = f"""
import subprocess, sys
from mooncake.http_metadata_server import KVBootstrapServer, KVPoll
server = KVBootstrapServer(0, "127.0.0.1")
server.run()
assert server.poll() is KVPoll.Success
for kind, path, says in (("http", "/metadata", None), ("https", "/metadata", "SSL"),
                         ("redis", "", "")):
    url = f"{{kind}}://127.0.0.1:{{server.port}}{{path}}"
    done = subprocess.run([sys.executable, "-c", {JOIN!r}, url], check=True,
                          stderr=subprocess.PIPE, text=True)
    assert done.stderr == "" if says is None else (
        f"directory {{url}}: " in done.stderr and says in done.stderr), done.stderr
    assert ".so" not in done.stderr, done.stderr
"""


def run(*command: object, **options) -> str:
    """Without what would let it find this tree; fails with what it said."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in OUTSIDE}
    done = subprocess.run(
        [str(word) for word in command], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_wheel_works_in_a_fresh_environment(tmp_path):
    # Where other tests find it, too.
    where = pathlib.Path(os.environ["TE_WHEEL_DIR"])
    print(run(ROOT / "tools/make-wheel", where / "dist", sys.executable))
    wheel, = (where / "dist").glob("*.whl")
    assert wheel.name.startswith("mooncake_transfer_engine-")
    venv = where / "venv"
    shutil.rmtree(venv, ignore_errors=True)
    run(sys.executable, "-m", "venv", venv)
    run(venv / "bin/python", "-m", "pip", "install", "-q", "--no-index", wheel)
    for name in ("peer.py", "speed.py", "vram.py"):
        shutil.copy(pathlib.Path(__file__).with_name(name), tmp_path)
    run(venv / "bin/python", "-c", TRANSFER, cwd=tmp_path)
    assert "from the pool" in run(
        venv / "bin/python", "-c", PUT, venv / "bin/mooncake_master",
        cwd=tmp_path)
    run(venv / "bin/python", "-c", DIRECTORY, cwd=tmp_path)
    for program in ("mooncake_master", "mooncake_client"):
        assert run(venv / "bin" / program, "--version").strip()
    listed = run(venv / "bin/python", "-m", "pip", "show", "-f",
                 "mooncake-transfer-engine")
    assert "mooncake/engine." in listed and "mooncake/store." in listed


def later() -> list[pathlib.Path]:
    """An interpreter of each later version that is on this host."""
    found = []
    for minor in range(sys.version_info.minor + 1, 20):
        name = f"3.{minor}"
        places = [pathlib.Path(shutil.which(f"python{name}") or "/none"),
                  *pathlib.Path.home().glob(f".pyenv/versions/{name}.*/bin/python")]
        found += [path for path in places if path.exists() and subprocess.run(
            [path, "-c", "import venv, ensurepip"], check=False,
            capture_output=True).returncode == 0][:1]
    return found


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a wheel for 3.10 alone")
@pytest.mark.parametrize("python", later() or [None], ids=str)
def test_later_interpreters_take_the_same_wheel(tmp_path, python):
    if not python:
        pytest.skip("no later interpreter is here")
    wheel, = (pathlib.Path(os.environ["TE_WHEEL_DIR"]) / "dist").glob("*.whl")
    run(python, "-m", "venv", tmp_path)
    run(tmp_path / "bin/python", "-m", "pip", "install", "-q", "--no-index", wheel)
    assert "from the pool" in run(
        tmp_path / "bin/python", "-c", PUT, tmp_path / "bin/mooncake_master")
