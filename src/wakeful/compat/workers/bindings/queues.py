"""Layer 5. `env.QUEUE` and `queue()`: what is a queue here?

One object, `Queue/<name>`, whose rows are the messages in the order in which they may be delivered. When a batch is due it
is set apart under a lane, and a job of `QueueConsumer/<name>/<lane>` is scheduled in the same commit. The job calls the
Worker's handler and then says which messages come again; only then are the others deleted. So a message is delivered at
least once, whatever dies in between, and a handler may send to the queue that it reads.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.compat.workers.bindings.calls import ObjectBinding
from wakeful.compat.workers.bindings.desk import desk_of
from wakeful.compat.workers.bindings.queue_batch import MessageBatch, QueueMessage, check_delay, size_of
from wakeful.compat.workers.failures import JsException, JsTypeError
from wakeful.compat.workers.values import dress, option_of, plain, sendable
from wakeful.objects import DurableObject
from wakeful.runtime.context import runtime_of
from wakeful.runtime.registry import reader
from wakeful.values.errors import BadOption

if TYPE_CHECKING:
    from wakeful.app import App

log = logging.getLogger("wakeful.workers")

CLASS, CONSUMER_CLASS = "Queue", "QueueConsumer"

MESSAGE_BYTES_MAX = 128_000
BATCH_BYTES_MAX = 256_000
BATCH_MAX = 100
HANDLER_SHARE = 0.9  # of the time that a job has, for the Worker's handler
LOOK_AGAIN_MS = 600_000  # at a queue that nobody consumes
_TYPES = ("json", "text", "bytes", "v8")

_WAITS = "m"  # and when it may be delivered, and its number: id, when it was sent, type, attempts
_BODY = "b"  # and its number
_LANE = "f"  # and the lane: the number of the batch, and the messages of it
_PARKED = "d"  # and the number: as for one that waits, and since when
_NUMBER = "n"
_NUMBER_CHARS = 12


class ConsumerRules(NamedTuple):
    """How a queue's messages are delivered, and to whom."""

    handle: Callable[[MessageBatch], Awaitable[None]]
    path: str
    batch: int
    wait_ms: int
    retries: int
    lanes: int
    retry_delay_ms: int
    dead_letter: str | None


class Queue(DurableObject):
    """The messages of a queue."""

    async def accept(self, messages: list[list[Any]], delay_ms: list[int]) -> None:
        """Keep messages (id, when they were sent, type, body), each to be delivered after its delay."""
        now = self._ms()
        for (id, at, kind, body), delay in zip(messages, delay_ms, strict=True):
            number = await self._next()
            self.storage.put(_BODY + number, body)
            self.storage.put(_waits(now + delay, number), [id, at, kind, 0])
        await self._dispatch()

    async def alarm(self) -> None:
        await self._dispatch()

    @reader
    async def messages_of(self, lane: int, batch: str) -> list[list[Any]] | None:
        """Those of a batch (id, when sent, type, attempts, body); None when it is settled already."""
        there = await self.storage.get(f"{_LANE}{lane}")
        if there is None or there[0] != batch:
            return None
        bodies = await self.storage.get_many(_BODY + number for number, *_ in there[1])
        return [[*head, bodies[_BODY + number]] for number, *head in there[1]]

    async def settle(self, lane: int, batch: str, retries: dict[str, int]) -> None:
        """The batch was handled: these of it come again after so many milliseconds, all others are done."""
        there = await self.storage.get(f"{_LANE}{lane}")
        if there is None or there[0] != batch:
            return  # it was settled before its job ended, and the job came again
        self.storage.delete(f"{_LANE}{lane}")
        now, rules, dead = self._ms(), self._rules, []
        for number, id, at, kind, attempts in there[1]:
            if id not in retries:
                self.storage.delete(_BODY + number)
            elif rules is None or attempts <= rules.retries:
                self.storage.put(_waits(now + retries[id], number), [id, at, kind, attempts])
            else:
                dead.append((number, id, at, kind, attempts))
        if dead and rules is not None:
            await self._bury(dead, rules)
        await self._dispatch()

    async def redrive(self) -> int:
        """Deliver anew what was parked because nobody took it; how many those are."""
        rows, now = await self.storage.list(prefix=_PARKED, limit=1_000), self._ms()
        for name, (id, at, kind, *_) in rows.items():
            self.storage.delete(name)
            self.storage.put(_waits(now, name[len(_PARKED) :]), [id, at, kind, 0])
        await self._dispatch()
        return len(rows)

    @reader
    async def parked(self) -> list[dict[str, Any]]:
        """What nobody took (a thousand of them at most), and has no dead letter queue."""
        rows = await self.storage.list(prefix=_PARKED, limit=1_000)
        return [
            {"id": id, "attempts": attempts, "sent_at": datetime.fromtimestamp(at / 1000, UTC)}
            for id, at, _, attempts, _ in rows.values()
        ]

    @property
    def _rules(self) -> ConsumerRules | None:
        found: ConsumerRules | None = desk_of(self.ctx).consumers.get(self.ctx.id.key)
        return found

    async def _dispatch(self) -> None:
        """Hand out the batches that are due, as far as there are lanes, and ring when the next is."""
        rules, now = self._rules, self._ms()
        lanes = await self.storage.list(prefix=_LANE)
        for lane in range(rules.lanes if rules else 0):
            if f"{_LANE}{lane}" in lanes:
                continue
            assert rules is not None
            rows = await self.storage.list(prefix=_WAITS, limit=rules.batch)
            due = _due(list(rows), rules)
            if due is None or due > now:
                await self._ring_at(due)
                return
            ready = {name: head for name, head in rows.items() if _time_of(name) <= now}
            await self._hand_out(lane, ready)
        if rules is None and await self.storage.list(prefix=_WAITS, limit=1):
            await self._ring_at(now + LOOK_AGAIN_MS)

    async def _hand_out(self, lane: int, ready: Mapping[str, Any]) -> None:
        batch = await self._next()
        heads = [[_number_of(name), id, at, kind, n + 1] for name, (id, at, kind, n) in ready.items()]
        self.storage.put(f"{_LANE}{lane}", [batch, heads])
        for name in ready:
            self.storage.delete(name)
        consumer = self.ctx.get(QueueConsumer, f"{self.ctx.id.key}/{lane}")
        await self.jobs.schedule(consumer.deliver, self.ctx.id.key, lane, batch, key="batch", replace=True)

    async def _bury(self, dead: list[tuple[Any, ...]], rules: ConsumerRules) -> None:
        """Nobody took them: they go to the dead letter queue, or are parked."""
        bodies = await self.storage.get_many(_BODY + number for number, *_ in dead)
        if rules.dead_letter is None:
            for number, id, at, kind, attempts in dead:
                self.storage.put(_PARKED + number, [id, at, kind, attempts, self._ms()])
                log.warning(
                    "queue %s: message %s failed %d times and is parked; its redrive() delivers it anew",
                    *(self.ctx.id.key, id, attempts),
                    extra={"code": "workers.parked"},
                )
            return
        letters = [[id, at, kind, bodies[_BODY + number]] for number, id, at, kind, _ in dead]
        for number, *_ in dead:
            self.storage.delete(_BODY + number)
        if rules.dead_letter == self.ctx.id.key:
            await self.accept(letters, [0] * len(letters))
        else:
            await self.ctx.get(Queue, rules.dead_letter).accept(letters, [0] * len(letters))

    async def _ring_at(self, due: int | None) -> None:
        if due is None:
            await self.storage.delete_alarm()
        else:
            await self.storage.set_alarm(datetime.fromtimestamp(due / 1000, UTC))

    async def _next(self) -> str:
        number = await self.storage.get(_NUMBER, 0) + 1
        self.storage.put(_NUMBER, number)
        return f"{number:0{_NUMBER_CHARS}x}"

    def _ms(self) -> int:
        return round(self.ctx.now().timestamp() * 1000)


class QueueConsumer(DurableObject):
    """One lane of a queue: a batch at a time is with the Worker's handler."""

    async def deliver(self, queue: str, lane: int, batch: str) -> None:
        """The job of a batch. It comes again when the process dies before its end."""
        rules: ConsumerRules | None = desk_of(self.ctx).consumers.get(queue)
        home = self.ctx.get(Queue, queue)
        rows = await home.messages_of(lane, batch)
        if rows is None:
            return
        if rules is None:  # this program has no consumer any more
            await home.settle(lane, batch, {id: 0 for id, *_ in rows})
            return
        made = MessageBatch(queue, [QueueMessage(id, at, n, _read(kind, body)) for id, at, kind, n, body in rows])
        has_raised = False
        # Before the job's own deadline, past which nobody could say that these messages failed.
        most_s = runtime_of(self.ctx).node.limits.alarm_deadline_ms / 1000 * HANDLER_SHARE
        try:
            async with asyncio.timeout(most_s):
                await rules.handle(made)
        except Exception:
            has_raised = True
            log.exception("queue %s: the handler of a batch raised", queue, extra={"code": "workers.queue"})
        await home.settle(lane, batch, made.decide(has_raised, rules.retry_delay_ms).retries)


def _due(names: list[str], rules: ConsumerRules) -> int | None:
    """When the next batch is: it is full, or its first message has waited long enough."""
    if not names:
        return None
    waited = _time_of(names[0]) + rules.wait_ms
    return min(waited, _time_of(names[-1])) if len(names) >= rules.batch else waited


def _waits(at: int, number: str) -> str:
    return f"{_WAITS}{at:013}{number}"


def _time_of(name: str) -> int:
    return int(name[len(_WAITS) : -_NUMBER_CHARS])


def _number_of(name: str) -> str:
    return name[-_NUMBER_CHARS:]


def _read(kind: str, body: Any) -> Any:
    return dress(json.loads(body) if kind == "json" else body)


class QueueBinding(ObjectBinding):
    """`send` and `sendBatch`."""

    def __init__(self, app: "App", key: str, delay_ms: int) -> None:
        super().__init__(app, CLASS, key)
        self._delay_ms = delay_ms

    def send(self, body: Any, options: Any = None, **named: Any) -> "asyncio.Task[None]":
        """Have a message delivered, after `delaySeconds` if they are given."""
        given = option_of(options, named, "send()")
        return self._begin(self._send([{**given, "body": body}], {}), "send()")

    def sendBatch(self, messages: Iterable[Any], options: Any = None, **named: Any) -> "asyncio.Task[None]":  # noqa: N802
        """Up to 100 messages, each a mapping with a `body`: all of them are kept, or none."""
        given = option_of(options, named, "sendBatch()")
        return self._begin(self._send(list(messages), given), "sendBatch()")

    async def _send(self, messages: list[Mapping[str, Any]], common: Mapping[str, Any]) -> None:
        if not messages:
            raise JsTypeError("sendBatch() requires at least one message")
        if len(messages) > BATCH_MAX:
            raise JsException(
                f"Queue sendBatch failed: batch message count of {len(messages)} exceeds limit of {BATCH_MAX}"
            )
        now, rows, delays, total = self._now(), [], [], 0
        for message in messages:
            kind = message.get("contentType") or "json"
            body = _write(kind, message.get("body"))
            size = size_of(body)
            total += size
            if size > MESSAGE_BYTES_MAX:
                raise JsException(
                    f"Queue send failed: message length of {size} bytes exceeds limit of {MESSAGE_BYTES_MAX}"
                )
            rows.append([secrets.token_hex(16), now, kind, body])
            delays.append(self._delay_of(message, common))
        if total > BATCH_BYTES_MAX:
            raise JsException(f"Queue sendBatch failed: batch size of {total} bytes exceeds limit of {BATCH_BYTES_MAX}")
        await self._stub.accept(rows, delays)

    def _delay_of(self, *options: Mapping[str, Any]) -> int:
        for given in options:
            if given.get("delaySeconds") is not None:
                try:
                    return check_delay(given["delaySeconds"])
                except ValueError as error:
                    raise JsException(f"Queue send failed: {error}") from None
        return self._delay_ms


def _write(kind: Any, body: Any) -> Any:
    """A body as it is kept."""
    if kind not in _TYPES:
        raise JsTypeError(f"Unsupported queue message content type: {kind}")
    if kind == "text" and not isinstance(body, str):
        raise JsTypeError(f'Content Type "text" requires a value of type string, but received: {type(body).__name__}')
    if kind == "bytes":
        if not isinstance(body, bytes | bytearray | memoryview):
            raise JsTypeError(
                f'Content Type "bytes" requires a value of type ArrayBufferView, but received: {type(body).__name__}'
            )
        return bytes(body)
    if kind == "json":
        try:
            return json.dumps(plain(body), ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise JsTypeError(f"a message is what JSON can say, unless contentType is 'v8': {error}") from None
    return sendable(body, "a message")


def read_rules(
    path: Any, handle: Callable[[MessageBatch], Awaitable[None]], options: Mapping[str, Any]
) -> ConsumerRules:
    """What a wrangler file says of a consumer, checked."""
    name = options.get("queue")

    def number(key: str, usual: int, least: int, most: int) -> int:
        value = options.get(key, usual)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise BadOption(
                f"{path}: the consumer of {name}: {key} is a whole number from {least} to {most}, not {value!r}",
                code="workers.binding",
            )
        return value

    dead_letter = options.get("dead_letter_queue")
    if not isinstance(name, str) or not isinstance(dead_letter, str | None):
        raise BadOption(f"{path}: a consumer of queues has no `queue`: {dict(options)}", code="workers.binding")
    return ConsumerRules(
        handle=handle,
        path=str(path),
        batch=number("max_batch_size", 10, 1, BATCH_MAX),
        wait_ms=number("max_batch_timeout", 5, 0, 60) * 1000,
        retries=number("max_retries", 3, 0, 100),
        lanes=number("max_concurrency", 1, 1, 250),
        retry_delay_ms=number("retry_delay", 0, 0, 86_400) * 1000,
        dead_letter=dead_letter,
    )
