"""Points in time, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

import asyncio
from typing import Any

from tests.teeth.broken import swapped
from wakeful.history.object_history import ObjectHistory
from wakeful.runtime.activation import Activation
from wakeful.values.commits import Commit


def images_leave_out_pages() -> Any:
    """Only rows and timers are kept as they were."""

    def make(image: Any) -> Any:
        def broken(self: ObjectHistory, turn: Any, timers: Any) -> Any:
            pages, turn.pages = turn.pages, {}
            try:
                return image(self, turn, timers)
            finally:
                turn.pages = pages

        return broken

    return swapped(ObjectHistory, "_image", make)


def images_are_written_outside_the_commit() -> Any:
    """In one of their own, before the turn's."""

    def make(image: Any) -> Any:
        def broken(self: ObjectHistory, turn: Any, timers: Any) -> Any:
            rows = image(self, turn, timers)
            activation = turn.activation
            node, puts = activation.node, {slot: data for slot, data in rows.items() if data is not None}
            now = node.clock.now()
            commit = Commit(id=activation.id, shard=activation.shard, epoch=activation.epoch, now=now, puts=puts)
            node.keep(asyncio.get_running_loop().create_task(_write(node, commit)))
            return {}

        return broken

    return swapped(ObjectHistory, "image", make)


async def _write(node: Any, commit: Commit) -> None:
    store = getattr(node.store, "inner", node.store)  # past the faults of the test
    await store.commit(node.name, [commit])


def what_is_not_in_memory_is_taken_for_nothing() -> Any:
    """A row that was never read is kept as one that was not there."""

    def make(know: Any) -> Any:
        async def broken(self: ObjectHistory, turn: Any) -> None: ...

        return broken

    return swapped(ObjectHistory, "_know_rows", make)


def an_object_that_went_back_stays_awake() -> Any:
    """With its instance, its rows and its connection."""

    def make(put_to_sleep: Any) -> Any:
        def broken(self: Activation) -> None: ...

        return broken

    return swapped(Activation, "put_to_sleep", make)


def timers_go_back_though_they_should_not() -> Any:
    """Whatever was asked for."""

    def make(want: Any) -> Any:
        def broken(self: ObjectHistory, turn: Any, mark: str, *, timers: bool) -> None:
            want(self, turn, mark, timers=True)

        return broken

    return swapped(ObjectHistory, "want", make)


def the_beginning_stays_when_images_are_pruned() -> Any:
    """A point is believed to be there though images after it are gone."""

    def make(find: Any) -> Any:
        async def broken(self: ObjectHistory) -> None:
            since = self._since
            await find(self)
            self._since = since

        return broken

    return swapped(ObjectHistory, "_find_expired", make)
