# SPDX-License-Identifier: Apache-2.0
"""Messages on their way into or out of a server, and which of them give way.

A flow is one message: a body that comes, or a value that goes. It has memory for
what has come, not for what its sender announces, and loses it when it stands still:
each has to move at RATE, except for GRACE_S, and to end within whole_s. What all
have together is bounded. When that is used up, the slowest of those gives way that
hold much. Peers of other hosts are told apart by address; on this host, where all
have one address, by connection.

Large flows wait for each other once SMALL of them has come, or an eighth of the room
has the beginnings of others, so that a burst of them is served and not refused: their
announced lengths fit into the room together. Nobody waits for one that is not fast,
and nobody for long. Of those that wait, the one that came first and the one that came
last have turns: neither a crowd that is there nor one that goes on coming keeps
others out. All of it is used on the thread of one loop.
"""
from __future__ import annotations

import asyncio
import collections
import io
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType

GRACE_S = 5  # a flow may stand still so long
RATE = 64 << 10  # bytes/s that it makes otherwise
FAST_S, FAST_RATE = 0.5, 8 << 20  # others wait for who is as fast as that
SMALL = 1 << 20  # up to here a flow waits for nobody
WAIT_S = 5  # then it no longer waits for those who could be faster
LIMIT_S = 60  # then it is refused
TICK_S = 0.1
QUIET_S = 10  # between two lines about the same
PIECE = 256 << 10


class Cut(Exception):
    """Why a flow was ended; too slow, else there was no room for it."""

    def __init__(self, words: str, too_slow: bool) -> None:
        super().__init__(words)
        self.too_slow = too_slow


class Quiet:
    """Log lines that others can cause: one each QUIET_S, and how many there were."""

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger
        self.count = 0  # of all that there was to say
        self._said = 0
        self._next = 0.0

    def warn(self, line: str, exc_info: bool = False) -> None:
        self.count += 1
        now = time.monotonic()
        if now < self._next:
            return
        more = self.count - self._said - 1
        self._said, self._next = self.count, now + QUIET_S
        self.logger.warning("%s%s", line, f" ({more} more before)" if more else "",
                            exc_info=exc_info)


class Flow:
    """A message of a peer's, used in a with statement of the task that it has."""

    def __init__(self, traffic: Traffic, peer: str) -> None:
        now = traffic.loop.time()
        self.traffic = traffic
        self.peer = peer
        self.announced = 0
        self.held = 0  # bytes in memory
        self.entered = False  # others may wait for it
        self.complete = False  # what is there does not depend on the peer
        self.cut: Cut | None = None
        self.task = asyncio.current_task()
        self.moved_at = now
        # When it is too slow, when it has taken too long, until when it is fast.
        self.due, self.end, self.fast = now + GRACE_S, now + traffic.whole_s, now

    def __enter__(self) -> Flow:
        self.traffic.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None, trace: TracebackType | None) -> None:
        self.traffic.remove(self)
        if self.cut and kind is asyncio.CancelledError:
            if self.task and hasattr(self.task, "uncancel"):
                self.task.uncancel()
            raise self.cut from None

    def moved(self, n: int) -> None:
        now = self.moved_at = self.traffic.loop.time()
        self.due = min(self.due + n / RATE, now + GRACE_S)
        self.fast = min(max(self.fast, now) + n / FAST_RATE, now + FAST_S)

    def hold(self, n: int) -> None:
        """So many more bytes are in memory. Cut: there is no room for them."""
        self.held += n
        self.traffic.held += n
        if not self.entered:
            self.traffic.begun += n
        self.traffic.make_room(self)

    async def enter(self, announced: int, after: int = SMALL) -> None:
        """Wait, once so many have come, until there is room for all announced.

        Earlier where beginnings would take the room of those that were let in.
        """
        self.announced = announced
        if announced > SMALL and not self.entered and (
                self.held >= after
                or self.traffic.begun > self.traffic.room // 8):
            now = self.traffic.loop.time()
            await self.traffic.wait(self)
            waited = self.traffic.loop.time() - now
            self.due, self.end = self.due + waited, self.end + waited

    def pause(self) -> None:
        """What follows is the server's own time."""
        self.complete = True
        self.traffic.admit()

    def resume(self) -> None:
        """It is the peer's again, from the beginning."""
        now = self.traffic.loop.time()
        self.complete = False
        self.due, self.end = now + GRACE_S, now + self.traffic.whole_s
        self.fast = now + FAST_S

    async def read(self, length: int, read: Callable[[int], Awaitable[bytes]]
                   ) -> bytes:
        """All that it holds: what read(n) brings, until it is length bytes.

        EOFError: it ended before.
        Cut: it was too slow, or had to give way.
        """
        content = io.BytesIO()  # what it has becomes the bytes without a copy
        while self.held < length:
            piece = await read(min(length - self.held, PIECE))
            if not piece:
                raise EOFError(f"{self.held} of {length} bytes came")
            self.moved(len(piece))
            self.hold(len(piece))
            if len(piece) == length:
                return piece
            content.write(piece)
            await self.enter(length)
        return content.getvalue()


class Traffic:
    """All flows of one kind; whole_s is what one may take, room what all may have.

    A quarter of the room is there for small ones alone.
    """

    def __init__(self, name: str, room: int, whole_s: float,
                 logger: logging.Logger) -> None:
        self.name, self.room, self.whole_s = name, room, whole_s
        self.loop = asyncio.get_running_loop()
        self.flows: set[Flow] = set()
        self.held = 0
        self.begun = 0  # held by those for whom nobody waits
        self.slow, self.full = Quiet(logger), Quiet(logger)
        self._waiting: dict[Flow, tuple[float, asyncio.Future[None]]] = {}
        self._last_first = False  # of those that wait, the last one is next
        self._timer: asyncio.TimerHandle | None = None
        self._ticked = 0.0

    def flow(self, peer: str) -> Flow:
        return Flow(self, peer)

    def add(self, flow: Flow) -> None:
        self.flows.add(flow)
        if not self._timer:
            self._set_timer()

    def remove(self, flow: Flow) -> None:
        self.flows.discard(flow)
        if not flow.cut:
            self._give_back(flow)
        self.admit()

    def _give_back(self, flow: Flow) -> None:
        self.held -= flow.held
        if not flow.entered:
            self.begun -= flow.held

    # ---- who is too slow ----

    def _set_timer(self) -> None:
        """Runs every TICK_S as long as there is a flow."""
        self._ticked = self.loop.time()
        self._timer = self.loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now = self.loop.time()
        own = now - self._ticked - TICK_S  # this loop stood still, not its peers
        for flow in list(self._unfinished()):
            if own > TICK_S:
                flow.due, flow.end = flow.due + own, flow.end + own
            self._judge(flow, now)
        self._make_turn(now)
        self.admit()
        self._timer = None
        if self.flows:
            self._set_timer()

    def _judge(self, flow: Flow, now: float) -> None:
        if flow in self._waiting:
            if now > self._waiting[flow][0] + LIMIT_S:
                self._cut(flow, f"no room within {LIMIT_S} s: {self._full()}",
                          False)
        elif now > flow.end:
            self._cut(flow, f"not over within {self.whole_s:g} s", True)
        elif now > flow.due:
            self._cut(flow, f"slower than {RATE >> 10} KiB/s for {GRACE_S:g} s", True)

    def _unfinished(self) -> Iterator[Flow]:
        return (one for one in self.flows if not one.complete and not one.cut)

    def _cut(self, flow: Flow, words: str, too_slow: bool) -> None:
        """Its task gets the reason where it waits."""
        flow.cut = Cut(f"{self.name}: {words}", too_slow)
        self._give_back(flow)
        (self.slow if too_slow else self.full).warn(
            f"{flow.peer}: {flow.cut}, {flow.held} bytes: cut off")
        if flow.task:
            flow.task.cancel()

    # ---- who gives way ----

    def make_room(self, flow: Flow) -> None:
        """Cut: there is none for what this one has, though others gave way."""
        while self.held > self.room and len(self.flows) > 1:
            victim = self._heavy_and_slow()
            if victim is None or victim is flow:
                words = f"{self.name}: no room: {self._full()}"
                self.full.warn(f"{flow.peer}: {words}: cut off")
                raise Cut(words, False)
            self._cut(victim, f"gives way to others: {self._full()}", False)

    def _full(self) -> str:
        return f"the {self.room >> 20} MiB that all have together are used up"

    def _heavy_and_slow(self) -> Flow | None:
        """Of peers that hold half of the mean at least, the one soonest too slow."""
        peers: collections.Counter[str] = collections.Counter()
        for one in self._unfinished():
            peers[one.peer] += one.held
        if not peers:
            return None
        share = sum(peers.values()) / len(peers) / 2
        heavy = [one for one in self._unfinished()
                 if one.held and peers[one.peer] >= share]
        return min(heavy, key=lambda one: one.due, default=None)

    # ---- who waits ----

    async def wait(self, flow: Flow) -> None:
        turn = self.loop.create_future()
        self._waiting[flow] = self.loop.time(), turn
        self.admit()
        try:
            await turn
        finally:
            self._waiting.pop(flow, None)

    def _promised(self, now: float) -> int:
        """Bytes of those for whom others wait, and what the rest has already."""
        return sum(max(one.held, one.announced)
                   if one.entered and (one.complete or now < one.fast) else one.held
                   for one in self.flows if not one.cut)

    def _make_turn(self, now: float) -> None:
        """While others wait, who has used up half of its grace gives way."""
        victim = self._heavy_and_slow()
        if (self._waiting and victim and self.held > self.room // 2
                and victim not in self._waiting
                and victim.due < now + GRACE_S / 2):
            self._cut(victim, f"gives way to others that wait: {self._full()}",
                      False)
        spare = self.room // 2 - sum(one.held for one in self._waiting)
        for flow in list(self._waiting):  # for long; their beginnings fill the room
            if spare >= 0:
                break
            spare += flow.held
            self._cut(flow, f"gives way to others that come: {self._full()}",
                      False)

    def _queue(self) -> list[Flow]:
        """From both ends, as turns go."""
        waiting = list(self._waiting)
        if self._last_first:
            waiting.reverse()
        middle = (len(waiting) + 1) // 2
        first, last = waiting[:middle], waiting[:middle - 1:-1]
        return [one for pair in itertools.zip_longest(first, last)
                for one in pair if one]

    def admit(self) -> None:
        """Let in all that fit; one of those that have waited too long as well."""
        if not self._waiting:
            return
        now = self.loop.time()
        limit = self.room - self.room // 4
        promised = self._promised(now)
        late_enters = self.held <= self.room // 2
        for flow in self._queue():
            since, turn = self._waiting[flow]
            late = late_enters and now > since + WAIT_S
            more = max(flow.announced - flow.held, 0)
            if turn.done() or not (promised + more <= limit or late):
                continue
            late_enters = late_enters and not late
            promised += more
            self.begun -= flow.held
            flow.entered = True
            flow.fast = now + FAST_S
            del self._waiting[flow]
            self._last_first = not self._last_first
            turn.set_result(None)
