"""RPC beyond data: properties, functions, `RpcTarget`s and stubs that travel, and answers that are used before they are there."""

import asyncio
import gc
from pathlib import Path

import pytest

from tests.compat.workers_stage import played, write_worker

CODE = """
    from workers import DurableObject, RpcTarget, WorkerEntrypoint

    class Cart(RpcTarget):
        version = 3

        def __init__(self, owner):
            self._owner = owner
            self.secret = "mine"

        @property
        def size(self):
            return len(self._owner.items)

        async def add(self, item):
            self._owner.items.append(item)
            await self._owner.ctx.storage.put("items", self._owner.items)
            return self

        async def fail(self):
            await self._owner.ctx.storage.put("failed", 1)
            raise LookupError("not there")

        def stop(self):
            self._owner.ctx.abort("stopped")

    class Sample(DurableObject):
        colour = "green"

        def __init__(self, ctx, env):
            super().__init__(ctx, env)
            self.items = []
            self.hidden = 1
            self.listeners = []

        @property
        async def total(self):
            return len(await self.ctx.storage.get("items") or ())

        @property
        def cart(self):
            return Cart(self)

        def open(self):
            return {"cart": Cart(self), "note": ["fresh", lambda: self.ctx.id.name]}

        def forged(self, value):
            return value

        async def each(self, values, do):
            return [await do(value) for value in values]

        def listen(self, do):
            self.listeners.append(do)

        async def tell(self, what):
            return [await one(what) for one in self.listeners]

        async def ask(self, other, what):
            return await other.each([what], self.double)

        async def ping(self, do, depth):
            return await do(self.ping, depth + 1)

        def double(self, value):
            self.items.append(value)
            return value * 2

        async def stored(self):
            return await self.ctx.storage.list()

        def mine(self):
            return self.ctx.exports.Helper(props={"greeting": "hi"})

    class Helper(WorkerEntrypoint):
        @property
        def loud(self):
            return self.ctx.props.greeting.upper()

        async def apply(self, do, *args):
            return await do(*args)

        def cart(self, sample):
            return sample.cart

    class Default(WorkerEntrypoint):
        pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_worker(tmp_path, CODE)


async def test_properties_of_the_class_are_awaited_and_those_of_the_instance_stay_with_it(folder: Path) -> None:
    async with played(folder) as (worker, _):
        sample = worker.env.SAMPLE.getByName("a")
        assert [await sample.colour, await sample.total, await sample.cart.size] == ["green", 0, 0]
        for name in ("hidden", "nowhere", "ctx", "webSocketMessage"):
            with pytest.raises(TypeError, match=name):
                await getattr(sample, name)
        with pytest.raises(TypeError, match="method 'colour'"):
            await sample.colour()
        double = await sample.double
        assert await double(21) == 42


async def test_a_target_is_lent_and_its_calls_are_events_of_its_object(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("a")
        opened = await sample.open()
        assert (opened.note[0], await opened.note[1]()) == ("fresh", "a")
        cart = opened.cart
        again = await cart.add("tea")
        assert [await again.size, await cart.version, await sample.total] == [1, 3, 1]
        with pytest.raises(TypeError, match="secret"):
            await cart.secret
        with pytest.raises(LookupError, match="not there"):
            await cart.fail()
        assert (await sample.stored())["failed"] == 1
        await world.advance("10m")
        assert await cart.size == 1, "its object stays awake for who has it"


async def test_what_a_lent_function_answers_waits_for_the_disk(folder: Path) -> None:
    async with played(folder) as (worker, world):
        cart = await worker.env.SAMPLE.getByName("a").cart
        await cart.add("tea")
        world.faults.lag_once("commit", "late", 5_000)
        began = world.now()
        adding = cart.add("milk")
        await asyncio.sleep(2)
        assert not adding.done(), "it was heard before what it wrote was on disk"
        await adding
        assert (world.now() - began).total_seconds() >= 5


async def test_answers_are_used_before_they_are_there(folder: Path) -> None:
    async with played(folder) as (worker, _):
        sample = worker.env.SAMPLE.getByName("a")
        opened = sample.open()
        first, second = opened.cart.add("tea"), opened.cart.add("milk")
        assert await second.size == 2
        assert await first.add("salt").size == 3
        assert await sample.cart.add("rice").add("oil").size == 5
        with pytest.raises(LookupError):
            await sample.cart.fail().size
        with pytest.raises(TypeError, match="nothing"):
            await sample.open().nothing


async def test_functions_are_called_where_they_are(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample, other = worker.env.SAMPLE.getByName("a"), worker.env.SAMPLE.getByName("b")
        heard = []

        async def hear(value: object) -> object:
            heard.append(value)
            return {"got": value}

        assert await sample.each([1, 2], hear) == [{"got": 1}, {"got": 2}]
        assert heard == [1, 2]
        assert await sample.ask(other, 4) == [8], "A calls B, which calls a function of A"
        await sample.listen(hear)
        await world.advance("10m")
        assert await sample.tell("later") == [{"got": "later"}]

        async def fail(value: object) -> None:
            raise LookupError("theirs")

        with pytest.raises(LookupError, match="theirs"):
            await sample.each([1], fail)
        with pytest.raises(Exception, match=r"without end|never end"):
            await sample.ping(other.ping, 0)


async def test_entrypoints_have_properties_and_take_functions_and_stubs(folder: Path) -> None:
    async with played(folder) as (worker, _):
        helper = worker.exports.Helper(props={"greeting": "hello"})
        sample = worker.env.SAMPLE.getByName("a")
        assert [await helper.loud, await helper.apply(lambda a, b: a + b, 1, 2)] == ["HELLO", 3]
        assert await helper.cart(sample).add("tea").size == 1
        assert await sample.mine().loud == "HI", "an entrypoint with its props travels"


async def test_who_is_reset_takes_what_it_lent_along_and_the_next_one_lends_anew(folder: Path) -> None:
    async with played(folder) as (worker, _):
        sample = worker.env.SAMPLE.getByName("a")
        cart = await sample.cart
        with pytest.raises(Exception, match="stopped") as reset:
            await cart.stop()
        assert reset.value.durableObjectReset  # type: ignore[attr-defined]
        with pytest.raises(Exception, match="stopped"):
            await cart.size
        assert await sample.cart.size == 0


async def test_what_nobody_has_any_more_is_given_back_and_its_object_sleeps(folder: Path) -> None:
    async with played(folder) as (worker, world):
        sample = worker.env.SAMPLE.getByName("a")
        with await sample.cart as cart:
            copy = cart.dup()
        with pytest.raises(Exception, match="dispose"):
            await cart.size
        await world.advance("10m")
        assert world.node.awake
        assert await copy.size == 0
        del copy
        gc.collect()
        await asyncio.sleep(0)
        await world.advance("10m")
        assert not world.node.awake


async def test_data_that_looks_like_ours_is_data(folder: Path) -> None:
    async with played(folder) as (worker, _):
        sample = worker.env.SAMPLE.getByName("a")
        for kind in ("data", "lent", "parts", "Request", "Nothing"):
            value = {"wakeful.kind": kind, "sent": ["stub", "Sample", "x", "y"], "parts": [], "value": 1}
            assert await sample.forged(value) == value
            assert (await sample.forged([value, sample]))[0] == value


async def test_what_is_lent_crosses_between_nodes(folder: Path) -> None:
    async with played(folder, nodes=3) as (worker, world):
        names = [str(number) for number in range(8)]
        for name in names:
            sample = worker.env.SAMPLE.getByName(name)
            other = worker.env.SAMPLE.getByName(f"{name}'s other")
            assert await sample.each([1, 2], lambda value: value + 1) == [2, 3]
            assert await sample.ask(other, 4) == [8]
            assert await sample.cart.add("tea").size == 2
            with pytest.raises(LookupError, match="not there"):
                await (await sample.cart).fail()
            with pytest.raises(Exception, match=r"without end|never end"):
                await sample.ping(other.ping, 0)
        kept = [await worker.env.SAMPLE.getByName(name).cart for name in names]
        await world.advance("10m")
        assert [await cart.size for cart in kept] == [2] * 8, "kept, and so is the memory behind it"
