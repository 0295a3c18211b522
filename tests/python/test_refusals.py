# SPDX-License-Identifier: Apache-2.0
"""What is of the right type and cannot be: a code, and a line that names it."""
from __future__ import annotations

import pytest

from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from pool import MB, lend

FAR = 1 << 64
NOWHERE = 8  # an address


def config(**fields: object) -> ReplicateConfig:
    one = ReplicateConfig()
    for name, value in fields.items():
        setattr(one, name, value)
    return one


def line_of(capfd, call) -> tuple[object, str]:
    """What a call returns, and the one line that it logs.

    Store and engine say a few times a minute which memory they refused; that comes
    first.
    """
    capfd.readouterr()
    result = call()
    lines = [line for line in capfd.readouterr().err.splitlines()
             if " warn  store: " not in line and " warn  engine " not in line]
    assert len(lines) == 1, lines
    return result, lines[0]


@pytest.mark.parametrize("name, arguments, code, words", [
    ("put", ["", b"v"], -600, "key"), ("put", ["x" * 1025, b"v"], -600, "key"),
    ("put", ["k", b""], -600, "sizes"),
    ("put", ["k", b"v", config(replica_num=33)], -600, "config"),
    ("put_batch", [["a", "b"], [b"v"]], -600, "values"),
    ("put_batch", [["a", "b"], [b"v"] * 2, config(group_ids=["g"])], -600,
     "config"),
    ("put_from", ["k", NOWHERE, 8], -600, "buffer_ptrs"),
    ("put_from", ["k", -1, 8], -600, "buffer_ptr"),
    ("put_from", ["k", 0, FAR], -600, "size"),
    ("put_from", ["k", 0, 0], 0, "0 bytes"),
    ("batch_put_from", [["a", "b"], [0], [1, 1]], [-600] * 2, "buffer_ptrs"),
    ("batch_put_from", [["a"], [0], [1, 1]], [-600], "sizes"),
    ("batch_put_from", [["a"], [0], [-1]], [-600], "sizes"),
    ("batch_put_from_multi_buffers", [["a"], [[1, 2]], [[1]]], [-600],
     "all_sizes"),
    ("get_into", ["there", NOWHERE, 8], -600, "buffer_ptrs"),
    ("get_into", ["there", FAR, 8], -600, "buffer_ptr"),
    ("get_into", ["there", 0, -8], -600, "size"),
    ("batch_get_into", [["there"], [0, 0], [8]], [-600], "buffer_ptrs"),
    ("get_size", [""], -600, "key"), ("is_exist", [""], -600, "key"),
    ("remove", ["x" * 1025], -600, "key"),
    ("batch_remove", [["there", ""]], [0, -600], "key 1"),
    ("remove_by_regex", ["("], -600, "regex_pattern"),
    ("register_buffer", [NOWHERE, 4096], -600, "buffer_ptr"),
    ("register_buffer", [-1, 4096], -600, "buffer_ptr"),
    ("register_buffer", [NOWHERE, -1], -600, "size"),
    ("unregister_buffer", [NOWHERE], -600, "buffer_ptr"),
    ("mount_segment", ["a\0b", MB], {"ret": -1, "segment_ids": []}, "path"),
    ("mount_segment", ["/none", -1], {"ret": -1, "segment_ids": []}, "size"),
    ("mount_segment", ["/none", MB, -1], {"ret": -1, "segment_ids": []},
     "offset"),
    ("unmount_segment", [["one"]], -600, "segment_ids"),
    ("alloc_from_mem_pool", [-1], 0, "size"),
    ("batch_put_session_start", [["a"], [0]], [-600], "sizes"),
    ("batch_put_session_start", [["a"], [1], config(replica_num=0)], [-600],
     "config"),
    ("batch_put_session_start", [["a"], []], [-600], "sizes"),
    ("batch_put_session_end", [[""]], [-600], "key 0"),
    ("batch_put_session_revoke", [[""]], [-600], "key 0"),
    ("batch_get_session_start", [["there", ""]], [0, -600], "key 1"),
    ("get_replica_desc", [""], [], "key 0"),
    ("batch_get_replica_desc", [["none", ""]], {}, "key 1"),
    ("create_copy_task", ["", ["a"]], ((0, 0), -600), "key 0"),
    ("create_copy_task", ["there", []], ((0, 0), -600), "targets"),
    ("create_move_task", ["there", "a\0b", "c"], ((0, 0), -600), "source"),
    ("query_task", [(FAR, 0)], (None, -600), "task_id"),
])
def test_it_is_said_what_of_a_call_is_wrong(store, capfd, name, arguments, code,
                                            words):
    assert store.put("there", b"12345678") == 0
    result, line = line_of(capfd, lambda: getattr(store, name)(*arguments))
    assert result == code
    assert name in line and words in line, line


def test_too_little_room_is_said(store, capfd):
    memory = lend(store, 8)
    assert store.put("there", b"12345678") == 0
    result, line = line_of(
        capfd, lambda: store.get_into("there", memory.addr, 7))
    assert result == -600 and "sizes" in line


@pytest.mark.parametrize("arguments, words", [
    ({"local_hostname": "[::1"}, "local_hostname"),
    ({"metadata_server": ""}, "metadata_server"),
    ({"global_segment_size": 1000}, "global_segment_size"),
    ({"global_segment_size": -1}, "global_segment_size"),
    ({"local_buffer_size": 1 << 41}, "local_buffer_size"),
    ({"protocol": "pigeon"}, "protocol"),
    ({"protocol": "rdma", "rdma_devices": "mlx5_77"}, "mlx5_77"),
    ({"master_server_addr": "nowhere"}, "master_server_addr"),
    ({"tenant_id": "_system"}, "tenant_id"),
    ({"client_http_port": 70000}, "client_http_port"),
])
def test_it_is_said_what_of_a_setup_is_wrong(capfd, arguments, words):
    right = {"local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE",
             "global_segment_size": MB, "local_buffer_size": 0,
             "protocol": "tcp", "rdma_devices": "",
             "master_server_addr": "127.0.0.1:1"}
    for one in (lambda s: s.setup(**{**right, **arguments}),
                lambda s: s.setup({**right, **arguments})):
        capfd.readouterr()
        assert one(MooncakeDistributedStore()) == -600
        assert words in capfd.readouterr().err


@pytest.mark.parametrize("arguments, words", [
    ((-1, 0, "x"), "mem_pool_size"), ((0, FAR, "x"), "local_buffer_size"),
    ((0, 0, "a\0b"), "server_address"),
])
def test_it_is_said_what_of_a_dummy_is_wrong(capfd, arguments, words):
    result, line = line_of(
        capfd, lambda: MooncakeDistributedStore().setup_dummy(*arguments))
    assert result == -600 and words in line
