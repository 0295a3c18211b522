# SPDX-License-Identifier: Apache-2.0
"""As scripts that start the services of a pool: by module, by flags, over HTTP."""
from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error

import pytest
from pool import MB, Master, Program, until
from rest import Service, ask

RPC_META = "mooncake/rpc_meta/127.0.0.1:12345"


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


# ---- the REST service ----

@pytest.fixture
def pool():
    """A master of this test's own: it is killed and started again."""
    one = Master("--default_kv_lease_ttl", "600000",
                 "--eviction_high_watermark_ratio", "1")
    yield one
    one.kill()


def test_services_may_be_there_before_the_master(pool):
    pool.kill()
    owner = Program("mooncake_client", "--port", "0", "--host", "127.0.0.1",
                    "--master_server_address", pool.address,
                    "--global_segment_size", "16 MB")
    service = Service(pool.address)
    service.line(r"attempt 2,")
    pool.restart()
    owner.line(" serves ")
    service.started()
    assert service.put("k", "x")[0] == 200
    assert service.ask("GET", "get/k") == (200, b"x")
    code, names = ask(f"http://{pool.admin}/get_all_segments")
    assert code == 200 and len(names.split()) == 2
    service.kill()
    owner.kill()


def test_a_service_that_waits_for_the_master_can_be_ended(pool):
    pool.kill()
    service = Service(pool.address)
    service.line(r"attempt 1,")
    service.process.terminate()
    assert service.process.wait() == 0
    service.kill()


def test_objects_are_there_when_the_master_is_back(pool):
    service = Service(pool.address).started()
    for i in range(10):
        assert service.put(f"k{i}", f"value {i}")[0] == 200
    pool.kill()
    assert service.ask("GET", "exist/none")[0] == 500  # nobody can say
    assert service.ask("GET", "get/none")[0] == 500
    assert service.put("late", "x")[0] == 500
    pool.restart()
    for i in range(10):
        until(lambda i=i: service.ask("GET", f"get/k{i}") == (
            200, f"value {i}".encode()))
    until(lambda: service.put("late", "x")[0] == 200)
    service.kill()


def test_a_full_pool_says_so_and_recovers(pool):
    """Full is it while all that is there is being read."""
    service = Service(pool.address).started()
    reader = pool.store(segment=0, local=0)
    for i in range(32):
        code, said = service.put(f"k{i}", "v" * MB)
        if code != 200:
            break
        assert reader.batch_get_session_start([f"k{i}"]) == [0]
    assert (code, said) == (500, {"error": "PUT operation failed", "code": -200})
    assert 0 < i < 32
    assert service.ask("POST", "mount", {"size": 4 * MB})[0] == 200
    assert service.put(f"k{i}", "w" * MB)[0] == 200
    assert service.ask("GET", f"get/k{i}") == (200, b"w" * MB)
    assert reader.close() == 0
    service.kill()


# ---- transfer_engine_bench ----

def bench_command(*args: str) -> list[str]:
    return [sys.executable, "-m", "mooncake.cli_bench",
            "--metadata_server=P2PHANDSHAKE", "--local_server_name=127.0.0.1",
            *args]


def bench(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(bench_command(*args), text=True, capture_output=True,
                          check=False)


@pytest.fixture(scope="module")
def target():
    """The name that it says."""
    one = Program(*bench_command("--mode=target", "--protocol=tcp", "--threads=1",
                                 "--buffer_size=16777216"))
    yield one.line(r"listening on (\S+)")[1]
    one.process.terminate()
    assert one.process.wait() == 0
    one.kill()


@pytest.mark.parametrize("flags, rate", [
    (["--operation=read"], r"\d+\.\d\d GB/s"),
    (["--operation=write", "--report_unit=MiB", "--report_precision=0"],
     r"\d+ MiB/s"),
    (["--protocol=nvlink_intra"], r"\d+\.\d\d GB/s"),
    (["--protocol=rdma", "--report_unit", "Gb", "--report_precision", "3",
      "--logtostderr=1", "-v=1"],
     r"\d+\.\d\d\d Gb/s"),
])
def test_the_last_line_of_the_benchmark_has_the_rate(target, flags, rate):
    done = bench("--mode=initiator", f"--segment_id={target}", "--duration=1",
                 "--threads=2", "--batch_size=16", "--buffer_size=16777216", *flags)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"Test completed: duration [1-9]\d*\.\d\d, "
                        r"batch count [1-9]\d*, throughput " + rate,
                        done.stdout.splitlines()[-1])


@pytest.mark.parametrize("flags, words", [
    ([], "--segment_id"), (["--mode=x"], "initiator|target"),
    (["--operation=x"], "read|write"), (["--gpu_id=all", "--segment_id=x"], "--gpu_id"),
    (["--block_size=0"], "block_size"), (["--threads=0"], "threads"),
    (["--block_size=1g", "--threads=1024"], "more than 1 TiB"),
    (["--report_unit=XB"], "report_unit"), (["--protocol=pigeon"], "rdma|efa|tcp"),
    (["--device_name=mlx5_99", "--segment_id=127.0.0.1:1"], "no such device"),
    (["--metadata_server=ftp://x", "--segment_id=x"], "metadata_server"),
    (["--speed=max"], "speed"),
])
def test_a_benchmark_that_cannot_be_is_refused(flags, words):
    done = bench(*flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_target_that_is_too_small_is_said(target):
    done = bench(f"--segment_id={target}", "--threads=3", "--batch_size=100")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no memory of 19660800 bytes" in done.stderr
