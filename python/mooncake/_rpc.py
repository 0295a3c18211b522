# SPDX-License-Identifier: Apache-2.0
"""The RPC classes of mooncake.engine: bytes and tensors from process to process.

A message is a head of HEAD, a description in JSON, and the payload; the answer is
one byte, sent when the receiver's callback has returned, or before the connection is
closed: TOLD, the length of a text in two bytes, and the text, which says why.

Peers on other hosts and of other users are refused, as mooncake/_insecure.py has it.
What has come of a message is all the memory that it has, and who stops in the middle
of one is cut off, as mooncake/_traffic.py has it.
"""
from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import select
import socket
import struct
import threading
import time
from collections.abc import Callable

from mooncake._accept import Connection, Listener, listen
from mooncake._insecure import Members
from mooncake._traffic import PIECE, Cut, Flow, Quiet, Traffic

HEAD = struct.Struct("<4sIQ")  # magic, length of the description, of the payload
MAGIC = b"TERP"
DESCRIPTION_MAX = 4096
PAYLOAD_MAX = 1 << 30  # of one message
WAITING_MAX = 2 << 30  # of all messages that a server has in memory
MESSAGE_S = 300  # that one may take to come
OK, REFUSED, TOLD = b"\0", b"\1", b"\2"
TEXT = struct.Struct("<H")
# Mooncake's numbers of element types.
DTYPES = {"float16": 1, "float32": 2, "float64": 3, "int8": 4, "int16": 5,
          "int32": 6, "int64": 7, "uint8": 8, "bool": 9}

_log = logging.getLogger("mooncake.engine")


class ReceivedData:
    """What a data callback gets."""

    def __init__(self, source_address: str, content: bytes) -> None:
        self.source_address = source_address
        self._content = content

    @property
    def data_size(self) -> int:
        return len(self._content)

    def get_bytes(self) -> bytes:
        return self._content

    def get_memory_view(self) -> memoryview:
        return memoryview(self._content)


class ReceivedTensor(ReceivedData):
    """What a tensor callback gets; dtype is Mooncake's number of the type."""

    def __init__(self, source_address: str, content: bytes,
                 shape: list[int], dtype: int) -> None:
        super().__init__(source_address, content)
        self.shape = shape
        self.dtype = dtype

    @property
    def total_bytes(self) -> int:
        return len(self._content)

    def get_data_size(self) -> int:
        return len(self._content)

    def get_data_as_bytes(self) -> bytes:
        return self._content


def split(address: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[v6]:port"; ValueError: it is neither."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not host:port")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if "[" in bare or "]" in bare:
        raise ValueError(f"{address!r} is not host:port")
    return bare, int(port)


def described(what: object) -> tuple[list[int], int] | None:
    """Shape and type of a tensor; None: malformed."""
    if not isinstance(what, dict):
        return None
    shape, dtype = what.get("shape"), what.get("dtype")
    if not isinstance(shape, list) or not isinstance(dtype, int):
        return None
    if not all(isinstance(n, int) and n >= 0 for n in shape):
        return None
    return shape, dtype


class NoMessage(Exception):
    """Why what came is refused."""


def telling(why: str) -> bytes:
    text = why.encode()[:1000]
    return TOLD + TEXT.pack(len(text)) + text


def read_text(connection: socket.socket) -> str:
    """What follows TOLD, after which it closes. OSError: it does not come in time."""
    got, until = b"", time.monotonic() + (connection.gettimeout() or 0)
    while len(got) < TEXT.size or len(got) < TEXT.size + TEXT.unpack(got[:2])[0]:
        connection.settimeout(max(until - time.monotonic(), 0.001))
        piece = connection.recv(PIECE)
        if not piece:
            raise ConnectionError("the connection was closed")
        got += piece
    text = got[TEXT.size:].decode(errors="replace")
    return "".join(one if one.isprintable() else "?" for one in text)


def readable(connection: socket.socket) -> bool:
    """By poll(): select() takes no descriptor of 1024 or more."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _callable(callback: object) -> Callable[..., object]:
    if not callable(callback):
        raise TypeError(f"callback must be callable, not {type(callback)}")
    return callback


def _exchange(connection: socket.socket, head: bytes,
              content: memoryview | bytes) -> tuple[bytes, str]:
    """The answer to a message, and what it means if it is not OK."""
    why = ""
    try:
        connection.sendall(head)
        connection.sendall(content)
    except socket.timeout as error:
        return b"", str(error)
    except OSError as error:
        why = str(error)  # but for what it was told before
    try:
        answer = connection.recv(1)
        if answer == TOLD:
            return answer, read_text(connection)
    except OSError as error:
        return b"", why or str(error)
    if answer:
        return answer, "there the callback failed, or there is none"
    return answer, why or "the connection was closed"


def _failed(target: str, why: object) -> int:
    _log.warning("message to %s: %s", target, why)
    return -1


class Server:
    """Takes messages on a loop of its own; callbacks run in its threads."""

    def __init__(self, owner: RpcInterface, address: str, threads: int) -> None:
        host, port = split(address)
        self.owner = owner
        self.members = Members()
        self.sockets = listen(host, port)
        self.pool = concurrent.futures.ThreadPoolExecutor(threads or 8)
        self.loop = asyncio.new_event_loop()
        self.traffic, self.listener = self.loop.run_until_complete(self.open())
        self.tasks: set[asyncio.Task[None]] = set()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    async def open(self) -> tuple[Traffic, Listener]:
        return (Traffic("messages", WAITING_MAX, MESSAGE_S, _log),
                Listener("RPC", self.sockets, self.begin, _log))

    def run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.end()

    def end(self) -> None:
        """Close all, while nobody runs the loop."""
        self.listener.close()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks))
        self.loop.run_until_complete(asyncio.sleep(0))  # connections close
        self.loop.close()
        self.pool.shutdown(wait=False)
        self.ended.set()

    def stop(self) -> None:
        if not self.thread.ident:
            self.end()
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.ended.wait()

    async def begin(self, accepted: socket.socket,
                    connection: Connection) -> asyncio.Transport:
        refusal = self.members.refusal(accepted)
        reader = asyncio.StreamReader(limit=PIECE)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await self.loop.connect_accepted_socket(
            lambda: protocol, accepted)
        writer = asyncio.StreamWriter(transport, protocol, reader, self.loop)
        if refusal:
            self.refuse(connection, refusal, writer)
            return transport
        task = self.loop.create_task(self.serve(connection, reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return transport

    def refuse(self, connection: Connection, why: str,
               writer: asyncio.StreamWriter) -> None:
        self.listener.refuse(connection, why)
        writer.write(telling(why))
        writer.close()

    async def serve(self, connection: Connection, reader: asyncio.StreamReader,
                    writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                first = await reader.readexactly(1)
                with connection.request(), connection.carry(
                        self.traffic.flow(connection.peer)) as flow:
                    answer = await self.take(reader, first, connection.name, flow)
                writer.write(answer)
                await writer.drain()
        except Cut as cut:  # which has been logged
            writer.write(telling(str(cut)))
        except NoMessage as error:
            self.refuse(connection, str(error), writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # gone
        finally:
            writer.close()

    async def take(self, reader: asyncio.StreamReader, first: bytes, source: str,
                   flow: Flow) -> bytes:
        head = first + await reader.readexactly(HEAD.size - 1)
        magic, words, length = HEAD.unpack(head)
        if magic != MAGIC:
            raise NoMessage("what it sends is no message of mooncake.engine's RPC")
        if words > DESCRIPTION_MAX or length > PAYLOAD_MAX:
            raise NoMessage(f"a message of {length} bytes, described in {words}: "
                            f"{PAYLOAD_MAX} and {DESCRIPTION_MAX} are the most")
        description = await reader.readexactly(words)
        try:
            what = json.loads(description)
        except (ValueError, RecursionError) as error:
            raise NoMessage("what describes a message is no JSON: "
                            f"{type(error).__name__}") from None
        content = await flow.read(length, reader.read)
        flow.pause()
        return await self.loop.run_in_executor(
            self.pool, self.owner.deliver, source, what, content)


class RpcInterface:
    """Sends bytes and tensors to others, and takes what they send."""

    def __init__(self) -> None:
        self._timeout_s = 30
        self._pool_size = 0  # connections that are kept; 0: no client yet
        self._idle: dict[str, list[socket.socket]] = {}
        self._lock = threading.Lock()  # of _idle
        self._server: Server | None = None
        self._failures = Quiet(_log)  # of callbacks, on any of the server's threads
        self._on_data: Callable[[ReceivedData], object] | None = None
        self._on_tensor: Callable[[ReceivedTensor], object] | None = None

    def initialize(self, listen_address: str = "", thread_count: int = 0,
                   timeout_seconds: int = 30, pool_size: int = 100) -> bool:
        """Client, and a server too when there is an address to listen on."""
        return self.initialize_client(pool_size, timeout_seconds) and (
            not listen_address or self.initialize_server(
                listen_address, thread_count, timeout_seconds))

    def initialize_client(self, pool_size: int = 100,
                          timeout_seconds: int = 30) -> bool:
        self._pool_size = max(1, pool_size)
        self._timeout_s = max(1, timeout_seconds)
        return True

    def initialize_server(self, listen_address: str, thread_count: int = 8,
                          timeout_seconds: int = 30) -> bool:
        """Listens; messages are taken once the server is started."""
        if self._server:
            return False
        self._timeout_s = max(1, timeout_seconds)
        try:
            self._server = Server(self, listen_address, thread_count)
        except (OSError, ValueError) as error:
            _log.warning("initialize_server: %s: %s", listen_address, error)
            return False
        return True

    def start_server(self) -> bool:
        """Serve until stop_server(), which another thread calls."""
        server = self._server
        if not self.start_server_async():
            return False
        server.ended.wait()
        return True

    def start_server_async(self) -> bool:
        if not self._server or self._server.thread.ident:
            return False
        self._server.thread.start()
        return True

    def stop_server(self) -> None:
        """Stop listening, also of a server that was never started."""
        server, self._server = self._server, None
        if server:
            server.stop()

    def set_data_receive_callback(
            self, callback: Callable[[ReceivedData], object]) -> None:
        self._on_data = _callable(callback)

    def set_tensor_receive_callback(
            self, callback: Callable[[ReceivedTensor], object]) -> None:
        self._on_tensor = _callable(callback)

    def send_data(self, target_address: str, data: bytes) -> int:
        """0 when the other's callback has returned, else -1."""
        return self._send(target_address, {}, memoryview(data).cast("B"))

    def send_tensor(self, target_address: str, tensor: object) -> int:
        """A tensor of torch or an array of numpy. 0 or -1."""
        dtype = DTYPES.get(str(tensor.dtype).rpartition(".")[2])
        if dtype is None:
            raise TypeError(f"tensor: no type of elements is {tensor.dtype}")
        if hasattr(tensor, "detach"):  # of torch
            tensor = tensor.detach().cpu().contiguous().numpy()
        what = {"shape": list(tensor.shape), "dtype": dtype}
        return self._send(target_address, what, tensor.tobytes())

    async def send_data_async(self, target_address: str, data: bytes,
                              loop: asyncio.AbstractEventLoop) -> int:
        return await loop.run_in_executor(
            None, self.send_data, target_address, data)

    async def send_tensor_async(self, target_address: str, tensor: object,
                                loop: asyncio.AbstractEventLoop) -> int:
        return await loop.run_in_executor(
            None, self.send_tensor, target_address, tensor)

    def deliver(self, source: str, what: object, content: bytes) -> bytes:
        """What the server answers to a message."""
        tensor = described(what)
        callback = self._on_tensor if tensor else self._on_data
        if not callback:
            return REFUSED
        try:
            callback(ReceivedTensor(source, content, *tensor) if tensor
                     else ReceivedData(source, content))
        except Exception:  # whatever the user's code raises
            self._failures.warn(f"{source}: a callback has failed", exc_info=True)
            return REFUSED
        return OK

    def _connection(self, target: str) -> socket.socket:
        with self._lock:
            idle = self._idle.get(target, [])
            while idle:
                connection = idle.pop()
                # Readable without having been asked: the other has closed it.
                if not readable(connection):
                    return connection
                connection.close()
        connection = socket.create_connection(split(target), self._timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _send(self, target: str, what: dict, content: memoryview | bytes) -> int:
        if not isinstance(target, str):
            raise TypeError(f"target_address must be a str, not {type(target)}")
        if not self._pool_size:
            return _failed(target, "initialize_client() was not called")
        if len(content) > PAYLOAD_MAX:
            return _failed(target, f"{len(content)} bytes in one message: "
                           f"{PAYLOAD_MAX} are the most")
        words = json.dumps(what).encode()
        try:
            connection = self._connection(target)
        except (OSError, ValueError) as error:
            return _failed(target, error)
        answer, why = _exchange(
            connection, HEAD.pack(MAGIC, len(words), len(content)) + words, content)
        self._give_back(target, connection, answer in (OK, REFUSED))
        return 0 if answer == OK else _failed(target, why)

    def _give_back(self, target: str, connection: socket.socket,
                   works: bool) -> None:
        with self._lock:
            idle = self._idle.setdefault(target, [])
            if works and len(idle) < self._pool_size:
                idle.append(connection)
                return
        connection.close()


CoroRPCInterface = RpcInterface


def create_rpc_client(local_rank: int = 0, world_size: int = 1) -> RpcInterface:
    del local_rank, world_size  # every client is the same
    client = RpcInterface()
    client.initialize_client()
    return client


def create_rpc_server(local_rank: int = 0, world_size: int = 1) -> RpcInterface:
    """Listens on port 8080; RuntimeError: it is taken."""
    del local_rank, world_size
    server = RpcInterface()
    if not server.initialize("0.0.0.0:8080"):
        raise RuntimeError("port 8080 is taken")
    return server
