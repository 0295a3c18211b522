# SPDX-License-Identifier: Apache-2.0
"""As scripts that start the services of a pool: by module, by flags, over HTTP."""
from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from pool import Program

RPC_META = "mooncake/rpc_meta/127.0.0.1:12345"


def ask(url: str, method: str = "GET", body: bytes | None = None,
        **headers: str) -> tuple[int, bytes]:
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


@pytest.fixture(scope="module")
def metadata():
    """Where the metadata server is, without a key."""
    server = Program(sys.executable, "-m", "mooncake.http_metadata_server",
                     "--host", "127.0.0.1", "--port", "0", "--log-level", "INFO")
    port = server.line(r"started on port (\d+)")[1]
    yield f"http://127.0.0.1:{port}/metadata"
    server.kill()


def test_metadata_needs_a_key(metadata):
    for method, body in (("GET", None), ("PUT", b"{}"), ("DELETE", None)):
        assert ask(metadata, method, body)[0] == 400
    assert ask(metadata + "?key=")[0] == 400


def test_metadata_is_put_got_and_deleted(metadata):
    url = metadata + "?key=mooncake%2Fram%2Fhost"
    assert ask(url) == (404, b"metadata not found")
    assert ask(url, "DELETE")[0] == 404
    assert ask(url, "PUT", b'{"a": 1}') == (200, b"metadata updated")
    assert ask(url) == (200, b'{"a": 1}')
    assert ask(url, "PUT", b'{"a": 2}') == (200, b"metadata updated")
    assert ask(url, "DELETE")[0] == 200
    assert ask(url)[0] == 404


def test_an_rpc_entry_of_a_living_engine_is_not_anothers(metadata):
    url = f"{metadata}?key={RPC_META}&ttl_ms=600000"
    assert ask(url + "&incarnation=a", "PUT", b"1")[0] == 200
    assert ask(url + "&incarnation=a", "PUT", b"1") == (200,
                                                        b"metadata unchanged")
    assert ask(url + "&incarnation=b", "PUT", b"2") == (
        400, b"Duplicate rpc_meta key not allowed")
    assert ask(f"{metadata}?key={RPC_META}")[1] == b"1"


def test_a_metadata_server_in_this_program():
    from mooncake.http_metadata_server import KVBootstrapServer, KVPoll
    server = KVBootstrapServer(0, "127.0.0.1")
    assert server.poll() is KVPoll.Failed
    server.run()
    server.run()  # it does already
    url = f"http://127.0.0.1:{server.port}/health"
    assert ask(url)[0] == 200
    with pytest.raises(OSError, match="does not serve"):
        KVBootstrapServer(server.port, "127.0.0.1").run()
    server.close()
    server.close()
    with pytest.raises(urllib.error.URLError):
        ask(url)


def dump(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mooncake.transfer_engine_topology_dump", *args],
        text=True, capture_output=True, check=False)


def test_the_topology_is_printed(tmp_path):
    shown = dump()
    assert shown.returncode == 0
    words, _, matrix = shown.stdout.partition(": ")
    assert words == "Local topology [te/discover]"
    assert "cpu:0" in json.loads(matrix)
    custom = tmp_path / "custom.json"
    custom.write_text('{"cpu:0": [["mlx5_0"], ["mlx5_1"]]}')
    shown = dump("--custom-topo-json", str(custom), "--device-name", "mlx5_1")
    assert shown.stdout.startswith("Local topology [te/custom]: ")
    assert json.loads(shown.stdout.partition(": ")[2]) == {
        "cpu:0": [[], ["mlx5_1"]]}


def test_a_topology_that_is_none_is_refused(tmp_path):
    custom = tmp_path / "custom.json"
    custom.write_text("{")
    shown = dump("--custom-topo-json", str(custom))
    assert (shown.returncode, shown.stdout) == (2, "")
    assert str(custom) in shown.stderr
    assert dump("--backend", "tent").returncode == 2
