"""Random lives of objects under programs that come and go, with crashes at any commit, beside a small oracle."""

import random
from contextlib import suppress
from typing import Any

import pytest

from wakeful import App, DurableObject, Unavailable, reader
from wakeful.runtime.migrations import number_in
from wakeful.runtime.registry import Registry
from wakeful.values.errors import ObjectTooNew
from wakeful.values.ids import ObjectId

SEEDS = 60
STEPS = 60
NEWEST = 4
KEYS = ("a", "b", "c")


class Expected(Exception):
    pass


def step(number: int) -> Any:
    """A migration that may run only after those before it, and once."""

    async def add(self: Any) -> None:
        had = await self.storage.get("had", [])
        assert had == list(range(1, number))
        await self.storage.put("had", [*had, number])
        raw = self.ctx.raw_state
        assert raw.get("had", 0) == number - 1
        raw["had"] = number

    add.__name__ = f"add_{number}"
    return add


MIGRATIONS = [step(number) for number in range(1, NEWEST + 1)]


def program(version: int, moods: list[str]) -> Any:
    class Life(DurableObject):
        migrations = MIGRATIONS[:version]

        async def on_wake(self) -> None:
            if "cross" in moods:
                await self.storage.put("half", 1)
                raise Expected

        async def put(self, name: str, *, fails: bool = False) -> list[int]:
            await self.storage.put(f"put:{name}", 1)
            if fails:
                raise Expected
            found: list[int] = await self.storage.get("had", [])
            return found

        @reader
        async def had(self) -> list[int]:
            found: list[int] = await self.storage.get("had", [])
            return found

    return Life


class Oracle:
    """What must be true of each object, whatever became of calls that were not answered."""

    def __init__(self) -> None:
        self.done = dict.fromkeys(KEYS, 0)  # migrations, as far as somebody was told
        self.puts: dict[str, set[str]] = {key: set() for key in KEYS}  # acknowledged

    def answered(self, key: str, version: int, had: list[int], name: str | None) -> None:
        assert had == list(range(1, version + 1)), "it runs as the program of today knows it"
        if name is not None:
            self.puts[key].add(name)
            self.done[key] = version

    async def check(self, world: Any, key: str) -> int:
        """The object on disk is whole; how many migrations it has had."""
        [loaded] = await world.store.load([ObjectId("Life", key)])
        number = number_in(loaded.rows)
        cls = world.app.deployment.registry.by_name("Life").cls
        rows = await world.rows(cls, key)
        assert rows.get("had", []) == list(range(1, number + 1))
        assert "half" not in rows
        assert number >= self.done[key]
        assert {name for name in rows if name.startswith("put:")} >= {f"put:{name}" for name in self.puts[key]}
        if loaded.info is None:
            assert not rows
        return number


async def live(seed: int) -> tuple[int, int]:
    """One life; how often a program was refused, and how often the process died."""
    dice, app, oracle = random.Random(seed), App(), Oracle()
    refused = crashes = version = 0
    moods: list[str] = []
    async with app.world(seed=seed) as world:

        async def deploy() -> None:
            nonlocal version
            await world.crash()
            version = dice.randint(0, NEWEST)
            app.deployment.registry = Registry()
            app.object(program(version, moods))
            await world.restart()

        def die_at(spot: int) -> None:
            left = [spot]

            def probe(name: str, _: int) -> None:
                left[0] -= name.startswith("commit")
                if left[0] == 0:
                    world.kill()

            world.faults.on_probe = probe

        await deploy()
        for number in range(STEPS):
            key, what = dice.choice(KEYS), dice.random()
            life = world.get(app.deployment.registry.by_name("Life").cls, key)
            before = await oracle.check(world, key)
            if what < 0.15:
                await deploy()
                continue
            if what < 0.25:
                await world.sleep_all()
                continue
            if what < 0.45:
                die_at(dice.randint(1, 6))
            moods[:] = ["cross"] if dice.random() < 0.2 else []
            try:
                with suppress(Expected):
                    if dice.random() < 0.3:
                        oracle.answered(key, version, await life.had(), None)
                    else:
                        fails = dice.random() < 0.2
                        oracle.answered(key, version, await life.put(str(number), fails=fails), str(number))
                assert before <= version
            except ObjectTooNew:
                assert before > version
                refused += 1
            except Unavailable:
                crashes += 1
            world.faults.on_probe = None
            if world._node is None:
                await world.restart()
            assert await oracle.check(world, key) >= before
    return refused, crashes


@pytest.mark.parametrize("part", range(4))
async def test_every_object_has_had_what_its_number_says_and_nothing_acknowledged_is_lost(part: int) -> None:
    sums = [await live(seed) for seed in range(part, SEEDS, 4)]
    assert sum(refused for refused, _ in sums) > 50
    assert sum(crashes for _, crashes in sums) > 10
