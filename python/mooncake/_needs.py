# SPDX-License-Identifier: Apache-2.0
"""Packages of others that parts of this one need, each imported when it is asked for.

`from mooncake._needs import torch` is that module, or an ImportError whose one line
says what to install.
"""
from __future__ import annotations

import importlib
from typing import Any

PACKAGES = {"aiohttp": "aiohttp", "numpy": "numpy", "torch": "torch", "yaml": "pyyaml"}


def __getattr__(name: str) -> Any:
    if name not in PACKAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"mooncake needs {name} for this ({error}): "
                          f"pip install {PACKAGES[name]}", name=name) from None
    globals()[name] = found
    return found
