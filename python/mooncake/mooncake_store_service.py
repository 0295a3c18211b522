# SPDX-License-Identifier: Apache-2.0
"""A node of a pool with REST: lends memory, and puts and gets for who speaks HTTP.

Listens on loopback unless it is told otherwise (--host, or MOONCAKE_INSECURE=1), and
serves this user, root and those of --allow-uids; with MOONCAKE_INSECURE=1 everybody.
"""
from __future__ import annotations

import argparse
import asyncio
import dataclasses
import ipaddress
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

try:
    from aiohttp import web
except ImportError as error:
    raise ImportError(
        f"mooncake.mooncake_store_service needs aiohttp ({error}): "
        "pip install aiohttp") from None

from mooncake._accept import listen
from mooncake._insecure import ALLOW_UIDS, Members, insecure
from mooncake._rest import (
    KEPT_S, LINGER_S, Hosts, Intake, Objects, answer_refusals, http_logger)
from mooncake._rest_segments import Segments
from mooncake.mooncake_config import MooncakeConfig, read_env, read_file
from mooncake.store import MooncakeDistributedStore

logger = logging.getLogger(__name__)

INVALID_PARAMS = -600  # by trying again nothing becomes right
RETRY_S = 1
STOP_S = 2  # for requests under way, when it is told to end
FIELDS = {field.name for field in dataclasses.fields(MooncakeConfig)}


class MooncakeStoreService:
    """ValueError, OSError: the configuration is wrong, or its file not there."""

    def __init__(self, config_path: str | None = None,
                 cli_config: dict[str, str] | None = None,
                 allow_uids: str | None = None) -> None:
        """cli_config goes before the file, and that before the environment."""
        self.members = Members(allow_uids)
        more = cli_config or {}
        unknown = sorted(set(more) - FIELDS)
        if unknown:
            raise ValueError(f"-D {unknown[0]}: there is no such field, only "
                             f"{', '.join(sorted(FIELDS))}")
        self.config = MooncakeConfig.from_dict(
            {**read_file(config_path), **more} if config_path
            else read_env(more))
        self.store = MooncakeDistributedStore()
        self.port = 0  # once it listens
        self._answering: list[Objects | Segments] = []
        self._runner: web.AppRunner | None = None
        self._intake: Intake | None = None

    async def start_store_service(
            self, max_wait_time: float = 60,
            shutdown_event: asyncio.Event | None = None) -> bool:
        """Join the pool; False: not within max_wait_time, in s, or told to end."""
        began, attempt = time.monotonic(), 0
        ended = shutdown_event or asyncio.Event()
        while not ended.is_set():
            attempt += 1
            elapsed = time.monotonic() - began
            logger.info("Attempting to start store service (attempt %d, elapsed: "
                        "%.1fs/%gs)", attempt, elapsed, max_wait_time)
            code = await asyncio.to_thread(self._set_up)
            if not code:
                logger.info("Store service started successfully on %s",
                            self.config.local_hostname)
                return True
            if code == INVALID_PARAMS:
                logger.error("the pool cannot be joined with %s", self.config)
                return False
            left = max_wait_time - (time.monotonic() - began)
            if left <= 0:
                logger.error("the pool could not be joined within %g s: %d",
                             max_wait_time, code)
                return False
            await _wait(ended, min(RETRY_S, left))
        return False

    def _set_up(self) -> int:
        config = self.config
        return self.store.setup(
            config.local_hostname, config.metadata_server,
            config.global_segment_size, config.local_buffer_size,
            config.protocol, config.device_name or "",
            config.master_server_address, tenant_id=config.tenant_id,
            enable_ssd_offload=config.enable_ssd_offload,
            ssd_offload_path=config.ssd_offload_path,
            enable_client_http_server=config.enable_client_http_server,
            client_http_port=config.client_http_port)

    async def start_http_service(self, port: int = 8080,
                                 host: str | None = None,
                                 allowed: Sequence[str] = ()) -> bool:
        """Listen; False: it cannot, as has been logged. Port 0: any free one.

        On loopback requests have to be for this host: localhost, an address, or
        one of the names allowed. Elsewhere only names that are given limit them.
        """
        hosts = Hosts(allowed)
        host = host or ("0.0.0.0" if insecure() else "127.0.0.1")
        try:
            sockets = listen(host, port)
        except OSError as error:
            logger.error("cannot listen on %s:%d: %s", host, port, error)
            return False
        intake = self._intake = Intake(self.members)
        app = web.Application(middlewares=[answer_refusals, intake.count,
                                           hosts.check])
        self._answering = [Objects(self.store, intake),
                           Segments(self.store, intake)]
        for part in self._answering:
            app.add_routes(part.routes())
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_S,
                                     keepalive_timeout=KEPT_S,
                                     lingering_time=LINGER_S, logger=http_logger)
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
        for part in self._answering:
            await asyncio.to_thread(part.close)
        self._answering = []
        await asyncio.to_thread(self.store.close)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        pass


def pair(text: str) -> tuple[str, str]:
    name, is_there, value = text.partition("=")
    if not is_there or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return name.strip(), value


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
    parser.add_argument("-D", "--define", action="append", type=pair, default=[],
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


async def main(args: list[str] | None = None) -> int:
    """0: ended as asked, 1: it broke, 2: it could not start as told."""
    told = parse_arguments(args)
    try:
        service = MooncakeStoreService(told.config, dict(told.define),
                                       told.allow_uids)
    except (ValueError, OSError, ImportError) as error:
        print(f"mc_store_rest_server: {error}", file=sys.stderr)
        return 2
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    try:
        if (not await service.start_store_service(told.max_wait_time, ended)
                or not await service.start_http_service(
                    told.port, told.host,
                    told.allow_host.replace(",", " ").split())):
            return 0 if ended.is_set() else 1
        logger.info("Mooncake Store Service is running")
        await ended.wait()
    finally:
        await service.stop()
    return 0


def sync_main() -> NoReturn:
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s - %(name)s - %(levelname)s - %(message)s")
    sys.exit(asyncio.run(main()))


if __name__ == "__main__":
    sync_main()
