"""Watching a machine: snapshots and emitted events in order, as far as the class lets the caller see them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from wakeful import App, DurableObject, Machine, assign, errors
from wakeful.machines import watchers
from wakeful.machines.snapshot import Snapshot
from wakeful.values.ids import ObjectId, shard_of


def app_with() -> tuple[App, Any]:
    app = App()

    @app.object
    class Count(Machine):
        chart = {
            "initial": "on",
            "context": {"n": 0, "secret": 7},
            "states": {
                "on": {
                    "on": {
                        "ADD": {"actions": ["add", {"type": "emit", "event": {"type": "added", "by": "me"}}]},
                        "BREAK": {"actions": ["add", "fail"]},
                    }
                }
            },
        }

        @assign
        def add(self, context: Any, event: Any) -> Any:
            return {"n": context["n"] + 1}

        @assign
        def fail(self, context: Any, event: Any) -> Any:
            raise ValueError("on purpose")

        def visible(self, caller: Any, snapshot: Snapshot) -> Snapshot | None:
            if caller == "stranger":
                return None
            return snapshot if caller == "owner" else replace(snapshot, context={"n": snapshot.context.get("n")})

        def audible(self, caller: Any, event: dict[str, Any]) -> dict[str, Any] | None:
            return event if caller == "owner" else None

        async def add_and_fail(self) -> None:
            await self.send("ADD")
            await asyncio.sleep(1)
            raise ValueError("not after all")

    return app, Count


class Eye:
    """Collects what one watcher is shown."""

    def __init__(self, news: AsyncIterator[Any]) -> None:
        self.seen: list[Any] = []
        self._task = asyncio.ensure_future(self._look(news))
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())  # a world that ends is fine

    async def _look(self, news: AsyncIterator[Any]) -> None:
        async for one in news:
            self.seen.append(one.context.get("n") if isinstance(one, Snapshot) else one["type"])

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_snapshots_and_emitted_events_come_in_order() -> None:
    app, cls = app_with()
    async with app.world() as world:
        count = world.get(cls, "c")
        eye = Eye(app.watch(cls, "c", caller="owner"))
        await world.settle()
        assert eye.seen == [None]  # not started
        for _ in range(3):
            await count.send("ADD")
        await world.settle()
        assert eye.seen == [None, 0, "added", 1, "added", 2, "added", 3]
        await world.advance(minutes=5)  # many waits later
        await count.send("ADD")
        await world.settle()
        assert eye.seen[-2:] == ["added", 4]
        assert len(eye.seen) == 10
        await eye.close()


async def test_a_caller_sees_what_its_class_lets_it_see() -> None:
    app, cls = app_with()
    async with app.world() as world:
        count = world.get(cls, "c")
        await count.start()
        some, stranger = Eye(app.watch(cls, "c", caller="some")), Eye(app.watch(cls, "c", caller="stranger"))
        await world.settle()
        first = await anext(app.watch(cls, "c", caller="some"))
        assert isinstance(first, Snapshot)
        assert first.context == {"n": 0}
        await count.send("ADD")
        await world.settle()
        assert (some.seen, stranger.seen) == ([0, 1], [])
        await some.close()
        await stranger.close()


async def test_what_is_undone_is_never_seen() -> None:
    app, cls = app_with()
    async with app.world() as world:
        count = world.get(cls, "c")
        await count.start()
        eye = Eye(app.watch(cls, "c", caller="owner"))
        await world.settle()
        for call in (count.send("BREAK"), count.add_and_fail()):
            with pytest.raises(ValueError, match=r"on purpose|not after all"):
                await call
        await world.settle()
        assert eye.seen == [0]
        await count.send("ADD")
        await world.settle()
        assert eye.seen == [0, "added", 1]
        await eye.close()


async def test_one_who_is_too_far_behind_gets_a_fresh_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "KEPT_MAX", 3)
    app, cls = app_with()
    async with app.world() as world:
        count = world.get(cls, "c")
        await count.start()
        news = app.watch(cls, "c", caller="owner")
        assert (await anext(news)).context["n"] == 0  # type: ignore[union-attr]
        for _ in range(5):
            await count.send("ADD")
        assert (await anext(news)).context["n"] == 5  # type: ignore[union-attr]
        await count.send("ADD")
        assert await anext(news) == {"type": "added", "by": "me"}


@pytest.mark.parametrize("way", ["stop", "crash"])
async def test_it_goes_on_where_the_object_moves_to(way: str) -> None:
    app, cls = app_with()
    async with app.world(nodes=3) as world:
        owner = world.members[2]
        key = _key_of(owner)
        count = world.get(cls, key)
        await count.start()
        eye = Eye(app.watch(cls, key, caller="owner"))
        await world.settle()
        await count.send("ADD")
        await world.settle()
        assert eye.seen == [0, "added", 1]  # asked of another node
        before = world.now()
        await (owner.stop() if way == "stop" else owner.crash())
        if way == "stop":
            assert (world.now() - before).total_seconds() < 2  # nobody who watches keeps it here
        await world.advance(seconds=20)
        await count.send("ADD")
        await world.advance(seconds=1)
        assert eye.seen[3:] in (["added", 2], [2])
        await eye.close()


def _key_of(member: Any) -> str:
    return next(
        f"k{number}" for number in range(10_000) if shard_of(ObjectId("Count", f"k{number}")) in member.node.epochs
    )


async def test_a_watched_object_does_not_hold_up_a_stop() -> None:
    app, cls = app_with()
    async with app.world() as world:
        await world.get(cls, "c").start()
        eye = Eye(app.watch(cls, "c", caller="owner"))
        await world.settle()
        before = world.now()
        await world.restart()
        assert (world.now() - before).total_seconds() < 1
        await eye.close()


async def test_only_machines_can_be_watched() -> None:
    app, cls = app_with()

    @app.object
    class Plain(DurableObject):
        pass

    with pytest.raises(errors.BadOption, match="no Machine"):
        app.watch(Plain, "x")  # type: ignore[arg-type]
    with pytest.raises(errors.NotRunning):
        await anext(app.watch(cls, "x"))


async def test_callers_cannot_ask_for_news_under_another_name() -> None:
    app, cls = app_with()
    async with app.world() as world:
        known = app.deployment.registry.of_class(cls)
        assert "machine.news" in known.readers
        assert "machine.news" not in known.methods
        with pytest.raises(errors.UnknownMethod):
            known.check_method("machine.news")
        assert world is not None


def app_of(size: int, *, noise: int = 0) -> tuple[App, Any]:
    """A machine that is large, and tells of every step with an event of that size."""
    app = App()

    @app.object
    class Large(Machine):
        chart = {
            "initial": "on",
            "context": {"n": 0, "blob": "x" * size},
            "states": {"on": {"on": {"ADD": {"actions": ["add", "tell"]}}}},
        }

        @assign
        def add(self, context: Any, event: Any) -> Any:
            return {"n": context["n"] + 1}

        def tell(self, context: Any, event: Any) -> Any:
            return [{"type": "emit", "event": {"type": f"{context['n']}", "blob": "y" * noise}}] * bool(noise)

    return app, Large


async def _missed(app: App, cls: Any, count: int) -> list[Any]:
    """What a watcher is shown that was elsewhere for so many steps."""
    async with app.world() as world:
        large = world.get(cls, "l")
        await large.start()
        news = app.watch(cls, "l")
        await anext(news)
        for _ in range(count):
            await large.send("ADD")
        eye = Eye(news)
        await world.settle()
        await eye.close()
        return eye.seen


async def test_steps_that_together_are_too_large_for_one_answer_come_in_several() -> None:
    assert await _missed(*app_of(40_000), 60) == list(range(1, 61))


async def test_a_step_that_is_too_large_with_its_event_comes_in_two() -> None:
    assert await _missed(*app_of(700_000, noise=500_000), 2) == ["1", 1, "2", 2]


async def test_who_is_behind_by_too_many_bytes_gets_a_fresh_snapshot() -> None:
    assert await _missed(*app_of(900_000), 4) == [1, 2, 3, 4]
    assert await _missed(*app_of(900_000), 5) == [5]
    assert await _missed(*app_of(10_000, noise=900_000), 5) == [5]


async def test_news_is_not_kept_for_those_who_went(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "GONE_MS", 60_000)
    app, cls = app_of(900_000)
    async with app.world() as world:
        large = world.get(cls, "l")
        await large.start()
        eye = Eye(app.watch(cls, "l"))
        await world.settle()
        await large.send("ADD")
        await world.settle()
        awake = world.node.awake[ObjectId("Large", "l")]
        assert awake.watched is not None
        await eye.close()
        for _ in range(6):
            await large.send("ADD")
        assert sum(step.size for step in awake.watched.steps) <= watchers.KEPT_BYTES_MAX
        for _ in range(40):
            await world.advance(seconds=2)
            await large.can("ADD")  # it stays awake
        await large.send("ADD")
        await world.settle()
        assert awake.watched is None


@pytest.mark.parametrize("wanted", [5, None, ["on"]])
async def test_what_can_not_be_waited_for_is_said_at_once(wanted: Any) -> None:
    app, counter = app_with()
    async with app.world() as world, app.watch(counter, "a") as watch:
        await world.get(counter, "a").start()
        with pytest.raises(errors.BadOption) as found:
            await watch.wait_for(wanted)
        assert found.value.code == "watch.wanted"
