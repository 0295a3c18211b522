# SPDX-License-Identifier: Apache-2.0
"""Names of the public module that its callers replace."""
from __future__ import annotations

import importlib
from typing import Any


def replaceable(name: str) -> Any:
    """What mooncake.structured_object_store has under that name by now."""
    return getattr(importlib.import_module("mooncake.structured_object_store"), name)
