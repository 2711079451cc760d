"""Migrations of what objects keep: once each, in order, before the object's first code, with its commit; on every store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conformance.acts import Expected
from tests.conformance.cluster_stage import Cluster
from wakeful import App, DurableObject, Limits, Unavailable, reader
from wakeful.importers import archive
from wakeful.runtime.migrations import encode_number, number_in
from wakeful.runtime.registry import Registry
from wakeful.store.protocol import WHOLE_ROWS_MAX
from wakeful.testing import World
from wakeful.values.codec import encode
from wakeful.values.commits import MIGRATIONS_SLOT, STATE_SLOT
from wakeful.values.errors import BadOption, MigrationFailed, ObjectTooNew, ReadOnly
from wakeful.values.ids import ObjectId

Steps = Sequence[Callable[[Any], Any]]
SHOP = ObjectId("Shop", "a")


@dataclass
class Old:
    sum: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass
class New:
    total: int = 0
    notes: list[str] = field(default_factory=list)


def program(
    *steps: Any, state: Any = None, wakes: Callable[[Any], Any] | None = None, said: list[str] | None = None
) -> Any:
    """The class of a program with these migrations; the world knows it as Shop."""
    heard = said if said is not None else []

    class Shop(DurableObject):
        migrations = [*steps]

        def __init__(self, ctx: Any) -> None:
            super().__init__(ctx)
            heard.append("constructor")

        async def on_wake(self) -> None:
            heard.append("on_wake")
            if wakes is not None:
                await wakes(self)

        async def put(self, key: str, value: Any) -> None:
            heard.append("put")
            await self.storage.put(key, value)

        async def look(self, key: str) -> Any:
            heard.append("look")
            return await self.storage.get(key)

        @reader
        async def all(self) -> dict[str, Any]:
            return await self.storage.list()

        @reader
        async def cheat(self) -> None:
            await self.storage.put("x", 1)

        async def fail(self) -> None:
            await self.storage.put("half", 1)
            raise Expected

        async def change(self, **fields: Any) -> None:
            for name, value in fields.items():
                setattr(self.state, name, value)

        @reader
        async def shown(self) -> Any:
            return self.state

        async def empty(self) -> None:
            await self.storage.delete_all()

        async def later(self, seconds: int = 300) -> None:
            await self.storage.set_alarm(timedelta(seconds=seconds))

        async def alarm(self) -> None:
            heard.append("alarm")
            await self.storage.put("rang", True)

        async def tick(self) -> None:
            heard.append("tick")

    if state is not None:
        Shop.__annotations__["state"] = state
    return Shop


class Deploys:
    """Puts one version of the program after the other on the same store."""

    def __init__(self, url: str, **options: Any) -> None:
        self.app = App(**options)
        self.world: World = self.app.world(store=url)

    async def to(self, *steps: Any, key: str = "a", **options: Any) -> Any:
        await self.world.crash()
        self.app.deployment.registry = Registry()
        cls = program(*steps, **options)
        self.app.object(cls)
        await self.world.restart()
        return self.world.get(cls, key)

    async def number(self, id: ObjectId = SHOP) -> int | None:
        """How many migrations the store says it has had; None: there is no such object."""
        [loaded] = await self.world.store.load([id])
        return None if loaded.info is None else number_in(loaded.rows)

    async def rows(self, key: str = "a") -> dict[str, Any]:
        return await self.world.rows(self.app.deployment.registry.by_name("Shop").cls, key)


@pytest.fixture
def deploys(store_url: str) -> Deploys:
    return Deploys(store_url)


async def first(self: Any) -> None:
    await self.storage.put("one", 1)


def second(self: Any) -> None:
    self.storage.put("two", 2)  # not awaited: it is in the turn all the same


async def third(self: Any) -> None:
    await self.storage.put("three", await self.storage.get("one") + await self.storage.get("two"))


async def nothing(self: Any) -> None:
    await self.storage.get("x")


async def broken(self: Any) -> None:
    await self.storage.put("half", 1)
    raise Expected("of its own")


async def rename(self: Any) -> None:
    raw = self.ctx.raw_state
    if "sum" in raw:
        raw["total"] = raw.pop("sum")


async def test_each_runs_once_in_order_before_the_first_code_of_the_object(deploys: Deploys) -> None:
    said: list[str] = []

    def say(name: str) -> Any:
        async def step(self: Any) -> None:
            said.append(name)
            assert vars(self).keys() == {"ctx"}  # its constructor has not run

        step.__name__ = name
        return step

    async with deploys.world as world:
        shop = await deploys.to(said=said)
        await shop.put("x", 1)
        said.clear()
        one, two, three = say("one"), say("two"), say("three")
        shop = await deploys.to(one, two, said=said)
        assert await shop.look("x") == 1
        assert said == ["one", "two", "constructor", "on_wake", "look"]
        await world.sleep_all()
        await shop.look("x")
        assert said[5:] == ["constructor", "on_wake", "look"]
        said.clear()
        await (await deploys.to(one, two, three, said=said)).look("x")
        assert said == ["three", "constructor", "on_wake", "look"]
        assert await deploys.number() == 3


async def test_they_see_what_those_before_them_wrote_and_commit_with_their_number(deploys: Deploys) -> None:
    async with deploys.world as world:
        await (await deploys.to()).put("x", 1)
        shop = await deploys.to(first, second, third)
        real, commits = world.node.store.commit, []

        async def commit(node: str, some: Any) -> Any:
            commits.extend(some)
            return await real(node, some)

        world.node.store.commit = commit  # type: ignore[method-assign]
        assert await shop.look("three") == 3
        written = [{name for _, name in commit.puts} for commit in commits if commit.puts]
        assert written == [{"one", "two", "three", "migrations"}]
        assert await deploys.number() == 3


async def test_a_field_of_the_state_is_renamed_before_it_is_decoded(deploys: Deploys) -> None:
    async with deploys.world:
        await (await deploys.to(state=Old)).change(sum=7, notes=["kept"])
        seen: list[int] = []

        async def wakes(self: Any) -> None:
            seen.append(self.state.total)

        shop = await deploys.to(rename, state=New, wakes=wakes)
        assert await shop.shown() == New(7, ["kept"])
        assert seen == [7]
        await shop.change(total=8)
        assert await (await deploys.to(rename, state=New)).shown() == New(8, ["kept"])
        [loaded] = await deploys.world.store.load([SHOP])
        assert b"sum" not in loaded.rows[STATE_SLOT]


async def test_a_state_that_a_class_has_no_more_becomes_rows(deploys: Deploys) -> None:
    async def split(self: Any) -> None:
        for number, note in enumerate(self.ctx.raw_state.pop("notes", ())):
            await self.storage.put(f"note:{number}", note)
        self.ctx.raw_state.clear()

    async with deploys.world as world:
        await (await deploys.to(state=Old)).change(sum=7, notes=["a", "b"])
        assert await (await deploys.to(split)).all() == {"note:0": "a", "note:1": "b"}
        [loaded] = await world.store.load([SHOP])
        assert STATE_SLOT not in loaded.rows


async def test_a_savepoint_in_a_migration_undoes_the_raw_state_as_well(deploys: Deploys) -> None:
    async def tries(self: Any) -> None:
        raw = self.ctx.raw_state
        raw["total"] = raw.pop("sum")
        try:
            async with self.storage.transaction():
                raw["total"], raw["notes"] = 99, []
                raise Expected
        except Expected:
            raw["notes"].append("tried")

    async with deploys.world:
        await (await deploys.to(state=Old)).change(sum=7, notes=["a"])
        assert await (await deploys.to(tries, state=New)).shown() == New(7, ["a", "tried"])


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "old"])
async def test_one_that_fails_is_named_and_nothing_is_kept_until_it_works(deploys: Deploys, is_new: bool) -> None:
    async with deploys.world:
        if not is_new:
            await (await deploys.to()).put("x", 1)
        shop = await deploys.to(first, broken)
        for _ in range(2):
            with pytest.raises(
                MigrationFailed, match=r"migration 2 of Shop/a, broken, failed: Expected: of its own"
            ) as caught:
                await shop.put("y", 2)
            assert (caught.value.code, type(caught.value.__cause__)) == ("migration.failed", Expected)
            assert await deploys.rows() == ({} if is_new else {"x": 1})
            assert await deploys.number() == (None if is_new else 0)
        shop = await deploys.to(first, second)
        await shop.put("y", 2)
        assert await deploys.rows() == ({} if is_new else {"x": 1}) | {"one": 1, "two": 2, "y": 2}
        assert await deploys.number() == 2


async def test_an_on_wake_that_raises_undoes_them_too(deploys: Deploys) -> None:
    ok = [False]

    async def wakes(self: Any) -> None:
        await self.storage.put("woken", await self.storage.get("one"))
        if not ok[0]:
            raise Expected

    async with deploys.world:
        await (await deploys.to()).put("x", 1)
        shop = await deploys.to(first, wakes=wakes)
        with pytest.raises(Expected):
            await shop.look("x")
        assert (await deploys.rows(), await deploys.number()) == ({"x": 1}, 0)
        ok[0] = True
        assert await shop.look("woken") == 1
        assert await deploys.number() == 1


async def test_what_was_asked_for_fails_and_the_migrations_stay(deploys: Deploys) -> None:
    """They are the turn in which the object wakes: one call that always fails can't hold them up."""
    async with deploys.world:
        await (await deploys.to()).put("x", 1)
        with pytest.raises(Expected):
            await (await deploys.to(first)).fail()
        assert (await deploys.rows(), await deploys.number()) == ({"x": 1, "one": 1}, 1)


async def test_a_reader_that_wakes_an_object_migrates_it_first(deploys: Deploys) -> None:
    async with deploys.world:
        await (await deploys.to()).put("x", 1)
        shop = await deploys.to(first)
        assert await shop.all() == {"one": 1, "x": 1}
        assert await deploys.number() == 1


@pytest.mark.parametrize("steps", [[first, second], [nothing]], ids=["that write", "that write nothing"])
async def test_to_read_an_object_that_is_nowhere_does_not_make_it(deploys: Deploys, steps: Steps) -> None:
    seen = {"one": 1, "two": 2} if first in steps else {}
    async with deploys.world:
        shop = await deploys.to(*steps)
        for _ in range(2):
            assert await shop.all() == seen
            assert await deploys.number() is None
        with pytest.raises(ReadOnly):
            await shop.cheat()
        assert await deploys.number() is None
        await shop.put("x", 1)
        assert await shop.all() == seen | {"x": 1}
        assert await deploys.number() == len(steps)


async def test_an_on_wake_that_writes_makes_the_object_with_its_number(deploys: Deploys) -> None:
    async def wakes(self: Any) -> None:
        self.state.total += 1

    async with deploys.world:
        shop = await deploys.to(first, state=New, wakes=wakes)
        assert await shop.shown() == New(1)
        assert (await deploys.rows(), await deploys.number()) == ({"one": 1}, 1)


async def test_an_object_that_could_not_wake_has_had_none(deploys: Deploys) -> None:
    async def wakes(self: Any) -> None:
        await self.storage.put("half", 1)
        raise Expected

    async with deploys.world as world:
        shop = await deploys.to(nothing, wakes=wakes)
        with pytest.raises(Expected):
            await shop.look("x")
        await deploys.app.jobs.schedule(shop.tick, at=world.now() + timedelta(days=9))  # now it is somewhere
        assert await deploys.number() == 0


async def test_the_number_of_a_new_object_goes_with_whatever_it_writes_first(deploys: Deploys) -> None:
    async with deploys.world:
        shop = await deploys.to(nothing)
        assert await shop.look("x") is None
        assert await deploys.number() is None
        await shop.later()
        assert await deploys.number() == 1


async def test_the_number_is_none_of_the_objects_own_rows(deploys: Deploys) -> None:
    async with deploys.world as world:
        shop = await deploys.to(first)
        await shop.put("x", 1)
        assert await shop.all() == {"one": 1, "x": 1}
        await shop.empty()
        assert await shop.all() == {}
        await world.sleep_all()
        assert await shop.all() == {}  # what it has had it has had
        assert await deploys.number() == 1


@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("known", [[first], []], ids=["one of two", "none"])
async def test_an_older_program_is_refused_and_writes_nothing(deploys: Deploys, known: Steps, is_large: bool) -> None:
    async with deploys.world as world:
        shop = await deploys.to(first, second)
        for number in range(2 * WHOLE_ROWS_MAX if is_large else 1):
            await shop.put(f"x{number:02}", number)
        before = await deploys.rows()
        shop = await deploys.to(*known)
        words = rf"Shop/a has had 2 migrations, and this program has {len(known)} for Shop.*roll-out"
        for ask in (lambda: shop.put("y", 2), lambda: shop.look("y"), lambda: shop.all(), lambda: shop.later()):
            with pytest.raises(ObjectTooNew, match=words) as caught:
                await ask()
            assert caught.value.code == "object.newer"
            assert isinstance(caught.value, Unavailable)
        assert (await deploys.rows(), await deploys.number()) == (before, 2)
        assert world.node.state == "up"
        assert await (await deploys.to(first, second)).look("x00") == 0


@pytest.mark.parametrize("kind", ["alarm", "job", "schedule"])
async def test_its_timers_wait_for_a_program_that_knows_it(deploys: Deploys, kind: str) -> None:
    said: list[str] = []
    async with deploys.world as world:
        shop = await deploys.to(first, second)
        await shop.put("x", 1)
        cls = deploys.app.deployment.registry.by_name("Shop").cls
        if kind == "alarm":
            await shop.later()
        elif kind == "job":
            await deploys.app.jobs.schedule(shop.tick, at=world.now() + timedelta(minutes=5))
        else:
            await deploys.app.schedules(cls, "a").add("every 5m", cls.tick, name="tick")
        [timer] = await world.due()
        for _ in range(2):  # it dies in between, and not of a timer that waits
            await deploys.to(first, said=said)
            await world.advance(hours=1)
            assert said == []
            assert await world.parked() == []
            [left] = await world.due()
            assert (left.due_at, left.seq) == (timer.due_at, timer.seq)
            assert (left.attempt, left.crashes, left.started) == (0, 0, 0)
        assert await world.ledger(cls, "a") == []
        assert world.node.dispatcher.unknown == {"Shop 2"}
        assert not world.node.queue.running
        await deploys.to(first, second, said=said)
        await world.advance(seconds=1)
        assert said[-1] == ("alarm" if kind == "alarm" else "tick")
        runs = [run for run in await world.ledger(cls, "a") if run.verdict == "run"]
        assert [run.attempt for run in runs[:1]] == [0]


@pytest.mark.parametrize("kind", ["alarm", "job"])
async def test_a_timer_whose_migration_fails_is_tried_again_parked_and_redriven(deploys: Deploys, kind: str) -> None:
    said: list[str] = []
    async with deploys.world as world:
        shop = await deploys.to()
        await (shop.later() if kind == "alarm" else deploys.app.jobs.schedule(shop.tick, after="5m"))
        await deploys.to(broken, said=said)
        await world.advance(days=3)
        [parked] = await world.parked()
        assert "migration 1 of Shop/a, broken, failed" in parked.error
        assert said == []
        await deploys.to(first, said=said)
        await world.node.redrive(parked)
        await world.advance(seconds=1)
        assert said[-1] == ("alarm" if kind == "alarm" else "tick")
        assert await deploys.number() == 1


async def test_a_schedule_whose_migration_fails_goes_on_when_it_works(deploys: Deploys) -> None:
    said: list[str] = []
    async with deploys.world as world:
        shop = await deploys.to()
        await shop.put("x", 1)
        cls = deploys.app.deployment.registry.by_name("Shop").cls
        await deploys.app.schedules(cls, "a").add("every 1h", cls.tick, name="tick")
        await deploys.to(broken, said=said)
        await world.advance(hours=5)
        assert said == []
        assert {run.verdict for run in await world.ledger(cls, "a")} >= {"failed"}
        await deploys.to(first, said=said)
        await world.advance(hours=2)
        assert said.count("tick") >= 2
        assert await deploys.rows() == {"one": 1, "x": 1}


@pytest.mark.parametrize("when", ["commit.before", "commit.after"])
async def test_a_crash_at_any_commit_leaves_each_migration_done_once_or_not_at_all(store_url: str, when: str) -> None:
    async def count(self: Any) -> None:
        await self.storage.put("times", await self.storage.get("times", 0) + 1)

    crashes = 0
    for spot in range(1, 8) if store_url.startswith("memory") else (1, 2):
        deploys, key = Deploys(store_url), f"k{spot}"
        async with deploys.world as world:
            await (await deploys.to(key=key)).put("x", 1)
            shop = await deploys.to(count, second, key=key)
            seen: list[str] = []

            def probe(name: str, _: int, world: Any = world, seen: list[str] = seen, spot: int = spot) -> None:
                seen.append(name)
                if name == when and seen.count(name) == spot:
                    world.kill()

            world.faults.on_probe = probe
            for number in range(3):
                try:
                    await shop.put(f"y{number}", number)
                except Unavailable:
                    crashes += 1
                    await world.restart()
                    rows = await deploys.rows(key)
                    assert (await deploys.number(ObjectId("Shop", key)), rows.get("times")) in ((0, None), (2, 1))
            world.faults.on_probe = None
            await world.sleep_all()
            assert (await shop.all())["times"] == 1
            assert await deploys.number(ObjectId("Shop", key)) == 2
    assert crashes


async def test_a_store_that_goes_away_in_a_migration_is_not_its_fault(deploys: Deploys) -> None:
    async with deploys.world as world:

        async def away(self: Any) -> None:
            world.faults.is_down = True
            await self.storage.list()

        await (await deploys.to()).put("x", 1)
        shop = await deploys.to(away)
        with pytest.raises(Unavailable) as caught:
            await shop.put("y", 1)
        assert not isinstance(caught.value, ObjectTooNew)
        world.faults.is_down = False
        await world.advance(minutes=1)
        assert await (await deploys.to(first)).look("one") == 1


async def test_an_object_in_a_file_keeps_its_number(deploys: Deploys) -> None:
    async with deploys.world as world:
        await (await deploys.to(first, second)).put("x", 1)
        lines, _ = await archive.export(world.store, SHOP, now=0)
        carried = archive.read(b"".join(lines), "file")
        assert number_in(carried.puts) == 2
        forged = archive.bar_of_row(SHOP, *MIGRATIONS_SLOT, encode("many"))
        assert forged is not None
        assert "how many migrations Shop/a has had" in forged.why


async def test_a_sealed_store_says_no_more_of_the_number_than_of_the_rest(store_url: str) -> None:
    deploys = Deploys(store_url, keys="wkk_" + "ab" * 32)
    async with deploys.world:
        await (await deploys.to(first)).put("x", 1)
        assert await (await deploys.to(first, second, third)).all() == {"one": 1, "three": 3, "two": 2, "x": 1}
        with pytest.raises(ObjectTooNew):
            await (await deploys.to()).look("x")


async def test_what_a_migration_may_not_do_is_said(deploys: Deploys) -> None:
    async def commits(self: Any) -> None:
        await self.ctx.commit()

    async def typed(self: Any) -> None:
        self.state.total += 1

    async def unfit(self: Any) -> None:
        self.ctx.raw_state["x"] = object()

    async with deploys.world:
        await (await deploys.to(state=Old)).change(sum=7)
        for step, code in ((commits, "turn.migration"), (typed, "state.migration"), (unfit, "value.type")):
            with pytest.raises(MigrationFailed) as caught:
                await (await deploys.to(step, state=New)).shown()
            assert getattr(caught.value.__cause__, "code", None) == code
        shop = await deploys.to(state=New, wakes=lambda self: self.ctx.raw_state)
        with pytest.raises(BadOption, match="is for the functions in `migrations`"):
            await shop.shown()


async def test_an_object_that_came_back_to_an_older_number_has_its_timers_again(deploys: Deploys) -> None:
    """As a restore to a point before the deploy would leave it."""
    said: list[str] = []
    async with deploys.world as world:
        shop = await deploys.to(first, second)
        await shop.later()
        shop = await deploys.to(first, said=said)
        await world.advance(hours=1)
        with pytest.raises(ObjectTooNew):
            await shop.look("x")
        turn_back(world)
        assert await shop.look("one") == 1
        await world.advance(seconds=1)
        assert said[-1] == "alarm"


def turn_back(world: World) -> None:
    """From here on the store answers as if the object had had one migration less."""
    store, real = world.node.store, world.node.store.load

    async def load(ids: Any) -> Any:
        return [replace(one, rows={**one.rows, MIGRATIONS_SLOT: encode_number(1)}) for one in await real(ids)]

    store.load = load  # type: ignore[method-assign]


async def test_thousands_of_newer_objects_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakeful.runtime.dispatcher.NEWER_MAX", 10)
    deploys = Deploys("memory:", limits=Limits())  # nothing about it is the store's
    async with deploys.world as world:
        for number in range(30):
            await (await deploys.to(first, key=str(number))).later()
        await deploys.to()
        await world.advance(hours=1)
        assert len(world.node.dispatcher.newer) == 10
        assert len(await world.due()) == 30
        assert await world.parked() == []


async def test_old_and_new_nodes_side_by_side(cluster: Cluster) -> None:
    """A rolling deploy whose new node goes again: the old one refuses at once, and what is due waits for the next new one."""
    _, world = cluster(nodes=2)
    said: list[str] = []
    programs = [App(), App()]
    classes = [
        app.object(program(*steps, said=said)) for app, steps in zip(programs, ([first], [first, second]), strict=True)
    ]
    old, new = programs

    async def start(app: App, index: int) -> None:
        await world.members[index].stop()
        world.app = app
        await world.members[index].start()
        world.choose_door()
        await world.balance()

    async def only(index: int) -> None:
        for number, member in enumerate(world.members):
            await world.store.drain(member.name, number != index)
        await world.advance(seconds=3)

    async with world:
        await start(old, 0)
        await start(new, 1)
        await only(1)
        asked = [world.get(classes[1], f"k{number}") for number in range(8)]
        for shop in asked:
            await shop.put("x", 1)
            await shop.later(20)
        await only(0)
        began = world.now()
        for shop in asked:  # from the other node, whose program would know it
            with pytest.raises(ObjectTooNew, match="has had 2 migrations, and this program has 1 for Shop"):
                await shop.look("x")
        assert world.now() - began < timedelta(seconds=1)
        said.clear()
        await world.advance(seconds=40)
        assert said == []
        node = world.members[0].node
        assert node is not None
        assert node.dispatcher.fired <= len(asked)  # none of them is tried again and again
        assert [(timer.started, timer.crashes) for timer in await world.due()] == [(0, 0)] * 8
        await only(1)
        assert said.count("alarm") == 8
        assert await world.parked() == []
        assert [await shop.look("two") for shop in asked] == [2] * 8
