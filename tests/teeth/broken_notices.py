"""Notices, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

import asyncio
from typing import Any

from tests.teeth.broken import swapped
from wakeful.notices import deliveries
from wakeful.notices.deliveries import CLASS, Collector, timer_for
from wakeful.notices.feature import NoticeFeature, Notifier
from wakeful.notices.notice import decode_notice, notices_of
from wakeful.values.errors import Unavailable


def told_outside_the_commit() -> Any:
    """A notice is written once the commit that gives rise to it is on disk: killed between the two, nobody hears of it."""

    async def add(activation: Any, timers: Any) -> None:
        try:
            await activation.settle()
            await activation.node.add_timers(timers)
        except Unavailable:
            return

    def make(add_to: Any) -> Any:
        def broken(self: Notifier, turn: Any) -> None:
            add_to(self, turn)
            found = [timer for timer in turn.sends if timer.id.cls == CLASS]
            if found:
                turn.sends = [timer for timer in turn.sends if timer.id.cls != CLASS]
                telling = add(turn.activation, found)
                asyncio.get_running_loop().call_soon(lambda: self._node.keep(asyncio.ensure_future(telling)))

        return broken

    return swapped(Notifier, "add_to", make)


def a_notice_about_a_notice() -> Any:
    """One that can't be delivered gives rise to the next, for ever."""

    def broken(self: Notifier, turn: Any) -> None:
        wanted = self._subscriptions
        for notice in notices_of(turn, wanted.late_ms):
            turn.send(
                [timer_for(self._node, one, notice, turn.activation.shard) for one in wanted if one.wants(notice)]
            )

    return swapped(Notifier, "add_to", lambda _: broken)


def a_flood_is_a_flood() -> Any:
    """Each of ten thousand is a mail."""

    async def broken(self: Collector, activation: Any, turn: Any, timer: Any) -> bool:
        deliveries._set_delivery(turn, decode_notice(timer.payload), activation.node.clock.now())
        return False

    return swapped(Collector, "fire", lambda _: broken)


def what_is_forgotten_is_told() -> Any:
    """The name of an object that was forgotten stays where notices wait."""

    async def nothing(self: NoticeFeature, turn: Any) -> None: ...

    return swapped(NoticeFeature, "erase", lambda _: nothing)


def the_first_try_is_the_last() -> Any:
    """A handler that failed is not asked again."""

    def make(fire: Any) -> Any:
        async def broken(self: Any, activation: Any, turn: Any, timer: Any) -> bool:
            try:
                is_run: bool = await fire(self, activation, turn, timer)
            except OSError:
                return True
            return is_run

        return broken

    return swapped(deliveries.Deliveries, "fire", make)
