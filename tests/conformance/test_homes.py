"""A program on several stores: objects live where their class or key says, calls go between, faults stay apart."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from wakeful import App, DurableObject, JobSpec, Queue, every
from wakeful.store.protocol import Query
from wakeful.values.errors import BadInput, Unavailable


def the_app(**options: Any) -> tuple[App, Any, Any]:
    app = App(**options)

    @app.object
    class Account(DurableObject):
        async def add(self, amount: int) -> int:
            total = await self.storage.get("total", 0) + amount
            await self.storage.put("total", total)
            return int(total)

        async def pay(self, other: str, amount: int) -> int:
            await self.add(-amount)
            return int(await self.ctx.get(Account, other).add(amount))

        async def ring_in(self, seconds: int) -> None:
            await self.storage.set_alarm(timedelta(seconds=seconds))

        async def alarm(self) -> None:
            await self.storage.put("rang", self.ctx.now())

        async def forward(self, other: str, amount: int) -> None:
            await self.jobs.schedule(self.ctx.get(Account, other).add, amount, after="5s")

        async def fail_after_forward(self, other: str) -> None:
            await self.forward(other, 100)
            raise ValueError("no")

        @every("1m", name="beat")
        async def beat(self) -> None:
            await self.storage.put("beats", await self.storage.get("beats", 0) + 1)

    @app.object
    class Invoice(DurableObject):
        async def note(self, text: str) -> None:
            await self.storage.put("text", text)

    return app, Account, Invoice


async def test_an_object_lives_in_the_store_that_its_class_or_the_beginning_of_its_key_names() -> None:
    app, account, invoice = the_app(stores={"eu/": "memory:", "eu/de/": "memory:", "Invoice": "memory:"})
    async with app.world() as world:
        for key in ("us/1", "eu/1", "eu/de/1"):
            await world.get(account, key).add(1)
        await world.get(invoice, "eu/1").note("x")
        main, eu, de, invoices = [world.store, *world._beside.stores()]
        places = {"us/1": main, "eu/1": eu, "eu/de/1": de}
        for key, place in places.items():
            for store in (main, eu, de, invoices):
                found = await store.find_objects(Query(cls="Account", key=key))
                assert bool(found) is (store is place), (key, store)
        assert await world.rows(invoice, "eu/1") == {"text": "x"}
        assert len(await invoices.find_objects(Query(cls="Invoice"))) == 1


async def test_calls_timers_and_schedules_work_the_same_in_every_store() -> None:
    app, account, _ = the_app(stores={"eu/": "memory:"})
    async with app.world() as world:
        assert await world.get(account, "us/1").pay("eu/1", 7) == 7
        assert await world.get(account, "eu/1").pay("us/2", 3) == 3
        await world.get(account, "eu/1").ring_in(30)
        await world.advance(minutes=2)
        rows = await world.rows(account, "eu/1")
        assert rows["total"] == 4
        assert "rang" in rows
        assert rows["beats"] == 2
        assert [run.verdict for run in await world.ledger(account, "eu/1", "beat")] == ["run", "run"]
        await world.crash()
        await world.restart(after="10s")
        assert await world.get(account, "eu/1").add(0) == 4


async def test_a_cycle_of_calls_through_two_stores_is_found() -> None:
    app = App(stores={"b/": "memory:"})

    @app.object
    class Ring(DurableObject):
        async def go(self, path: list[str]) -> str:
            return "end" if not path else await self.ctx.get(Ring, path[0]).go(path[1:])

    async with app.world() as world:
        assert await world.get(Ring, "a/1").go(["b/1", "a/2"]) == "end"
        with pytest.raises(Exception, match="waiting for this very call"):
            await world.get(Ring, "a/1").go(["b/1", "a/1"])


async def test_a_store_that_is_away_takes_only_its_own_objects_with_it() -> None:
    app, account, _ = the_app(stores={"eu/": "memory:"})
    async with app.world() as world:
        await world.get(account, "eu/1").add(1)
        world._beside.faults["eu/"].is_down = True
        with pytest.raises(Unavailable):
            await world.get(account, "eu/1").add(1)
        assert await world.get(account, "us/1").add(5) == 5
        world._beside.faults["eu/"].is_down = False
        await world.advance(seconds=10)
        assert await world.get(account, "eu/1").add(1) == 2


async def test_a_job_into_another_store_goes_with_the_turn_that_schedules_it_and_runs_once() -> None:
    app, account, _ = the_app(stores={"eu/": "memory:"})
    async with app.world() as world:
        await world.get(account, "us/1").forward("eu/1", 9)
        with pytest.raises(ValueError, match="no"):
            await world.get(account, "us/1").fail_after_forward("eu/1")
        await world.advance(seconds=10)
        assert (await world.rows(account, "eu/1"))["total"] == 9


async def test_a_job_into_another_store_survives_a_crash_at_every_trip_to_disk() -> None:
    for crash_at in range(1, 40):
        app, account, _ = the_app(stores={"eu/": "memory:"})
        async with app.world() as world:
            await world.get(account, "us/1").add(0)
            seen = 0

            def probe(name: str, number: int, world: Any = world, crash_at: int = crash_at) -> None:
                nonlocal seen
                seen += 1
                if seen == crash_at:
                    world.kill()

            world.faults.on_probe = probe
            for faults in world._beside.faults.values():
                faults.on_probe = probe
            acknowledged = False
            try:
                await world.get(account, "us/1").forward("eu/1", 9)
                acknowledged = True
            except Unavailable:
                pass
            await world.advance(seconds=20)
            if seen < crash_at:
                return  # every trip has been crashed at
            world.faults.on_probe = None
            for faults in world._beside.faults.values():
                faults.on_probe = None
            await world.restart(after="1s")
            await world.advance(minutes=5)
            total = (await world.rows(account, "eu/1")).get("total", 0)
            assert total == 9 if acknowledged else total in (0, 9), crash_at


async def test_a_queue_holds_over_stores_and_loses_no_place_when_the_process_dies() -> None:
    for crash_at in (0, *range(1, 60, 3)):
        app, account, _ = the_app(stores={"eu/": "memory:"})
        async with app.world() as world:
            seen = 0

            def probe(name: str, number: int, world: Any = world, crash_at: int = crash_at) -> None:
                nonlocal seen
                seen += 1
                if seen == crash_at:
                    world.kill()

            queue = Queue("q", concurrency=1)
            for key in ("us/1", "eu/1", "eu/2"):
                await app.jobs.schedule(world.get(account, key).add, 1, queue=queue)
            for faults in (world.faults, *world._beside.faults.values()):
                faults.on_probe = probe
            await world.advance(seconds=5)
            for faults in (world.faults, *world._beside.faults.values()):
                faults.on_probe = None
            if 0 < crash_at <= seen:
                await world.restart(after="1s")
            await world.advance(minutes=5)
            totals = [(await world.rows(account, key)).get("total") for key in ("us/1", "eu/1", "eu/2")]
            assert totals == [1, 1, 1], crash_at
            info = await app.queues.get("q")
            assert (info.running, info.waiting) == (0, 0), crash_at


async def test_jobs_are_found_and_cancelled_in_whichever_store_they_are() -> None:
    app, account, _ = the_app(stores={"eu/": "memory:"})
    async with app.world() as world:
        here = await app.jobs.schedule(world.get(account, "us/1").add, 1, after="1h")
        there = await app.jobs.schedule(world.get(account, "eu/1").add, 1, after="1h", key="k")
        assert {job.id for job in await app.jobs.list()} == {here.id, there.id}
        assert (await app.jobs.get(there.id)).state == "scheduled"
        assert await app.jobs.cancel(there.id) is True
        specs = [JobSpec(world.get(account, key).add, (2,), after="1s") for key in ("us/1", "eu/1")]
        assert len(await app.jobs.schedule_many(specs)) == 2
        first = await app.jobs.list(limit=2)
        rest = await app.jobs.list(limit=2, after=first.next)
        assert [job.target.key for job in [*first, *rest]].count("eu/1") == 2, "the cancelled one is listed too"
        await world.advance(hours=2)
        assert (await world.rows(account, "us/1"))["total"] == 3
        assert (await world.rows(account, "eu/1"))["total"] == 2


@pytest.mark.parametrize("place", ["wakeful.Function", "", "a\n/", "two words", 7])
def test_a_place_that_is_no_class_and_no_beginning_of_keys_is_refused(place: Any) -> None:
    with pytest.raises(BadInput):
        App(stores={place: "memory:"})


async def test_two_sqlite_files_are_two_stores(tmp_path: Path) -> None:
    app, account, _ = the_app(stores={"eu/": f"sqlite:{tmp_path}/eu.db"})
    async with app.run(f"sqlite:{tmp_path}/main.db"):
        assert await app.get(account, "us/1").pay("eu/1", 5) == 5
    other, account, _ = the_app()
    async with other.run(f"sqlite:{tmp_path}/eu.db"):
        assert await other.get(account, "eu/1").add(0) == 5
