"""Layer 2. How are the calls that come in on one link run and answered, and how many at once?

Every call is a task, and gets exactly one reply while the link lives. Past the bounds nothing more
is read: what a peer has sent too much waits in its own memory.
"""

import asyncio
import logging
from functools import partial

from wakeful.transport.frames import Malformed
from wakeful.transport.link_client import LinkWire
from wakeful.transport.messages import as_failure
from wakeful.transport.protocol import (
    CancelCall,
    Goodbye,
    Handler,
    NotStarted,
    Outward,
    PeerCall,
    PeerReply,
    Ping,
    Pong,
)
from wakeful.transport.pulse import LinkPulse, Pace
from wakeful.values.errors import Fenced, NotRunning, Unavailable, WakefulError

log = logging.getLogger("wakeful.links")

# Calls of one link that run at once. Peers are told and keep to it.
WINDOW = 1024
# Arguments of the calls of one link that run at once; a single call may be longer.
ARGUMENTS_BYTES_MAX = 64 * 1024 * 1024

_PONG = Pong()


class Answerer:
    """The end of a link that answers."""

    def __init__(
        self,
        wire: LinkWire,
        handler: Handler,
        *,
        node: str,
        pace: Pace,
        window: int = WINDOW,
        bytes_max: int = ARGUMENTS_BYTES_MAX,
    ) -> None:
        self._wire = wire
        self._handler = handler
        self.node = node  # of the other end
        self._window = window
        self._bytes_max = bytes_max
        self._bytes = 0
        self._loop = asyncio.get_running_loop()
        self._running: dict[int, tuple[asyncio.Task[None], int]] = {}
        self._ending: set[asyncio.Task[None]] = set()  # cancelled when the link was lost
        self._is_writable = True
        self._is_reading = True
        self._is_lost = False
        self._is_part = False  # since the last beat a long message has been coming in
        self._leaving_because: str | None = None
        self._pulse = LinkPulse(pace, is_wanted=self._is_busy, beat=self._beat, dead=self._is_silent)

    @property
    def in_flight(self) -> int:
        """How many calls run here for that link."""
        return len(self._running)

    def leave(self, because: str) -> None:
        """Take no new calls; the other end is told, and what it sent meanwhile is refused as not started."""
        if not self._is_lost and self._leaving_because is None:
            self._leaving_because = because or "it is stopping"
            self._wire.send(Goodbye(because))

    async def close(self) -> None:
        """Hang up, and wait until what runs has unwound."""
        self._cancel_all()
        self._wire.hang_up()
        if self._ending:
            await asyncio.wait(self._ending)

    # what the wire says

    def on_message(self, message: Outward) -> None:
        """Something came."""
        self._pulse.is_heard = True
        if type(message) is PeerCall:
            self._begin(message)
        elif type(message) is Ping:
            self._wire.send(_PONG)
        elif type(message) is CancelCall:
            self._cancel(message.number)

    def on_part(self) -> None:
        """Some bytes came and no whole message: a sign of life all the same."""
        self._pulse.is_heard = True
        self._is_part = True

    def writable(self, is_writable: bool) -> None:
        """The wire has room for more, or has not: then the peer does not take its answers, and gets no more of them."""
        self._is_writable = is_writable
        self._look()

    def on_lost(self, because: str) -> None:
        """The wire has ended; nobody waits for what runs."""
        self._cancel_all()

    # running

    def _begin(self, call: PeerCall) -> None:
        if self._is_lost:
            return
        number = call.number
        if number in self._running:
            raise Malformed(f"call {number} twice")
        if self._leaving_because is not None:
            error = NotRunning(f"this node takes no new calls: {self._leaving_because}; try again", code="link.leaving")
            self._refuse(number, error)
            return
        size = len(call.args) + len(call.kwargs)
        self._running[number] = self._loop.create_task(self._run(call)), size
        self._bytes += size
        if len(self._running) >= self._window or self._bytes >= self._bytes_max:
            self._look()
        self._pulse.start()

    async def _run(self, call: PeerCall) -> None:
        try:
            reply = PeerReply(call.number, await self._handler.handle(call))
        except NotStarted as refused:
            reply = PeerReply(call.number, None, as_failure(refused.error, is_started=False))
        except (Exception, Fenced) as error:
            reply = PeerReply(call.number, None, as_failure(error))
        except asyncio.CancelledError:
            reply = _cancelled_reply(call.number)
        self._answer(reply)

    def _answer(self, reply: PeerReply) -> None:
        found = self._running.pop(reply.number, None)
        if found is None:
            return  # the link is lost
        self._bytes -= found[1]
        try:
            self._wire.send(reply)
        except WakefulError as error:
            self._wire.send(PeerReply(reply.number, None, as_failure(error)))
        if not self._is_reading:
            self._look()

    def _refuse(self, number: int, error: BaseException) -> None:
        self._wire.send(PeerReply(number, None, as_failure(error, is_started=False)))

    def _cancel(self, number: int) -> None:
        found = self._running.get(number)
        if found is not None:
            task = found[0]
            # One that is cancelled before its first step never runs, and so can't answer for itself.
            task.add_done_callback(partial(self._was_cancelled, number))
            task.cancel()

    def _was_cancelled(self, number: int, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._answer(_cancelled_reply(number))

    def _cancel_all(self) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._pulse.stop()
        running, self._running = self._running, {}
        for task, _ in running.values():
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            task.cancel()

    def _look(self) -> None:
        """Read on or stop reading, as the bounds say."""
        is_reading = self._is_writable and len(self._running) < self._window and self._bytes < self._bytes_max
        if is_reading != self._is_reading and not self._is_lost:
            self._is_reading = is_reading
            if is_reading:
                self._wire.resume_reading()
            else:
                self._wire.pause_reading()

    # the pulse

    def _is_busy(self) -> bool:
        return bool(self._running)

    def _beat(self) -> None:
        """Its pings may be unread, or stuck behind a long message: it shall not think that nobody is here."""
        if not self._is_reading:
            self._pulse.is_heard = True  # it can't be heard now, so it can't be thought gone
        if self._is_writable and (self._is_part or not self._is_reading):
            self._wire.send(_PONG)
        self._is_part = False

    def _is_silent(self) -> None:
        log.warning(
            "node %s is silent; of the %d calls that it made here those go on that have begun",
            self.node,
            len(self._running),
            extra={"code": "link.silent"},
        )
        self._cancel_all()
        self._wire.hang_up(at_once=True)


def _cancelled_reply(number: int) -> PeerReply:
    return PeerReply(number, None, as_failure(Unavailable("the call was cancelled", code="call.cancelled")))
