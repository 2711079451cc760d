"""Layer 2. How do many calls share one link, and what becomes of each when it breaks?

Knows messages and no sockets: a wire carries them, real or in memory. One future a call and no
task; one timer for all timeouts.
"""

import asyncio
from collections import OrderedDict
from typing import Any, Protocol

from wakeful.transport.protocol import CancelCall, Goodbye, Homeward, PeerCall, PeerReply, Ping
from wakeful.transport.pulse import LinkPulse, Pace
from wakeful.values.errors import DeadlineExceeded, LinkLost

# Timeouts are seen to at most so often: the node enforces the deadline itself, this is for when it does not answer.
TIMEOUTS_EVERY_S = 0.005


class LinkWire(Protocol):
    """What carries the messages of one link, in order."""

    def send(self, message: Any) -> None:
        """Put the message on its way; `LimitExceeded` when it is too long, and then nothing was sent."""
        ...

    def hang_up(self, *, at_once: bool = False) -> None:
        """End it: after what was sent, or without waiting for that. `lost` of the user is called, soon and once."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Asked:
    __slots__ = ("call", "future", "is_sent", "until")

    def __init__(self, call: PeerCall, future: asyncio.Future[PeerReply], until: float) -> None:
        self.call = call
        self.future = future
        self.until = until
        self.is_sent = False


class LinkClient:
    """The end of a link that asks: a `Link`."""

    def __init__(self, wire: LinkWire, *, node: str, window: int, pace: Pace) -> None:
        self._wire = wire
        self._node = node
        self._window = window  # as many calls as the node takes at once on one link
        self._loop = asyncio.get_running_loop()
        self._asked: dict[int, _Asked] = {}  # on their way, given up ones too until the node is done with them
        self._line: OrderedDict[int, _Asked] = OrderedDict()  # not sent yet, for lack of room
        self._number = 0
        self._has_room = True
        self._is_writable = True
        self._lost_because: str | None = None
        self._leaving_because: str | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._closed = self._loop.create_future()
        self._pulse = LinkPulse(pace, is_wanted=self._is_waiting, beat=self._ping, dead=self._is_silent)

    @property
    def node(self) -> str:
        return self._node

    @property
    def is_closed(self) -> bool:
        return self._lost_because is not None

    @property
    def is_leaving(self) -> bool:
        return self._leaving_because is not None

    @property
    def in_flight(self) -> int:
        """How many calls the node has, or will have as soon as there is room."""
        return len(self._asked) + len(self._line)

    async def ask(self, call: PeerCall, *, timeout_ms: int) -> PeerReply:
        if self._lost_because is not None or self._leaving_because is not None:
            raise self._unsent()
        self._number = call.number = number = self._number + 1
        until = self._loop.time() + timeout_ms / 1000
        asked = _Asked(call, self._loop.create_future(), until)
        if self._has_room and not self._line:
            self._send(asked)
        else:
            self._line[number] = asked
        if self._alarm is None or until < self._alarm_at:
            self._wake_at(until)
        self._pulse.start()
        try:
            return await asked.future
        except asyncio.CancelledError:
            self._give_up(number, asked)
            raise

    async def close(self) -> None:
        self._lose("it was closed here")
        self._wire.hang_up(at_once=True)
        await asyncio.shield(self._closed)

    # what the wire says

    def on_message(self, message: Homeward) -> None:
        """Something came."""
        self._pulse.is_heard = True
        if type(message) is PeerReply:
            asked = self._asked.pop(message.number, None)
            if asked is None:
                return
            if not asked.future.done():
                asked.future.set_result(message)
            if not self._has_room:
                self._look()
            if self._leaving_because is not None:
                self._part()
        elif type(message) is Goodbye:
            self._leaving_because = message.because or "it is stopping"
            line, self._line = self._line, OrderedDict()
            for asked in line.values():
                _fail(asked, self._unsent())
            self._part()

    def on_part(self) -> None:
        """Some bytes came and no whole message: a sign of life all the same."""
        self._pulse.is_heard = True

    def writable(self, is_writable: bool) -> None:
        """The wire has room for more, or has not."""
        self._is_writable = is_writable
        self._look()

    def on_lost(self, because: str) -> None:
        """The wire has ended."""
        self._lose(because)
        if not self._closed.done():
            self._closed.set_result(None)

    def _part(self) -> None:
        """Hang up on a node that leaves as soon as it has answered everything: it waits for that, so that it can
        tell us of each call whether it began."""
        if not self._asked:
            self._lose(self._leaving_because or "it is stopping")
            self._wire.hang_up()

    # sending

    def _send(self, asked: _Asked) -> None:
        self._wire.send(asked.call)
        asked.is_sent = True
        asked_all = self._asked
        asked_all[asked.call.number] = asked
        if len(asked_all) >= self._window:
            self._has_room = False

    def _look(self) -> None:
        """Send what waited, as far as there is room."""
        self._has_room = self._is_writable and len(self._asked) < self._window
        while self._has_room and self._line:
            _, asked = self._line.popitem(last=False)
            left_ms = int((asked.until - self._loop.time()) * 1000)
            # It stood in line for a part of its time.
            asked.call.deadline_ms = max(1, min(asked.call.deadline_ms, left_ms))
            try:
                self._send(asked)
            except Exception as error:
                _fail(asked, error)

    # giving up

    def _give_up(self, number: int, asked: _Asked) -> None:
        if self._line.pop(number, None) is None and number in self._asked and self._lost_because is None:
            self._wire.send(CancelCall(number))

    def _wake_at(self, until: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = until
        self._alarm = self._loop.call_at(until, self._expire)

    def _expire(self) -> None:
        """Fail what has run out of time, and wake again for the next."""
        self._alarm = None
        now = self._loop.time()
        next_at = None
        for number, asked in (*self._asked.items(), *self._line.items()):
            if asked.future.done():
                continue
            if asked.until <= now + 1e-6:
                _fail(asked, self._too_late(asked))
                self._give_up(number, asked)
            elif next_at is None or asked.until < next_at:
                next_at = asked.until
        if next_at is not None:
            self._wake_at(max(next_at, now + TIMEOUTS_EVERY_S))

    def _lose(self, because: str) -> None:
        if self._lost_because is not None:
            return
        self._lost_because = because
        self._pulse.stop()
        if self._alarm is not None:
            self._alarm.cancel()
        asked_all, self._asked = self._asked, {}
        line, self._line = self._line, OrderedDict()
        for asked in asked_all.values():
            _fail(asked, self._broken_error())
        for asked in line.values():
            _fail(asked, self._unsent())

    # the pulse

    def _is_waiting(self) -> bool:
        return bool(self._asked or self._line)

    def _ping(self) -> None:
        self._wire.send(Ping())

    def _is_silent(self) -> None:
        self._lose("it does not answer any more")
        self._wire.hang_up(at_once=True)

    # what is said

    def _unsent(self) -> LinkLost:
        if self._lost_because is None:
            return LinkLost(
                f"node {self._node} takes no new calls: {self._leaving_because}; try again",
                was_sent=False,
                code="link.leaving",
            )
        return LinkLost(
            f"the link to node {self._node} is lost ({self._lost_because}); the call was not sent, try again",
            was_sent=False,
        )

    def _broken_error(self) -> LinkLost:
        return LinkLost(
            f"the link to node {self._node} was lost ({self._lost_because}); whether the call happened is unknown, "
            "repeat it with a request key"
        )

    def _too_late(self, asked: _Asked) -> DeadlineExceeded:
        what = f"{asked.call.cls}/{asked.call.key}.{asked.call.method}"
        if asked.is_sent:
            return DeadlineExceeded(
                f"{what}: no answer from node {self._node} within the deadline; whether it happened is unknown, "
                "use a request key to ask again"
            )
        return DeadlineExceeded(
            f"{what}: no room on the link to node {self._node} within the deadline; it was not sent", code="link.full"
        )


def _fail(asked: _Asked, error: BaseException) -> None:
    if not asked.future.done():
        asked.future.set_exception(error)
