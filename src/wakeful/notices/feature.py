"""Layer 4. How do notices join the nodes of a program?"""

import asyncio
import logging
from contextvars import Context as Variables
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wakeful.notices.deliveries import (
    CLASS,
    DELIVERY,
    FORGET,
    Collector,
    Deliveries,
    erase,
    forget,
    timer_for,
)
from wakeful.notices.notice import OUTAGE, TEST, Notice, NoticeError, notice_id, notices_of
from wakeful.notices.sender import HttpSender, Webhook
from wakeful.notices.subscriptions import Subscription, Subscriptions
from wakeful.runtime.context import runtime_of
from wakeful.runtime.feature import Feature
from wakeful.store.protocol import Query
from wakeful.values.errors import Conflict, Unavailable, WakefulError
from wakeful.values.ids import ObjectId
from wakeful.values.timers import words_of
from wakeful.values.times import to_datetime

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.runtime.node import Node
    from wakeful.runtime.object_runtime import NodeRuntime
    from wakeful.runtime.turn import Turn

log = logging.getLogger("wakeful.notices")

FEATURE = "notices"
DESCRIBE, SEND_TEST = "notices.describe", "notices.test"
ALL = "all"  # the key of the object that knows who is told of what
SHOWN = 20  # of the latest deliveries of each


class NoticeFeature(Feature):
    """Handlers and webhooks that hear of what a person should know."""

    def __init__(self) -> None:
        self.subscriptions = Subscriptions()
        self.classes = ((_class_for(self), CLASS),)

    def equip(self, node: "Node") -> None:
        deadline_ms = node.limits.alarm_deadline_ms
        node.timer_runs.register(Collector(self.subscriptions, deadline_ms), quiet=True)
        node.timer_runs.register(Deliveries(self.subscriptions, deadline_ms), quiet=True)
        node.features[FEATURE] = self.subscriptions
        node.operations |= {FORGET: forget, DESCRIBE: describe_all, SEND_TEST: send_test}
        node.quiet_operations |= {FORGET, DESCRIBE, SEND_TEST}
        self._listen(node)

    def _listen(self, node: "Node") -> None:
        wanted = self.subscriptions
        if wanted and not node.is_client:
            if wanted.sender is None and any(one.is_webhook for one in wanted):
                wanted.sender = HttpSender()
            node.notices = Notifier(wanted, node)

    def add(self, one: Subscription, node: "Node | None") -> None:
        """One more who wants to hear, also when the program runs already."""
        self.subscriptions.add(one)
        for home in () if node is None else node.all_homes:
            self._listen(home)

    async def erase(self, turn: "Turn") -> None:
        await erase(turn)


class Notifier:
    """What one node has to tell."""

    def __init__(self, subscriptions: Subscriptions, node: "NodeRuntime") -> None:
        self._subscriptions = subscriptions
        self._node = node
        self._outage: tuple[datetime, NoticeError] | None = None

    def add_to(self, turn: "Turn") -> None:
        """The turn is about to be committed: what it gives rise to goes to disk with it."""
        if not (turn.parks or turn.entries) or turn.activation.id.cls == CLASS:
            return
        wanted = self._subscriptions
        for notice in notices_of(turn, wanted.late_ms):
            turn.send(
                [timer_for(self._node, one, notice, turn.activation.shard) for one in wanted if one.wants(notice)]
            )

    def outage_began(self, error: Unavailable) -> None:
        """The store is away, so nothing can be kept: those who want to know are told from here, once."""
        if self._outage is None:
            self._outage = to_datetime(self._node.clock.now()), NoticeError.of(words_of(error))
            self._keep(self._tell_now(self._outage_notice()))

    def outage_ended(self) -> None:
        """The store is back, and can keep that."""
        if self._outage is not None:
            self._keep(self._tell_durably(self._outage_notice(is_over=True)))
            self._outage = None

    def _outage_notice(self, *, is_over: bool = False) -> Notice:
        assert self._outage is not None
        node, (since, error) = self._node, self._outage
        return Notice(
            kind=OUTAGE,
            id=notice_id(OUTAGE, node.name, node.store.url, since, is_over),
            at=to_datetime(node.clock.now()),
            node=node.name,
            error=error,
            since=since,
            is_over=is_over,
        )

    def _keep(self, telling: Any) -> None:
        """In a context of its own: it is no part of the turn that met the outage."""
        self._node.keep(asyncio.get_running_loop().create_task(telling, context=Variables()))

    def _wanting(self, notice: Notice) -> list[Subscription]:
        return [one for one in self._subscriptions if one.wants(notice)]

    async def _tell_now(self, notice: Notice) -> None:
        for one in self._wanting(notice):
            try:
                await one.deliver(self._subscriptions.sender, notice, self._node.clock.now())
            except Exception as error:
                words = "%s was not told that the store is away: %s"
                log.warning(words, one.name, words_of(error), extra={"code": "notice.outage"})

    async def _tell_durably(self, notice: Notice) -> None:
        node = self._node
        timers = [timer_for(node, one, notice, min(node.epochs, default=0)) for one in self._wanting(notice)]
        if timers:
            await node.add_timers(timers)


def _class_for(feature: NoticeFeature) -> type:
    class Notices:
        """Delivers what one subscription is told of; it has no methods, only timers and operations."""

        __wakeful_has_key__ = staticmethod(lambda key: key == ALL or feature.subscriptions.get(key) is not None)

    return Notices


# What operators ask of it, without waking anything.


def _subscriptions_of(node: "NodeRuntime") -> Subscriptions:
    found: Subscriptions = node.features[FEATURE]
    return found


async def describe_all(context: "Context") -> list[dict[str, Any]]:
    """Who is told of what, with the latest deliveries to each."""
    node = runtime_of(context).node
    return [await _describe(node, one) for one in _subscriptions_of(node)]


async def send_test(context: "Context") -> dict[str, Any]:
    """Send a test to the webhook whose object this is, once, and say what came of it."""
    node = runtime_of(context).node
    subscriptions, now = _subscriptions_of(node), node.clock.now()
    subscriber, sender = subscriptions.of(context.key), subscriptions.sender
    name, webhook = subscriber.name, subscriber.receiver
    if not isinstance(webhook, Webhook) or sender is None:
        raise Conflict(f"{name} is a function of the program, no webhook", code="webhook.none")
    id = notice_id(TEST, name, now, node.dice.random())
    try:
        answer = await webhook.send(sender, Notice(kind=TEST, id=id, at=to_datetime(now), node=node.name), now)
    except (WakefulError, OSError) as error:
        return {"name": name, "ok": False, "id": id, "status": None, "error": words_of(error)}
    return {"name": name, "ok": True, "id": id, "status": answer.status, "error": None}


async def _describe(node: "NodeRuntime", one: Subscription) -> dict[str, Any]:
    home = node.home(ObjectId(CLASS, one.name))
    entries = await _latest(home, one)
    return {
        "name": one.name,
        "kind": "webhook" if one.is_webhook else "handler",
        "url": one.receiver.place if isinstance(one.receiver, Webhook) else None,
        "on": sorted(one.kinds),
        "class": one.cls,
        "prefix": one.prefix,
        "at_most_ms": one.at_most_ms,
        "deliveries": entries,
    }


async def _latest(home: "NodeRuntime", one: Subscription) -> list[dict[str, Any]]:
    """The latest deliveries, newest first: the ledger of the objects that make them."""
    where = {"key": one.name} if one.at_most_ms else {"key_prefix": f"{one.name}#"}
    query = Query(cls=CLASS, name_prefix=f"{DELIVERY}:", limit=SHOWN, **where)  # type: ignore[arg-type]
    rows = [entry for _, entry in await home.reading(home.store.find_entries(query))]
    return [
        {
            "id": entry.name.partition(":")[2],
            "at": entry.finished_at,
            "verdict": entry.verdict,
            "attempt": entry.attempt + 1,
            "error": entry.error,
        }
        for entry in rows
    ]
