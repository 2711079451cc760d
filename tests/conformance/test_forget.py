"""An object that is forgotten: nothing of it is left anywhere, whoever waited for it is told, and it begins anew; on every store."""

import asyncio
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conformance.desk import Desk, failing
from tests.conformance.dump import dump, raw_bytes
from tests.conformance.hall import Hall
from tests.conformance.house import House
from wakeful import App, DurableObject, Machine, Quotas, RetryPolicy, errors
from wakeful.compat.workers.worker import HostedFeature
from wakeful.history.images import bookmark
from wakeful.notices import Notice
from wakeful.operations.acts import Acts
from wakeful.operations.forgets import ObjectChoice
from wakeful.runtime.feature import Feature
from wakeful.security import audit
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.seals import KEY_PREFIX

KEY, MARKER = "alice@example.org", "marker-7f3a"


@dataclass
class Card:
    name: str = ""


class Person(DurableObject):
    """Has something of every kind."""

    history = "30d"
    state: Card

    async def fill(self) -> str:
        self.state.name = MARKER
        await self.storage.put_many({f"{MARKER}-{n}": MARKER * 9 for n in range(30)})
        await self.storage.set_alarm(timedelta(hours=5))
        self.sql("CREATE TABLE IF NOT EXISTS mail (text TEXT)")
        self.sql("INSERT INTO mail VALUES (?)", MARKER)
        await self.schedules.add("@daily", "ring", MARKER, name=f"daily-{MARKER}")
        await self.schedules.add("*/10 * * * *", "ring", MARKER, name="often")
        return MARKER

    async def ring(self, text: str = "") -> None:
        """Nothing."""

    async def fail(self, text: str) -> None:
        raise ValueError(text)

    async def alarm(self) -> None:
        """Nothing."""

    async def claim(self) -> bool:
        return bool(await self.schedules.claim("report", "1d"))

    async def put_row(self, name: str, value: Any) -> None:
        await self.storage.put(name, value)

    async def look(self) -> tuple[Any, ...]:
        alarm, schedules = await self.storage.get_alarm(), await self.schedules.list()
        return self.state.name, await self.storage.list(), alarm, len(schedules)

    async def leave(self) -> str:
        await self.storage.put("last", MARKER)
        await self.ctx.forget()
        await self.storage.set_alarm(timedelta(hours=1))
        return "gone"

    async def stay(self) -> None:
        with suppress(ZeroDivisionError):
            async with self.ctx.transaction():
                await self.ctx.forget()
                raise ZeroDivisionError

    async def on_wake(self) -> None:
        if await self.storage.get("forgets when it wakes"):
            await self.ctx.forget()

    async def break_off(self) -> None:
        await self.ctx.forget()
        raise ValueError("no")


NOTHING: tuple[Any, ...] = ("", {}, None, 0)


def _refuse(notice: Notice) -> None:
    """What is to be told waits, and is parked."""
    raise OSError("nobody is told")


class Town:
    """An app with persons, and one of them who has everything."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.app = App(**options)
        self.Person: Any = self.app.object(Person)
        self.app.on(("parked", "missed"), _refuse, name="each")
        self.app.on(("parked", "missed"), _refuse, name="counted", at_most="1d")

    def world(self, **options: Any) -> Any:
        return self.app.world(store=self.url, **options)

    def of(self, key: str = KEY, **options: Any) -> Any:
        return self.app.get(self.Person, key, **options)

    async def fill(self, world: Any, key: str = KEY) -> None:
        """Rows, pages, state, an alarm, schedules with runs, jobs that are owed, done and failed, an answer."""
        await self.of(key, request_key=f"request-{MARKER}").fill()
        await self.app.jobs.schedule(self.of(key).ring, MARKER, key=f"job-{MARKER}")
        await self.app.jobs.schedule(self.of(key).ring, MARKER, after="2d", metadata={"for": MARKER})
        await self.app.jobs.schedule(self.of(key).fail, MARKER, retry=RetryPolicy(1))
        await world.advance(minutes=25)
        assert len(await world.ledger(self.Person, key)) >= 4
        assert await world.parked()

    async def keys(self) -> list[str]:
        return [info.key async for info in self.app.objects(self.Person)]


def holds_nothing(world: Any, url: str, *words: str) -> None:
    found = dump(world, url)
    for word in words or (KEY, "alice%40example.org", MARKER):
        assert word.encode() not in found, (word, found[max(0, found.find(word.encode()) - 200) :][:500])


async def test_nothing_of_it_is_left_in_the_whole_store(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        await town.fill(world)
        assert KEY.encode() in dump(world, town.url)
        assert await town.app.forget(town.Person, KEY) is True
        holds_nothing(world, town.url)
        assert (await town.keys(), await world.due(), await world.parked()) == ([], [], [])
        await world.advance(days=3)
        holds_nothing(world, town.url)
        assert await town.app.forget(town.Person, KEY) is False
        holds_nothing(world, town.url)


async def test_what_sleeps_is_not_woken_for_it(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        await town.fill(world)
        await world.sleep_all()
        wakes = world.node.meter.wakes.value
        assert await town.app.forget(town.Person, KEY) is True
        assert world.node.meter.wakes.value == wakes
        holds_nothing(world, town.url)


async def test_called_again_it_begins_anew_and_an_old_answer_is_not_given(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        await town.fill(world)
        await town.app.forget(town.Person, KEY)
        assert await town.of().look() == NOTHING
        assert await town.keys() == []
        assert await town.of(request_key=f"request-{MARKER}").fill() == MARKER
        assert (await town.of().look())[3] == 2
        [info] = [info async for info in town.app.objects(town.Person)]
        assert info.created_at == world.now()


async def test_it_waits_for_its_turn_like_a_call_and_others_after_it_meet_nothing_of_it(stage: Any) -> None:
    async with stage.world() as world:

        async def slow(bell: Any) -> None:
            await bell.storage.put("x", 1)
            await asyncio.sleep(0.5)
            await bell.storage.put("y", 2)

        async def look(bell: Any) -> Any:
            return await bell.storage.list(), bell.memory

        running = asyncio.ensure_future(stage.do(slow))
        await asyncio.sleep(0)
        forgetting = asyncio.ensure_future(stage.app.forget(stage.Bell, "a"))
        await asyncio.sleep(0)
        after = stage.do(look)
        assert [await running, await forgetting, await after] == [None, True, ({}, [])]
        assert await world.rows(stage.Bell, "a") == {}


async def test_an_object_forgets_itself_with_its_turn(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        await town.fill(world)
        assert await town.of().leave() == "gone"
        assert await town.of().look() == NOTHING
        await world.settle()
        holds_nothing(world, town.url)
        assert (await town.keys(), await world.due()) == ([], [])


async def test_without_anybody_who_calls_it_goes_as_well_also_over_a_crash(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        await town.fill(world)
        await town.of(request_key="leaving").leave()
        world.kill()
        await world.restart()
        await world.advance(seconds=1)
        holds_nothing(world, town.url)
        assert await town.keys() == []


async def test_a_turn_that_fails_or_takes_it_back_forgets_nothing(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        await town.fill(world)
        before = await town.of().look()
        await town.of().stay()
        with pytest.raises(ValueError, match="no"):
            await town.of().break_off()
        await world.settle()
        assert await town.of().look() == before


async def test_an_object_that_wakes_can_t_forget_itself_yet(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        await town.fill(world)
        await town.of().put_row("forgets when it wakes", True)
        world.node.hibernation.sleep_all()
        with pytest.raises(errors.BadOption, match="while the object wakes"):
            await town.of().look()
        assert await town.app.forget(town.Person, KEY) is True  # from outside it goes, though it can't wake
        assert await town.of().look() == NOTHING


async def test_what_is_forgotten_meanwhile_can_t_be_brought_back(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        await town.fill(world)
        id = ObjectId("Person", KEY)
        world.faults.on_probe = lambda name, _: world.kill() if name == "erase.before" else None
        with suppress(errors.Unavailable, errors.NotRunning):
            await town.app.forget(town.Person, KEY)
        world.faults.on_probe = None
        await world.restart()
        acts = Acts.of_node(world.node, "me")
        with pytest.raises(errors.UnknownObject, match="forgotten"):
            await acts.restore(id, bookmark(0, 0), timers=True)
        assert await town.of().look() == NOTHING


async def test_who_depends_on_its_jobs_is_cancelled_and_does_not_say_on_whose(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        desk.handlers["x"] = failing()
        owed = await desk.jobs.schedule(desk.at(KEY).work, "owed", after=50)
        failed = await desk.jobs.schedule(desk.at(KEY).work, "x", retry=RetryPolicy(1))
        first = await desk.jobs.schedule(desk.at("b").work, "first", depends_on=[owed])
        second = await desk.jobs.schedule(desk.at("c").work, "second", depends_on=[failed])
        await world.settle()
        assert await desk.app.forget(desk.Clerk, KEY)
        await world.settle()
        for job in (first, second):
            found = await desk.jobs.get(job.id)
            assert (found.state, found.error) == ("cancelled", "it depended on a job of an object that was forgotten")
        with pytest.raises(errors.UnknownJob):
            await desk.jobs.get(owed.id)
        holds_nothing(world, stage.url, KEY, "alice%40example.org")
        await world.advance(seconds=100)
        assert desk.labels == ["x"]


async def test_what_its_jobs_wait_for_does_not_know_it_any_more(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        other = await desk.jobs.schedule(desk.at("b").work, "other", after=50)
        await desk.jobs.schedule(desk.at(KEY).work, "mine", depends_on=[other])
        await world.settle()
        assert await desk.app.forget(desk.Clerk, KEY)
        await world.settle()
        holds_nothing(world, stage.url, KEY, "alice%40example.org")
        await world.advance(seconds=60)
        assert desk.labels == ["other"]
        holds_nothing(world, stage.url, KEY, "alice%40example.org")


async def test_what_it_sent_to_others_runs_all_the_same(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:

        async def send(clerk: Any) -> None:
            await clerk.jobs.schedule(desk.at("b").work, "sent", after=5)
            await clerk.ctx.forget()

        await desk.do(send, KEY)
        await world.advance(seconds=10)
        assert desk.labels == ["sent"]


async def test_who_waits_for_one_of_its_jobs_waits_no_longer(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        job = await desk.jobs.schedule(desk.at(KEY).work, "owed", after=5_000)
        waiting = asyncio.ensure_future(desk.jobs.wait(job.id))
        await world.settle()
        await desk.app.forget(desk.Clerk, KEY)
        with pytest.raises((errors.JobCancelled, errors.UnknownJob)):
            await waiting


async def test_a_job_that_is_scheduled_afterwards_runs_in_the_new_one(stage: Any) -> None:
    desk = Desk(stage)
    async with desk.world() as world:
        before = await desk.jobs.schedule(desk.at(KEY).work, "before", after=5, key="k")
        await desk.app.forget(desk.Clerk, KEY)
        after = await desk.jobs.schedule(desk.at(KEY).work, "after", after=9, key="k")
        await world.advance(seconds=20)
        assert (desk.labels, before.id == after.id, await desk.state(after)) == (["after"], True, "done")


async def test_the_machines_that_it_started_go_with_it(stage: Any) -> None:
    house = House()
    async with house.app.world(store=stage.url) as world:
        parent = house.app.get(house.Parent, KEY)
        await parent.send("GO")
        await world.settle()
        assert await house.app.count(house.Pet) == 1
        assert await house.app.forget(house.Parent, KEY)
        holds_nothing(world, stage.url, KEY)
        await world.advance(hours=12)
        holds_nothing(world, stage.url, KEY)
        assert await world.due() == []


async def test_a_machine_whose_child_is_forgotten_hears_of_an_error(stage: Any) -> None:
    house = House()
    async with house.app.world(store=stage.url) as world:
        parent = house.app.get(house.Parent, "p")
        await parent.send("GO")
        await world.settle()
        assert await house.app.forget(house.Child, "p/kid")
        await world.settle()
        assert (await parent.snapshot()).value == "failed"
        assert await house.app.count(house.Child) == await house.app.count(house.Pet) == 0


@pytest.mark.parametrize("ended", [False, True])
async def test_a_forgotten_child_is_not_made_anew_when_its_parent_goes_on(stage: Any, ended: bool) -> None:
    app = App()

    @app.object
    class Kid(Machine):
        chart = {"initial": "up", "states": {"up": {"on": {"END": "done"}}, "done": {"type": "final"}}}

    @app.object
    class Mother(Machine):
        chart = {
            "initial": "with",
            "states": {"with": {"invoke": {"id": "kid", "src": "Kid"}, "on": {"ON": "without"}}, "without": {}},
        }

    async with app.world(store=stage.url) as world:
        await app.get(Mother, "m").start()
        await world.settle()
        if ended:
            await app.get(Kid, "m/kid").send("END")
            await world.settle()
        assert await app.forget(Kid, "m/kid")
        await world.settle()
        assert await app.count(Kid) == 0
        with suppress(errors.Conflict):  # an error that no state expects has stopped it
            await app.get(Mother, "m").send("ON")
        await world.settle()
        assert await app.count(Kid) == 0  # no letter that stops it has come to it


async def test_its_clients_are_sent_away_and_nothing_wakes_for_that(stage: Any) -> None:
    hall = Hall()
    async with hall.app.world(store=stage.url) as world:
        client = await world.connect(hall.Room, KEY)
        await world.settle()
        assert await hall.app.forget(hall.Room, KEY)
        await world.settle()
        assert client.closed == (1001, "the object was forgotten")
        await world.advance(seconds=20)
        holds_nothing(world, stage.url, KEY)


async def test_it_counts_for_its_tenant_no_more_and_what_it_claimed_is_nobodys(stage: Any) -> None:
    town = Town(stage.url, quotas=Quotas(schedules=2))
    async with town.world() as world:
        await town.of(f"acme/{KEY}").fill()
        assert await town.of(f"acme/{KEY}").claim() is True
        assert await town.app.forget(town.Person, f"acme/{KEY}")
        holds_nothing(world, town.url, KEY)
        assert await town.of("acme/other").claim() is False
        await town.of("acme/other").fill()
        assert await town.app.forget_all("acme/") == 1
        holds_nothing(world, town.url, KEY, "acme")


async def test_a_whole_tenant_goes_by_its_prefix_and_no_other(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        for key in ("acme/1", "acme/2", "acme2/1", "bolt/1"):
            await town.of(key).fill()
        assert await town.app.forget_all("acme/", town.Person) == 2
        assert await town.keys() == ["acme2/1", "bolt/1"]
        assert await town.app.forget_all("acme/") == 0
        with pytest.raises(errors.BadOption):
            await town.app.forget_all("")
        assert "acme/" not in str(await world.due())


async def test_a_large_one_goes_in_pieces_and_others_go_on_between(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakeful.runtime.erasure.PIECE", 7)
    desk = Desk(stage)
    async with desk.world() as world:

        async def much(clerk: Any) -> None:
            await clerk.storage.put_many({f"row-{n}": MARKER for n in range(40)})
            for n in range(20):
                await clerk.jobs.schedule(desk.at(KEY).work, n, after=100)

        await desk.do(much, KEY)
        assert await desk.app.forget(desk.Clerk, KEY)
        holds_nothing(world, stage.url)
        assert await world.due() == []


@pytest.mark.parametrize("by", ["app", "itself"])
async def test_a_crash_at_every_step_leaves_what_was_or_nothing_and_a_second_run_finishes(by: str) -> None:
    done = number = 0
    while not done:
        number += 1
        town = Town("memory:")
        async with town.world() as world:
            await town.fill(world)
            before = await town.of().look()
            last = world.faults.probes + number

            def crash(_: str, count: int, last: int = last, world: Any = world) -> None:
                if count == last:
                    world.kill()

            world.faults.on_probe = crash
            with suppress(errors.Unavailable, errors.NotRunning):
                await (town.app.forget(town.Person, KEY) if by == "app" else town.of().leave())
                await world.settle()
            done = world.faults.probes < last
            world.faults.on_probe = None
            if not done:
                await world.restart()
                assert await town.of().look() in (before, NOTHING), number
                await town.app.forget(town.Person, KEY)
            holds_nothing(world, town.url)
            assert (await town.keys(), await world.due(), await world.parked()) == ([], [], []), number
    assert number > 10


async def test_it_is_finished_by_itself_when_whoever_asked_died(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        await town.fill(world)
        world.faults.on_probe = lambda name, _: world.kill() if name == "erase.before" else None
        with suppress(errors.Unavailable, errors.NotRunning):
            await town.app.forget(town.Person, KEY)
        world.faults.on_probe = None
        await world.restart()
        assert MARKER.encode() in dump(world, town.url)
        await world.advance(minutes=2)
        holds_nothing(world, town.url)


async def test_the_bytes_of_the_file_are_gone_once_it_is_vacuumed(tmp_path: Path) -> None:
    town = Town(f"sqlite:{tmp_path}/town.db")
    async with town.world() as world:
        await town.fill(world)
        await town.app.forget(town.Person, KEY)
    db = sqlite3.connect(tmp_path / "town.db")
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    found = raw_bytes(tmp_path)
    assert (KEY.encode() in found, MARKER.encode() in found) == (False, False)


async def test_the_audit_log_does_not_name_it_and_knows_it_again(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        await town.fill(world)
        acts = Acts.of_node(world.node, "me")
        id = ObjectId("Person", KEY)
        await acts.pause(id, "often", note=MARKER)
        with suppress(errors.UnknownSchedule):
            await acts.pause(ObjectId("Person", f"{KEY}2"), "often")
        assert await acts.forget(ObjectChoice("Person", KEY)) == 1
        assert await acts.forget(ObjectChoice("Person", KEY)) == 0
        rows = (await audit.page(world.store)).rows
        forgets = [row for row in rows if row["act"] == "forget"]
        assert [row["outcome"] for row in forgets] == ["nothing", "done"]
        pauses = [(row["actor"], row["target"], row["detail"]) for row in rows if row["act"] == "schedule.pause"]
        assert pauses[-1] == ("me", forgets[0]["target"], {})
        assert [row["target"] for row in rows].count(f"Person/{KEY}2 often") == 1
        holds_nothing(world, town.url, MARKER)


async def test_the_audit_rows_of_others_stay_as_they_are(stage: Any) -> None:
    town = Town(stage.url)
    async with town.world() as world:
        acts = Acts.of_node(world.node, "me")
        others = [f"{KEY}{more}" for more in ("/ada", "-2", ".x", "@y", "2")]
        for key in others:
            await town.of(key).fill()
            await acts.pause(ObjectId("Person", key), "often")
        before = [row for row in (await audit.page(world.store)).rows if row["act"] == "schedule.pause"]
        assert await acts.forget(ObjectChoice("Person", KEY)) == 0
        await acts.forget(ObjectChoice("son", f"{KEY}2"))
        assert [row for row in (await audit.page(world.store)).rows if row["act"] == "schedule.pause"] == before
        assert len(before) == len(others)


async def test_in_a_cluster_its_owner_forgets_it_whoever_asks_and_another_goes_on_when_that_dies() -> None:
    town = Town("memory:")
    async with town.world() as world:
        members = await world.nodes(3)
        for n in range(12):
            await town.of(f"p/{n}").fill()
        assert await town.app.forget_all("p/") == 12
        holds_nothing(world, town.url, "p/", MARKER)
        await town.of("p/0").fill()
        owner = next(member for member in members if shard_of(ObjectId("Person", "p/0")) in member.node.epochs)
        owner.faults.on_probe = lambda name, _: owner.kill() if name == "erase.before" else None
        with suppress(errors.WakefulError):
            await town.app.forget(town.Person, "p/0")
        await world.advance(minutes=3)
        holds_nothing(world, town.url, "p/", MARKER)


async def test_what_it_sends_into_another_store_with_its_last_turn_arrives() -> None:
    desk = Desk(SimpleNamespace(url="memory:"), stores={"eu/": "memory:"})
    async with desk.world() as world:

        async def send(clerk: Any) -> None:
            await clerk.jobs.schedule(desk.at("b").work, "sent", after=5)
            await clerk.ctx.forget()

        await desk.do(send, "eu/a")
        await world.advance(seconds=10)
        assert desk.labels == ["sent"]
        assert [info.key async for info in desk.app.objects(desk.Clerk)] == ["b"]


async def test_of_a_sealed_store_it_goes_as_well(tmp_path: Path) -> None:
    town = Town(f"sqlite:{tmp_path}/town.db", keys=[KEY_PREFIX + "ab" * 32])
    async with town.world() as world:
        await town.fill(world)
        await town.app.forget(town.Person, KEY)
        holds_nothing(world, town.url)
        assert await town.of().look() == NOTHING


async def test_one_whose_class_the_program_does_not_have_any_more_goes_as_well(tmp_path: Path) -> None:
    town = Town(f"sqlite:{tmp_path}/town.db")
    async with town.world() as world:
        await town.fill(world)
    async with App().world(store=town.url) as world:
        assert await Acts.of_node(world.node, "me").forget(ObjectChoice("Person", KEY)) == 1
        holds_nothing(world, town.url)


def test_every_feature_says_what_it_keeps_elsewhere() -> None:
    found = {type(feature) for feature in App().deployment.features} | {HostedFeature}
    assert {cls.__name__ for cls in Feature.__subclasses__() if "erase" not in vars(cls)} == set()
    assert found == {cls for cls in Feature.__subclasses__() if cls.__module__.startswith("wakeful.")}
