# SPDX-License-Identifier: Apache-2.0
"""Registered memory that is used again and again: mooncake.store's classes.

None where that module is not there.
"""
from __future__ import annotations

try:
    from mooncake.store import BufferPool, RegisteredBufferPool
except ImportError:
    BufferPool = RegisteredBufferPool = None  # type: ignore[misc, assignment]

__all__ = ["BufferPool", "RegisteredBufferPool"]
