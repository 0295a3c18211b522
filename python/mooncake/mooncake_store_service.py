# SPDX-License-Identifier: Apache-2.0
"""A node of a pool with REST: lends memory, and puts and gets for who speaks HTTP.

Listens on loopback unless it is told otherwise (--host, or MOONCAKE_INSECURE=1), and
serves this user, root and those of --allow-uids; with MOONCAKE_INSECURE=1 everybody.
"""
from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

try:
    from aiohttp import web
except ImportError as error:
    lacks = (f"mooncake.mooncake_store_service needs aiohttp ({error}): "
             "pip install aiohttp")
    if __name__ == "__main__":
        sys.exit(lacks)
    raise ImportError(lacks) from None

from mooncake._insecure import ALLOW_UIDS, Members, insecure
from mooncake._rest_objects import ObjectHandlers
from mooncake._rest_segments import GRACE_MAX_S, SegmentHandlers, _shm_name_to_path
from mooncake.mooncake_config import (
    MooncakeConfig, _parse_bool, _parse_segment_size, read_env, read_file)
from mooncake.store import MooncakeDistributedStore

if TYPE_CHECKING:
    from mooncake._rest import Intake

__all__ = ["GRACE_MAX_S", "MooncakeStoreService", "main", "parse_arguments",
           "sync_main", "_shm_name_to_path", "web"]

logger = logging.getLogger(__name__)

INVALID_PARAMS = -600  # by trying again nothing becomes right
CALLS_AT_ONCE = 16
RETRY_S = 1
STOP_S = 2  # for requests under way, when it is told to end
SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Texts of -D that the store reads as something else are looked at here before.
CHECKS: dict[str, Callable[[str], object]] = {
    "global_segment_size": _parse_segment_size,
    "local_buffer_size": _parse_segment_size, "enable_ssd_offload": _parse_bool,
    "enable_client_http_server": _parse_bool, "client_http_port": int}


def _load(path: str | None, more: dict[str, Any]) -> MooncakeConfig:
    """The file or the environment may lack what more has."""
    try:
        return (MooncakeConfig.from_file(path) if path
                else MooncakeConfig.load_from_env())
    except ValueError:
        if not more:
            raise
        values = {**read_file(path), **more} if path else read_env(more)
    return MooncakeConfig.from_dict(values)


def _override(config: MooncakeConfig, more: dict[str, Any]) -> None:
    for name, value in more.items():
        if not hasattr(config, name):
            logger.warning("-D %s: there is no such field", name)
            continue
        try:
            CHECKS.get(name, str)(value)
        except ValueError as error:
            raise ValueError(f"-D {name}: Invalid {name}: {value!r}: {error}"
                             ) from None
        setattr(config, name, value)


class MooncakeStoreService(ObjectHandlers, SegmentHandlers):
    """ValueError, OSError: the configuration is wrong, or its file not there.

    Handlers may be called without a server: of a request they use json() and
    match_info.
    """

    _intake: Intake | None = None
    _runner: web.AppRunner | None = None

    def __init__(self, config_path: str | None = None,
                 cli_config: dict[str, str] | None = None,
                 allow_uids: str | None = None) -> None:
        """cli_config goes before the file, and that before the environment."""
        logging.basicConfig(
            level=logging.INFO,
            format="%(asctime)s - %(name)s - %(levelname)s - %(message)s")
        try:
            self.members = Members(allow_uids)
            self.config = _load(config_path, cli_config or {})
            _override(self.config, cli_config or {})
        except Exception as error:
            logger.error("the configuration cannot be used: %s", error)
            raise
        self.store: Any = None  # since start_store_service()
        self.port = 0  # once it listens
        self.current_mode = "prefill"
        self.mounted_segment_ids: list[str] = []
        self.last_mount_info: dict[str, Any] = {}
        self._state_lock = asyncio.Lock()

    async def start_store_service(
            self, max_wait_time: float = 60,
            shutdown_event: asyncio.Event | None = None) -> bool:
        """Join the pool; False: not within max_wait_time, in s, or told to end."""
        began, attempt = time.monotonic(), 0
        while not await _is_told(shutdown_event):
            elapsed = time.monotonic() - began
            if elapsed >= max_wait_time:
                logger.error("the pool could not be joined within %g s",
                             max_wait_time)
                return False
            attempt += 1
            logger.info("Attempting to start store service (attempt %d, elapsed: "
                        "%.1fs/%gs)", attempt, elapsed, max_wait_time)
            code = self._set_up()
            if await _is_told(shutdown_event):
                await self.stop()
                return False
            if code == 0:
                logger.info("Store service started successfully on %s",
                            self.config.local_hostname)
                return True
            if code == INVALID_PARAMS:
                logger.error("the pool cannot be joined with %s", self.config)
                return False
            left = max_wait_time - (time.monotonic() - began)
            await _wait(shutdown_event, max(0, min(RETRY_S, left)))
        return False

    def _set_up(self) -> int | None:
        """What a new store says; None: an exception. Blocks, as nobody else runs."""
        config = self.config
        self.store = None
        try:
            self.store = MooncakeDistributedStore()
            code: int = self.store.setup({
                "local_hostname": config.local_hostname,
                "metadata_server": config.metadata_server,
                "global_segment_size": config.global_segment_size,
                "local_buffer_size": config.local_buffer_size,
                "protocol": config.protocol,
                "rdma_devices": config.device_name,
                "master_server_addr": config.master_server_address,
                "enable_ssd_offload": config.enable_ssd_offload,
                "ssd_offload_path": config.ssd_offload_path,
                "tenant_id": config.tenant_id,
                "enable_client_http_server": getattr(
                    config, "enable_client_http_server", False),
                "client_http_port": getattr(config, "client_http_port", 9300)})
        except Exception as error:  # tried again, as whatever else went wrong
            logger.warning("the pool could not be joined yet: %s", error)
            return None
        if code:
            logger.warning("the pool could not be joined yet: setup returned %s",
                           code)
        return code

    async def start_http_service(self, port: int = 8080,
                                 host: str | None = None,
                                 allowed: Sequence[str] = ()) -> bool:
        """Listen; False: it cannot, as has been logged. Port 0: any free one.

        On loopback requests have to be for this host: localhost, an address, or
        one of the names allowed. Elsewhere only names that are given limit them.
        """
        from mooncake import _rest
        from mooncake._accept import listen
        hosts = _rest.Hosts(allowed)
        host = host or ("0.0.0.0" if insecure() else "127.0.0.1")
        try:
            sockets = listen(host, port)
        except OSError as error:
            logger.error("cannot listen on %s:%d: %s", host, port, error)
            return False
        intake = self._intake = _rest.Intake(self.members)
        self._threads = ThreadPoolExecutor(CALLS_AT_ONCE, "mooncake-rest")
        app = web.Application(middlewares=[_rest.answer_refusals, intake.count,
                                           hosts.check])
        app.add_routes(_rest.Pages(self, intake).routes())
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=STOP_S,
            keepalive_timeout=_rest.KEPT_S, lingering_time=_rest.LINGER_S,
            logger=_rest.http_logger)
        await self._runner.setup()
        assert self._runner.server
        intake.open(sockets, self._runner.server)
        address, self.port = sockets[0].getsockname()[:2]
        hosts.any = not allowed and not ipaddress.ip_address(address).is_loopback
        logger.info("REST API started on port %d", self.port)
        return True

    async def stop(self) -> None:
        """No more requests; those under way have STOP_S; leave the pool."""
        if self._intake:
            self._intake.close()
            self._intake = None
        if self._runner:
            await self._runner.cleanup()
            self._runner = None
        threads, self._threads = self._threads, None
        if threads:
            await asyncio.to_thread(threads.shutdown)
        store, self.store = self.store, None
        if store is None:
            return
        code = await asyncio.to_thread(store.close)
        if code:
            logger.warning("close returned %s", code)


async def _is_told(event: asyncio.Event | None) -> bool:
    """To end, by a signal that has come, too."""
    if event is None:
        return False
    await asyncio.sleep(0)
    return event.is_set()


async def _wait(event: asyncio.Event | None, seconds: float) -> None:
    if event is None:
        await asyncio.sleep(seconds)
        return
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        pass


def _install_shutdown_signal_handlers(loop: asyncio.AbstractEventLoop,
                                      shutdown_event: asyncio.Event) -> None:
    def told(number: int) -> None:
        logger.info("signal %d: ends", number)
        shutdown_event.set()

    def told_elsewhere(number: int, _: object) -> None:
        loop.call_soon_threadsafe(told, number)

    for one in SIGNALS:
        try:
            loop.add_signal_handler(one, told, one)
        except (NotImplementedError, RuntimeError):
            signal.signal(one, told_elsewhere)


def _unblock_shutdown_signals() -> None:
    """Whoever started this may have blocked them until they are handled."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, set(SIGNALS))


def _pairs(defined: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for text in defined or ():
        name, is_there, value = text.partition("=")
        if is_there and name.strip():
            found[name.strip()] = value
        else:
            logger.warning("-D %s: it is not key=value, and has no effect", text)
    return found


def port_number(text: str) -> int:
    if text.isdecimal() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port, 0 to 65535")


def parse_arguments(args: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mc_store_rest_server", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", metavar="FILE",
                        help="of MooncakeConfig; default: MOONCAKE_CONFIG_PATH, "
                        "or MOONCAKE_MASTER and the other variables")
    parser.add_argument("-D", "--define", action="append", default=[],
                        metavar="KEY=VALUE", help="goes before file and environment")
    parser.add_argument("--port", type=port_number, default=8080,
                        help="for HTTP, default 8080; 0: any free one")
    parser.add_argument("--host", help="address to listen on; default 127.0.0.1, "
                        "with MOONCAKE_INSECURE=1 all")
    parser.add_argument("--allow-host", metavar="NAMES",
                        default=os.environ.get("MOONCAKE_ALLOW_HOST", ""),
                        help="requests may be for these names, too (a,b); default: "
                        "those in MOONCAKE_ALLOW_HOST; on loopback others than "
                        "localhost are refused")
    parser.add_argument("--allow-uids", "--allow_uids", metavar="UIDS",
                        help="users of this host to serve beside this one and root "
                        f"(1000,2000-2999 or any); default: {ALLOW_UIDS}")
    parser.add_argument("--max-wait-time", type=float, default=60,
                        help="seconds to wait for the master, default 60")
    return parser.parse_args(args)


async def main() -> None:
    """RuntimeError: it cannot serve; what else the service raises."""
    told = parse_arguments()
    more = [told.allow_uids] if getattr(told, "allow_uids", None) else []
    service = MooncakeStoreService(told.config, _pairs(told.define), *more)
    ended = asyncio.Event()
    _install_shutdown_signal_handlers(asyncio.get_running_loop(), ended)
    _unblock_shutdown_signals()
    try:
        if not await service.start_store_service(
                max_wait_time=told.max_wait_time, shutdown_event=ended):
            if ended.is_set():
                return
            raise RuntimeError("the store service could not be started")
        _unblock_shutdown_signals()
        await asyncio.sleep(0)
        if ended.is_set():
            return
        if not await service.start_http_service(told.port, **_where(told)):
            raise RuntimeError("the HTTP service could not be started")
        logger.info("Mooncake Store Service is running")
        await ended.wait()
    finally:
        await service.stop()


def _where(told: argparse.Namespace) -> dict[str, Any]:
    """What Mooncake's has not, where it is given."""
    names = getattr(told, "allow_host", "").replace(",", " ").split()
    host = getattr(told, "host", None)
    return {**({"host": host} if host else {}),
            **({"allowed": names} if names else {})}


def sync_main() -> None:
    """Exits with 1: it broke, 2: it could not start as told."""
    try:
        asyncio.run(main())
    except (RuntimeError, ValueError, OSError, ImportError) as error:
        print(f"mc_store_rest_server: {error}", file=sys.stderr)
        sys.exit(1 if isinstance(error, RuntimeError) else 2)


if __name__ == "__main__":
    sync_main()
