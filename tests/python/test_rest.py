# SPDX-License-Identifier: Apache-2.0
"""mooncake.mooncake_store_service: what it answers, and what it makes of garbage."""
from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess

import pytest
from pool import ANOTHER_USER, MB, ask_as, only_root, until
from rest import Service, ask, command

pytest.importorskip("aiohttp")

SUCCESS = {"status": "success"}
MISSING = {"error": "Missing key or value"}


@pytest.fixture(scope="module")
def service(master):
    one = Service(master.address).started()
    yield one
    one.kill()


@pytest.fixture
def shared():
    """A file of 2 MiB in shared memory, by its name."""
    name = f"te-test-rest-{os.getpid()}"
    path = f"/dev/shm/{name}"
    with open(path, "wb") as file:
        file.truncate(2 * MB)
    yield name
    os.unlink(path)


# ---- objects ----

def test_objects_are_put_got_and_removed(service):
    assert service.put("k", "välue") == (200, SUCCESS)
    assert service.put("k", "another") == (200, SUCCESS)  # it stays
    assert service.ask("GET", "get/k") == (200, "välue".encode())
    assert service.ask("GET", "exist/k") == (200, {"exists": True})
    assert service.ask("GET", "exist/none") == (200, {"exists": False})
    assert service.ask("GET", "get/none") == (404, {"error": "Key not found"})
    assert service.put("other", "x") == (200, SUCCESS)
    assert service.ask("DELETE", "remove/other") == (200, SUCCESS)
    failed = {"error": "Remove operation failed"}
    assert service.ask("DELETE", "remove/other") == (500, {**failed, "code": -704})
    assert service.ask("DELETE", "remove/k") == (500, {**failed, "code": -706})
    assert service.put("third", "x") == (200, SUCCESS)
    assert service.ask("DELETE", "remove_all") == (
        200, {"status": "success removed 1 keys"})  # the other one is leased


def test_each_call_is_timed(service):
    assert service.put("k", "value")[0] == 200
    service.line(r"PUT took \d+\.\d\d ms")
    for path, operation in (("get/k", "GET"), ("get/none", "GET"),
                            ("exist/k", "EXIST")):
        service.ask("GET", path)
        service.line(rf"{operation} took \d+\.\d\d ms")


def test_a_key_may_have_any_text(service):
    for key in ("a/b", "ö ü", "100%", "?x=1#y"):
        assert service.put(key, f"of {key}") == (200, SUCCESS)
        assert service.ask("GET", "get/" + "".join(
            f"%{byte:02X}" for byte in key.encode())) == (
                200, f"of {key}".encode())


def test_a_value_of_some_megabytes_comes_back(service):
    value = "0123456789abcdef" * (4 * MB // 16)
    assert service.put("large", value) == (200, SUCCESS)
    assert service.ask("GET", "get/large") == (200, value.encode())


@pytest.mark.parametrize("body, status, answer", [
    ({"key": "", "value": "x"}, 400, MISSING), ({"key": "k"}, 400, MISSING),
    ({"value": "x"}, 400, MISSING), ({}, 400, MISSING),
    ({"key": "k", "value": ""}, 500, None), ({"key": 5, "value": "x"}, 400, None),
    ({"key": "k", "value": 5}, 400, None), ({"key": "k", "value": ["x"]}, 400, None),
    ({"key": "k", "value": "\ud800"}, 400, None), ([], 400, None), (5, 400, None),
    ({"key": "k" * 2000, "value": "x"}, 500,
     {"error": "PUT operation failed", "code": -600}),
])
def test_what_cannot_be_put_is_refused(service, body, status, answer):
    code, said = service.ask("PUT", "put", body)
    assert code == status and said["error"]
    assert answer is None or said == answer


# ---- garbage ----

@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100000, b"\0" * 100])
def test_a_body_that_is_no_json_is_refused(service, body):
    for method, path in (("PUT", "put"), ("POST", "mount"), ("POST", "unmount")):
        code, said = ask(f"http://127.0.0.1:{service.port}/api/{path}", method, body)
        assert (code, json.loads(said)["error"]) == (400, "Malformed JSON body")


def raw(service: Service, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(sent)
        return connection.recv(4096)


def test_a_body_that_is_too_long_is_refused_before_it_comes(service):
    said = raw(service, b"PUT /api/put HTTP/1.1\r\nHost: localhost\r\n"
                        b"Content-Length: 104857601\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 413 ")


def test_what_is_no_http_harms_nobody(service):
    raw(service, b"\0\1\2 what is this\r\n\r\n")
    raw(service, b"PUT /api/put HTTP/1.1\r\nContent-Length: -1\r\n\r\n")
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(b"PUT /api/put HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
    assert service.ask("GET", "exist/none") == (200, {"exists": False})
    assert service.process.poll() is None


def test_a_page_of_another_site_may_look_but_not_change(service):
    assert service.put("page", "x") == (200, SUCCESS)
    origin = {"Origin": "http://elsewhere"}
    assert service.ask("PUT", "put", {"key": "k", "value": "x"}, **origin)[0] == 403
    assert service.ask("DELETE", "remove_all", **origin)[0] == 403
    assert service.ask("GET", "get/page", **origin) == (200, b"x")


def test_a_name_that_points_here_is_not_this_host(service):
    assert service.put("named", "x") == (200, SUCCESS)
    for name in ("evil.example", f"evil.example:{service.port}", "", "localhost.x",
                 "127.0.0.1.evil.example", "[::1.x]", "[::1]evil.example",
                 "[::1]evil.example:80", "[::1", "[localhost]", "localhost:x",
                 "127.0.0.1:80.evil.example", "a" * 5000):
        code, answer = service.ask("GET", "get/named", Host=name)
        assert code == 403 and "--allow-host" in answer["error"], name
        assert service.ask("DELETE", "remove_all", Host=name)[0] == 403
    for name in ("localhost", "LOCALHOST.:80", socket.gethostname(), "127.0.0.1", "[::1]:8080", "10.1.2.3",
                 f"localhost:{service.port}"):
        assert service.ask("GET", "get/named", Host=name) == (200, b"x")


@pytest.mark.parametrize("flags, codes", [
    ([], {"one.example": 200, "two:8080": 200, "Two.": 200, "one": 403, "": 403,
          "two..": 403, "proxy.example": 403}),
    (["--allow-host=proxy.example:80, Other.,:1"],
     {"proxy.example": 200, "proxy.example:81": 200, "OTHER": 200, "third": 403,
      "": 403, ":1": 403, "two": 403}),  # not the environment's
])
def test_names_that_are_told_are_this_host(master, monkeypatch, flags, codes):
    monkeypatch.setenv("MOONCAKE_ALLOW_HOST", "one.example,two")
    service = Service(master.address, *flags).started()
    for name, code in {**codes, "localhost": 200}.items():
        assert service.ask("GET", "exist/k", Host=name)[0] == code, name
    service.kill()


def test_who_comes_from_elsewhere_may_use_any_name(master):
    service = Service(master.address, "--host", "0.0.0.0").started()
    assert service.ask("GET", "exist/k", Host="node7.cluster")[0] == 200
    service.kill()


def test_it_listens_on_loopback_alone(service):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", service.port))


REQUESTS = [("GET", "get/owned"), ("GET", "exist/owned"), ("DELETE", "remove/owned"),
            ("DELETE", "remove_all"), ("POST", "mount"), ("POST", "reconfigure"),
            ("PUT", "put")]


def ask_as_another(service, method: str, path: str) -> bytes:
    return ask_as(ANOTHER_USER, service.port,
                  f"{method} /api/{path} HTTP/1.1\r\nHost: localhost\r\n"
                  "Connection: close\r\nContent-Length: 0\r\n\r\n".encode())


@only_root
def test_another_user_reads_and_changes_nothing(service):
    assert service.put("owned", "secret") == (200, SUCCESS)
    for method, path in REQUESTS:
        said = ask_as_another(service, method, path)
        assert said.startswith(b"HTTP/1.1 403 "), (path, said)
        assert str(ANOTHER_USER).encode() in said and b"allow_uids" in said
    assert service.ask("GET", "get/owned") == (200, b"secret")


@only_root
@pytest.mark.parametrize("flags, name, value", [
    ([f"--allow-uids={ANOTHER_USER}"], "MOONCAKE_ALLOW_UIDS", "5"),
    ([], "MOONCAKE_ALLOW_UIDS", "64000-65000"), ([], "MOONCAKE_INSECURE", "1")])
def test_another_user_is_served_where_it_may(master, monkeypatch, flags, name, value):
    monkeypatch.setenv(name, value)
    service = Service(master.address, *flags).started()
    assert service.put("shared", "x") == (200, SUCCESS)
    assert ask_as_another(service, "GET", "get/shared").endswith(b"\r\n\r\nx")
    service.kill()


# ---- segments ----

def test_memory_is_lent_and_taken_back(service):
    code, said = service.ask("POST", "mount", {"size": MB})
    assert (code, said["status"], said["allocated_size"]) == (200, "success", MB)
    ids = said["segment_ids"]
    assert service.ask("POST", "unmount", {"segment_ids": ids}) == (200, SUCCESS)
    assert service.ask("POST", "unmount", {"segment_ids": ids[0]}) == (
        500, {"error": "Unmount and free failed, ret=-101", "code": -101})


def test_shared_memory_is_lent_and_taken_back(service, shared):
    code, said = service.ask("POST", "mount_shm",
                             {"name": shared, "size": MB, "offset": MB})
    assert (code, said["status"]) == (200, "success")
    ids = said["segment_ids"]
    assert service.ask("POST", "unmount_shm", {"segment_ids": ids}) == (200, SUCCESS)
    assert service.ask("POST", "unmount_shm", {"segment_ids": ids[0]}) == (
        500, {"error": "Unmount failed for one or more segments",
              "failed_segment_ids": ids})


def test_a_node_changes_its_role(service, shared):
    lend = {"mode": "decode", "path": f"/dev/shm/{shared}", "size": MB}
    code, said = service.ask("POST", "reconfigure", lend)
    assert (code, said["mode"]) == (200, "decode")
    assert service.ask("POST", "reconfigure", {"mode": "prefill"}) == (
        200, {**SUCCESS, "mode": "prefill"})
    assert service.ask("POST", "unmount_shm",
                       {"segment_ids": said["segment_ids"]})[0] == 500
    assert service.ask("POST", "reconfigure", lend)[0] == 200  # it is free again
    assert service.ask("POST", "reconfigure", {"mode": "prefill"})[0] == 200


def capacity(master) -> int:
    said = ask(f"http://{master.admin}/metrics")[1].decode()
    return int(float(re.search(r"^master_total_capacity_bytes (\S+)$", said, re.M)[1]))


def test_a_node_that_decodes_again_gives_back_what_it_lent(service, shared, master):
    lend = {"mode": "decode", "path": f"/dev/shm/{shared}", "size": MB}
    before = capacity(master)
    first = service.ask("POST", "reconfigure", lend)[1]["segment_ids"]
    until(lambda: capacity(master) == before + MB)
    code, said = service.ask("POST", "reconfigure", {**lend, "offset": MB})
    assert (code, said["mode"]) == (200, "decode")
    until(lambda: capacity(master) == before + MB)
    assert service.ask("POST", "unmount_shm", {
        "segment_ids": first})[0] == 500  # it has gone
    nowhere = {**lend, "path": "/dev/shm/te-test-rest-nowhere"}
    code, kept = service.ask("POST", "reconfigure", nowhere)
    assert (code, kept["mode"]) == (500, "decode")
    assert "keeping previous decode segments" in kept["error"]
    assert service.ask("POST", "unmount_shm", {
        "segment_ids": said["segment_ids"]}) == (200, SUCCESS)
    code, kept = service.ask("POST", "reconfigure", nowhere)
    assert (code, kept["mode"]) == (500, "prefill")
    assert "rolled back to prefill" in kept["error"]
    assert service.ask("POST", "reconfigure", {"mode": "prefill"})[0] == 200


@pytest.mark.parametrize("path, body, error", [
    ("mount", {}, "Invalid size, must be a positive integer"),
    ("mount", {"size": 0}, "Invalid size, must be a positive integer"),
    ("mount", {"size": "1MB"}, "Invalid size, must be a positive integer"),
    ("mount", {"size": True}, "Invalid size, must be a positive integer"),
    ("mount", {"size": MB, "protocol": 5}, "Invalid protocol, must be a text"),
    ("mount_shm", {"size": MB}, "Missing or invalid name or size"),
    ("mount_shm", {"name": "x"}, "Missing or invalid name or size"),
    ("mount_shm", {"name": "", "size": MB}, "Missing or invalid name or size"),
    ("mount_shm", {"name": "a\0b", "size": MB}, "Missing or invalid name or size"),
    ("mount_shm", {"name": "\ud800", "size": MB},
     "Missing or invalid name or size"),
    ("mount_shm", {"name": "../../etc/passwd", "size": MB},
     "Missing or invalid name or size"),
    ("mount_shm", {"name": "x", "size": MB, "offset": -1},
     "Invalid offset, must be a non-negative integer"),
    ("unmount", {}, "Missing segment_ids"),
    ("unmount", {"segment_ids": []}, "Missing segment_ids"),
    ("unmount", {"segment_ids": [5]},
     "Invalid segment_ids, must be a text or a list of texts"),
    ("unmount_shm", {"segment_ids": "1-2", "grace_period_seconds": 3601},
     "Invalid grace_period_seconds, must be a non-negative integer no greater "
     "than 3600"),
    ("unmount_local_disk", {"grace_period_seconds": "x"},
     "Invalid grace_period_seconds, must be a non-negative integer no greater "
     "than 3600"),
    ("reconfigure", {}, "Invalid mode. Use 'decode' or 'prefill'"),
    ("reconfigure", {"mode": "decode", "path": "/etc/passwd", "size": MB},
     "Missing path or size for decode mode"),
    ("reconfigure", {"mode": "decode", "path": "/dev/shm/x"},
     "Missing path or size for decode mode"),
])
def test_a_wrong_segment_is_refused(service, path, body, error):
    assert service.ask("POST", path, body) == (400, {"error": error})


def test_there_is_no_disk_to_unmount(service):
    code, said = service.ask("POST", "unmount_local_disk", {})
    assert (code, said["code"]) == (500, -101)


# ---- starting and ending ----

def started(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    others = {name: value for name, value in os.environ.items()
              if not name.startswith("MOONCAKE_")}
    return subprocess.run(command(*args), env={**others, **environment},
                          text=True, capture_output=True, check=False)


@pytest.mark.parametrize("args, words", [
    ([], "nor 'MOONCAKE_MASTER' is set"),
    (["--config", "/nowhere/config.json"], "/nowhere/config.json"),
    (["-D", "master_server_address=m:1", "-D", "global_segment_size=x"],
     "Invalid global_segment_size: 'x'"),
    (["--port", "65536"], "'65536' is no port"),
    (["--allow-uids", "me", "-D", "master_server_address=m:1"],
     "'me' is not a list of user ids"),
])
def test_what_is_wrong_at_the_start_is_said_in_a_line(args, words):
    done = started(*args)
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]


def test_a_port_that_is_taken_is_said(service, master):
    done = started("--port", str(service.port), "-D", "global_segment_size=0",
                   MOONCAKE_MASTER=master.address)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{service.port}" in done.stderr


def test_it_waits_for_the_master_as_long_as_it_is_told():
    done = started("--port", "0", "--max-wait-time", "0",
                   MOONCAKE_MASTER="127.0.0.1:1")
    assert done.returncode == 1
    assert "the pool could not be joined within 0 s" in done.stderr


def test_who_sends_slowly_does_not_keep_it_from_ending(master):
    service = Service(master.address).started()
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(b"PUT /api/put HTTP/1.1\r\nHost: localhost\r\nExpect: "
                           b"100-continue\r\nContent-Length: 9\r\n\r\n")
        assert b" 100 " in connection.recv(4096)  # it waits for the body
        service.process.terminate()
        assert service.process.wait() == 0
        try:  # it was cut off, not told that it was too slow
            assert connection.recv(4096) == b""
        except ConnectionResetError:
            pass
    service.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_told_to(master, number):
    service = Service(master.address).started()
    service.put("k", "x")
    service.process.send_signal(number)
    assert service.process.wait() == 0
    service.kill()
