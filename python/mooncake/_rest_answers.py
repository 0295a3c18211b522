# SPDX-License-Identifier: Apache-2.0
"""Answers of the REST service: JSON, whatever happens in what gives them.

A handler takes a request, of which it needs json() and match_info alone, so that
programs may call it with one of their own.
"""
from __future__ import annotations

import asyncio
import functools
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from aiohttp import web

logger = logging.getLogger("mooncake.mooncake_store_service")


class Refusal(Exception):
    """The answer to a request that was not done, and why."""

    def __init__(self, status: int, error: str, **more: Any) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, **more}


def reply(body: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(status=status, text=json.dumps(body),
                        content_type="application/json")


def success(**more: Any) -> web.Response:
    return reply({"status": "success", **more})


async def read_object(request: Any) -> dict[str, Any]:
    """What the body says."""
    try:
        data = await request.json()
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "Malformed JSON body", detail=str(error)) from None
    if not isinstance(data, dict):
        raise Refusal(400, "Malformed JSON body", detail="should be an object")
    return data


@contextmanager
def timed(operation: str) -> Iterator[None]:
    """How long it took is a line of the log."""
    began = time.perf_counter()
    try:
        yield
    finally:
        logger.info("%s took %.2f ms", operation,
                    (time.perf_counter() - began) * 1000)


def handles(operation: str) -> Callable[[Callable[..., Awaitable[web.Response]]],
                                        Callable[..., Awaitable[web.Response]]]:
    """Of a method that answers a request: refusals and errors are answers, too."""
    def decorate(method: Callable[..., Awaitable[web.Response]]
                 ) -> Callable[..., Awaitable[web.Response]]:
        @functools.wraps(method)
        async def handle(self: Any, request: Any) -> web.Response:
            try:
                with timed(operation):
                    return await method(self, request)
            except Refusal as refusal:
                return reply(refusal.body, refusal.status)
            except Exception as error:  # whatever a store raises
                logger.exception("%s", operation)
                return reply({"error": str(error)}, 500)
        return handle
    return decorate


class Handlers:
    """Base of what answers: calls of the store are on threads."""

    store: Any
    _threads: Executor | None = None  # the loop's own

    async def _call(self, method: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, method, *args)
