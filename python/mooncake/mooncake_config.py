# SPDX-License-Identifier: Apache-2.0
"""Where a pool is and what this process brings to it: a file, or the environment."""
from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)

DEFAULT_GLOBAL_SEGMENT_SIZE = 3355443200  # 3.125 GiB
DEFAULT_LOCAL_BUFFER_SIZE = 1 << 30

# Of every file, and never empty.
_REQUIRED = ("local_hostname", "metadata_server", "master_server_address")
_PROTOCOLS = {
    "ascend", "barex", "cxl", "efa", "hip", "maca", "musa", "nvlink",
    "nvlink_intra", "nvmeof", "rdma", "rpc_only", "sunrise_link", "tcp", "ub",
    "ubshmem",
}
_UNITS = {"kb": 10, "mb": 20, "gb": 30, "tb": 40,
          "k": 10, "m": 20, "g": 30, "t": 40, "b": 0}
_TRUE = {"1", "true", "yes", "on", "enable"}
_FALSE = {"", "0", "false", "no", "off", "disable"}

# Of which variable each field is; what is not in the environment has a default.
_VARIABLES = {
    "local_hostname": "MOONCAKE_LOCAL_HOSTNAME",
    "metadata_server": "MOONCAKE_TE_META_DATA_SERVER",
    "master_server_address": "MOONCAKE_MASTER",
    "global_segment_size": "MOONCAKE_GLOBAL_SEGMENT_SIZE",
    "local_buffer_size": "MOONCAKE_LOCAL_BUFFER_SIZE",
    "protocol": "MOONCAKE_PROTOCOL",
    "device_name": "MOONCAKE_DEVICE",
    "enable_ssd_offload": "MOONCAKE_OFFLOAD_ENABLED",
    "ssd_offload_path": "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH",
    "tenant_id": "MOONCAKE_TENANT_ID",
    "enable_client_http_server": "MOONCAKE_ENABLE_CLIENT_HTTP_SERVER",
    "client_http_port": "MOONCAKE_CLIENT_HTTP_PORT",
}


def _parse_segment_size(value: Any) -> int:
    """Bytes: a number, or a text with b, k, kb, m, mb, g, gb, t, tb behind it."""
    if isinstance(value, int):
        return value
    if not isinstance(value, str):
        return int(value)
    text = value.strip().lower()
    if not text:
        raise ValueError("Invalid segment size: empty string")
    unit = next((one for one in _UNITS if text.endswith(one)), "")
    digits = text.removesuffix(unit).strip()
    if not digits:
        raise ValueError(f"Invalid segment size: missing number before '{unit}'")
    scale = 1 << _UNITS.get(unit, 0)
    try:
        return int(digits) * scale  # exact, whatever its length
    except ValueError:
        pass
    try:
        return int(float(digits) * scale)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"Invalid segment size: {value!r} is no number of bytes, "
                         f"such as 4194304, '512MB' or '4 GB': {error}") from None


def _parse_bool(value: Any) -> bool:
    if value is None or isinstance(value, (int, float)):
        return bool(value)
    text = str(value).strip().lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError(f"Invalid boolean value: {value!r}")


def _size(value: Any, field: str) -> int:
    """Of a file, where true is no size."""
    try:
        if not isinstance(value, bool):
            return _parse_segment_size(value)
        error: Exception = TypeError("it is no number")
    except (TypeError, ValueError, OverflowError) as wrong:
        error = wrong
    raise ValueError(f"Invalid {field}: {value!r}: {error}") from None


def _switch(value: Any, field: str) -> bool:
    try:
        return _parse_bool(value)
    except ValueError as error:
        raise ValueError(f"{error} ({field})") from None


def _port(value: Any, field: str) -> int:
    try:
        port = int(value)
        if 0 <= port <= 65535:
            return port
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"Invalid {field}: {value!r}, should be a port, 0 to 65535")


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"Config field '{field}' must be a string, "
                         f"got {value!r}.")
    return value


def _text_or(default: str, value: Any) -> str:
    """Of a text or a number; null is neither."""
    return default if value is None else str(value)


def _parse_yaml(path: str, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ImportError(f"{path}: YAML needs PyYAML: pip install pyyaml, "
                          "or write JSON") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: {error}") from None


def _read(path: str) -> Any:
    """What is in a file: YAML by its name, else JSON."""
    with open(path, encoding="utf-8") as file:
        try:
            text = file.read()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: {error}") from None
    if path.endswith((".yaml", ".yml")):
        return _parse_yaml(path, text)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise json.JSONDecodeError(f"{path}: {error.msg}", error.doc,
                                   error.pos) from None


@dataclass
class MooncakeConfig:
    """Sizes are in bytes. ValueError: a field is wrong."""

    local_hostname: str
    metadata_server: str
    global_segment_size: int
    local_buffer_size: int
    protocol: str
    device_name: str | None
    master_server_address: str
    enable_ssd_offload: bool = False
    ssd_offload_path: str = ""
    tenant_id: str = "default"
    enable_client_http_server: bool = False
    client_http_port: int = 9300

    def __post_init__(self) -> None:
        if not isinstance(self.protocol, str) or not self.protocol.strip():
            raise ValueError(f"Invalid protocol: {self.protocol!r}. Protocol must be "
                             "a non-empty string, e.g. 'tcp' or 'rdma'.")
        self.protocol = self.protocol.strip().lower()
        if self.protocol not in _PROTOCOLS:
            logger.warning(
                "Unrecognised protocol '%s'; passing it through to the Mooncake "
                "engine unchanged. Known protocols are: %s.", self.protocol,
                ", ".join(sorted(_PROTOCOLS)))
        for field in ("global_segment_size", "local_buffer_size"):
            if getattr(self, field) < 0:
                raise ValueError(f"Invalid {field}: {getattr(self, field)}. Size "
                                 "must be non-negative.")
        for field in _REQUIRED:
            value = getattr(self, field)
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"Config field '{field}' must be a non-empty "
                                 f"string, got {value!r}.")

    @staticmethod
    def from_dict(values: dict[str, Any]) -> MooncakeConfig:
        """ValueError: a field is missing or wrong. Others' keys are not looked at."""
        for field in _REQUIRED:
            if field not in values:
                raise ValueError(f"Missing required config field: {field}")
        device = values.get("device_name", "")
        return MooncakeConfig(
            values["local_hostname"], values["metadata_server"],
            _size(values.get("global_segment_size",
                             DEFAULT_GLOBAL_SEGMENT_SIZE),
                  "global_segment_size"),
            _size(values.get("local_buffer_size", DEFAULT_LOCAL_BUFFER_SIZE),
                  "local_buffer_size"),
            values.get("protocol", "tcp"),
            None if device is None else _text(device, "device_name"),
            values["master_server_address"],
            _switch(values.get("enable_ssd_offload", False),
                    "enable_ssd_offload"),
            _text_or("", values.get("ssd_offload_path")),
            _text_or("default", values.get("tenant_id")),
            _switch(values.get("enable_client_http_server", False),
                    "enable_client_http_server"),
            _port(values.get("client_http_port", 9300), "client_http_port"))

    @staticmethod
    def from_file(file_path: str) -> MooncakeConfig:
        """JSON or YAML; OSError: not readable, ValueError: what is wrong in it."""
        return MooncakeConfig.from_dict(read_file(file_path))

    @staticmethod
    def load_from_env() -> MooncakeConfig:
        """The file of MOONCAKE_CONFIG_PATH, else the variables themselves."""
        return MooncakeConfig.from_dict(read_env())


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The keys of a file as they stand there, for who overrides some of them."""
    values = _read(os.fspath(path))
    if not isinstance(values, dict):
        raise ValueError(f"{path}: should be an object with the fields of a "
                         f"configuration, is a {type(values).__name__}")
    return values


def read_env(more: dict[str, Any] | None = None) -> dict[str, Any]:
    """The same of the environment, or of the file that it names; more goes before."""
    more = more or {}
    path = os.environ.get("MOONCAKE_CONFIG_PATH")
    if path is not None:
        return {**read_file(path), **more}
    if not (os.environ.get("MOONCAKE_MASTER") or "master_server_address" in more):
        raise ValueError("Neither the environment variable "
                         "'MOONCAKE_CONFIG_PATH' nor 'MOONCAKE_MASTER' is set.")
    return {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE",
            **{field: os.environ[name] for field, name in _VARIABLES.items()
               if name in os.environ}, **more}
