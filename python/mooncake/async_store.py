# SPDX-License-Identifier: Apache-2.0
"""The store for programs on asyncio: each method as async_<method> as well.

A call runs on a thread of an executor; the loop goes on meanwhile. A call that
is given up, as by asyncio.wait_for(), still ends by itself, and uses the memory
that it was given until then.
"""
from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mooncake.store import MooncakeDistributedStore


class MooncakeDistributedStoreAsync(MooncakeDistributedStore):
    """max_workers: threads for calls under way at once; None: as asyncio has."""

    def __init__(self, max_workers: int | None = None) -> None:
        super().__init__()
        self._executor = ThreadPoolExecutor(max_workers, "mooncake-store")


def _in_thread(name: str) -> Callable[..., Awaitable[Any]]:
    method = getattr(MooncakeDistributedStore, name)

    async def call(self: MooncakeDistributedStoreAsync, *args: Any,
                   **keywords: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, functools.partial(method, self, *args, **keywords))

    call.__name__ = f"async_{name}"
    call.__doc__ = method.__doc__
    return call


for _name in dir(MooncakeDistributedStore):
    if not _name.startswith("_"):
        setattr(MooncakeDistributedStoreAsync, f"async_{_name}",
                _in_thread(_name))
