# SPDX-License-Identifier: Apache-2.0
"""mooncake.mooncake_config: sizes, files, the environment, and what is wrong there."""
from __future__ import annotations

import json
import os

import pytest
from mooncake import mooncake_config
from mooncake.mooncake_config import (
    MooncakeConfig, _parse_bool, _parse_segment_size)

WHOLE = {"local_hostname": "here", "metadata_server": "P2PHANDSHAKE",
         "master_server_address": "there:50051"}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Of nobody else."""
    for name in list(os.environ):
        if name.startswith("MOONCAKE_"):
            monkeypatch.delenv(name)


def load(tmp_path, **more: object) -> MooncakeConfig:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**WHOLE, **more}))
    return MooncakeConfig.from_file(str(path))


def test_a_file_of_three_keys_is_enough(tmp_path):
    assert load(tmp_path) == MooncakeConfig(
        "here", "P2PHANDSHAKE", 3355443200, 1 << 30, "tcp", "", "there:50051",
        False, "", "default", False, 9300)


def test_keys_of_others_are_not_looked_at(tmp_path):
    assert load(tmp_path, mode="embedded", tenant_id=5).tenant_id == "5"
    assert load(tmp_path, tenant_id=None).tenant_id == "default"


@pytest.mark.parametrize("text, size", [
    (0, 0), (5, 5), (1.5, 1), ("5", 5), ("5b", 5), ("1k", 1024), ("10 kb", 10240),
    (" 7 M ", 7 << 20), ("1.5GB", 3 << 29), ("4 gb", 4 << 30), ("2t", 2 << 40),
    ("1TB", 1 << 40), ("1e3", 1000), (str(2**63 - 1), 2**63 - 1),
])
def test_sizes(tmp_path, text, size):
    assert load(tmp_path, global_segment_size=text).global_segment_size == size


@pytest.mark.parametrize("text", [
    "", "gb", "x", "4pb", "1 2", "-1", -1, "-1gb", "nan", "inf", "1e308 tb", True,
    None, [1], "0x10", "4gbb", "4kkb",
])
@pytest.mark.parametrize("field", ["global_segment_size", "local_buffer_size"])
def test_what_is_no_size_is_refused_by_its_name(tmp_path, field, text):
    with pytest.raises(ValueError, match=field):
        load(tmp_path, **{field: text})


@pytest.mark.parametrize("field, value, words", [
    ("local_hostname", "", "must be a non-empty string, got ''."),
    ("metadata_server", 5, "must be a non-empty string, got 5."),
    ("master_server_address", None, "must be a non-empty string, got None."),
    ("protocol", "", "Invalid protocol: ''. Protocol must be a non-empty"),
    ("device_name", 5, "must be a string"),
    ("protocol", 5, "Invalid protocol: 5"),
    ("enable_ssd_offload", "maybe", "Invalid boolean value: 'maybe'"),
    ("client_http_port", "x", "Invalid client_http_port: 'x'"),
    ("client_http_port", 65536, "Invalid client_http_port: 65536"),
    ("client_http_port", None, "Invalid client_http_port: None"),
])
def test_what_is_wrong_is_named(tmp_path, field, value, words):
    with pytest.raises(ValueError) as caught:
        load(tmp_path, **{field: value})
    assert words in str(caught.value)


@pytest.mark.parametrize("value, size", [
    (7, 7), (-7, -7), (True, 1), (1.9, 1), ("1.5", 1), ("1e9", 10**9),
    ("3 gb", 3 << 30), ("1.5kb", 1536), ("4096b", 4096), (" 2T\t", 2 << 40), ("-1", -1)])
def test_segment_sizes(value, size):
    assert _parse_segment_size(value) == size


@pytest.mark.parametrize("text, words", [
    ("", "Invalid segment size.*empty"), (" ", "Invalid segment size.*empty"),
    ("gb", "Invalid segment size.*missing number"), ("abc", "abc"), ("4pb", "4pb"),
    ("inf", "inf"), ("nan", "nan")])
def test_what_is_no_segment_size(text, words):
    with pytest.raises(ValueError, match=words):
        _parse_segment_size(text)


@pytest.mark.parametrize("values, truth", [
    ((True, 1, 2, 0.5, "true", " YES ", "On", "1", "enable"), True),
    ((False, 0, 0.0, None, "", " ", "False", "no", "off", "0", "Disable"), False)])
def test_switches(values, truth):
    assert [_parse_bool(value) for value in values] == [truth] * len(values)
    with pytest.raises(ValueError, match="Invalid boolean value"):
        _parse_bool("perhaps")


def test_who_makes_one_himself_is_told_what_is_wrong(caplog):
    good = ["h", "meta", 0, 0, "  RDMA ", "", "m:1"]
    config = MooncakeConfig(*good)
    assert config.protocol == "rdma" and not caplog.records
    assert list(vars(config)) == [
        "local_hostname", "metadata_server", "global_segment_size",
        "local_buffer_size", "protocol", "device_name", "master_server_address",
        "enable_ssd_offload", "ssd_offload_path", "tenant_id",
        "enable_client_http_server", "client_http_port"]
    # What comes first in this list is said first.
    for i, value, words in (
            (4, " ", "Invalid protocol"), (4, None, "Invalid protocol"),
            (2, -1, "Invalid global_segment_size"),
            (3, -1, "Invalid local_buffer_size"),
            (0, " ", "local_hostname.*must be a non-empty string"),
            (1, None, "metadata_server.*must be a non-empty string"),
            (6, "", "master_server_address.*must be a non-empty string")):
        wrong = [*good[:i], value, *good[i + 1:]]
        if i in (2, 3):
            wrong[0] = ""
        with pytest.raises(ValueError, match=words):
            MooncakeConfig(*wrong)
    assert MooncakeConfig(*good[:4], "Foo", *good[5:]).protocol == "foo"
    assert "Unrecognised protocol" in caplog.text
    assert caplog.records[0].name == mooncake_config.logger.name == (
        "mooncake.mooncake_config")


def test_what_is_null_in_a_file_is_not_given(tmp_path):
    assert load(tmp_path, client_http_port=9301.0).client_http_port == 9301
    config = load(tmp_path, ssd_offload_path=None, enable_ssd_offload=None,
                  client_http_port="9301")
    assert (config.ssd_offload_path, config.enable_ssd_offload,
            config.client_http_port) == ("", False, 9301)
    assert load(tmp_path, ssd_offload_path=5).ssd_offload_path == "5"


@pytest.mark.parametrize("field", WHOLE)
def test_what_is_missing_is_named(tmp_path, field):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({k: v for k, v in WHOLE.items() if k != field}))
    with pytest.raises(ValueError) as caught:
        MooncakeConfig.from_file(str(path))
    assert str(caught.value) == f"Missing required config field: {field}"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"5", b"\xff\xfe{}"])
def test_a_file_that_is_none_is_named(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=str(path)):
        MooncakeConfig.from_file(str(path))


def test_a_protocol_nobody_knows_is_passed_on_with_a_warning(tmp_path, caplog):
    assert load(tmp_path, protocol="pigeon").protocol == "pigeon"
    assert "Unrecognised protocol 'pigeon'" in caplog.text


def test_yaml_is_known_by_its_name(tmp_path):
    pytest.importorskip("yaml")
    path = tmp_path / "config.yaml"
    path.write_text("\n".join(f"{k}: {v}" for k, v in WHOLE.items()))
    assert MooncakeConfig.from_file(str(path)).local_hostname == "here"
    path.write_text("a: [")
    with pytest.raises(ValueError, match=str(path)):
        MooncakeConfig.from_file(str(path))


def test_the_environment_needs_the_master_only(monkeypatch):
    monkeypatch.setenv("MOONCAKE_MASTER", "there:50051")
    config = MooncakeConfig.load_from_env()
    assert (config.local_hostname, config.metadata_server) == (
        "localhost", "P2PHANDSHAKE")
    monkeypatch.setenv("MOONCAKE_GLOBAL_SEGMENT_SIZE", "4 GB")
    monkeypatch.setenv("MOONCAKE_CLIENT_HTTP_PORT", "9301")
    monkeypatch.setenv("MOONCAKE_OFFLOAD_ENABLED", "1")
    config = MooncakeConfig.load_from_env()
    assert (config.global_segment_size, config.client_http_port,
            config.enable_ssd_offload) == (4 << 30, 9301, True)


@pytest.mark.parametrize("name, text, field, value", [
    ("MOONCAKE_LOCAL_HOSTNAME", "here", "local_hostname", "here"),
    ("LOCAL_HOSTNAME", "here", "local_hostname", "localhost"),
    ("MOONCAKE_TE_META_DATA_SERVER", "http://m", "metadata_server", "http://m"),
    ("MOONCAKE_GLOBAL_SEGMENT_SIZE", "1.5k", "global_segment_size", 1536),
    ("MOONCAKE_LOCAL_BUFFER_SIZE", "4096b", "local_buffer_size", 4096),
    ("MOONCAKE_PROTOCOL", "RDMA", "protocol", "rdma"),
    ("MOONCAKE_DEVICE", "mlx5_0", "device_name", "mlx5_0"),
    ("MOONCAKE_OFFLOAD_ENABLED", "on", "enable_ssd_offload", True),
    ("MOONCAKE_OFFLOAD_FILE_STORAGE_PATH", "/d", "ssd_offload_path", "/d"),
    ("MOONCAKE_TENANT_ID", "t", "tenant_id", "t"),
    ("MOONCAKE_ENABLE_CLIENT_HTTP_SERVER", "yes", "enable_client_http_server", True),
    ("MOONCAKE_CLIENT_HTTP_PORT", "1", "client_http_port", 1)])
def test_each_field_has_a_variable(monkeypatch, name, text, field, value):
    monkeypatch.setenv("MOONCAKE_MASTER", "m:1")
    defaults = vars(MooncakeConfig.load_from_env())
    assert defaults == vars(MooncakeConfig(
        "localhost", "P2PHANDSHAKE", mooncake_config.DEFAULT_GLOBAL_SEGMENT_SIZE,
        mooncake_config.DEFAULT_LOCAL_BUFFER_SIZE, "tcp", "", "m:1"))
    monkeypatch.setenv(name, text)
    assert vars(MooncakeConfig.load_from_env()) == {**defaults, field: value}


@pytest.mark.parametrize("master", [None, ""])
def test_the_environment_without_anything_says_what_it_wants(monkeypatch, master):
    if master is not None:
        monkeypatch.setenv("MOONCAKE_MASTER", master)
    with pytest.raises(ValueError) as caught:
        MooncakeConfig.load_from_env()
    assert str(caught.value) == (
        "Neither the environment variable 'MOONCAKE_CONFIG_PATH' nor "
        "'MOONCAKE_MASTER' is set.")


def test_the_file_of_the_environment_goes_before_its_variables(
        tmp_path, monkeypatch):
    load(tmp_path)
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", str(tmp_path / "config.json"))
    monkeypatch.setenv("MOONCAKE_MASTER", "elsewhere:1")
    assert MooncakeConfig.load_from_env().master_server_address == "there:50051"
    for path in (str(tmp_path / "none.json"), ""):
        monkeypatch.setenv("MOONCAKE_CONFIG_PATH", path)
        with pytest.raises(FileNotFoundError):
            MooncakeConfig.load_from_env()
