"""Storage: listing and keys, line by line as the specification says it, and every verb of objects.md, on every store."""

import random
from datetime import timedelta
from typing import Any

import pytest

from wakeful import Limits
from wakeful.values.errors import BadOption, LimitExceeded, ReadOnly, TurnOver

ORDER = ["10", "9", "Z", "a", "b", "ba", "bÿ", "я", "😀"]


def body_of(method: str, *args: Any, **options: Any) -> Any:
    """A turn that is one storage call."""

    async def body(self: Any) -> Any:
        return await getattr(self.storage, method)(*args, **options)

    return body


async def fill(stage: Any, keys: Any, key: str = "a") -> None:
    await stage.do(body_of("put_many", {name: n for n, name in enumerate(keys)}), key)


def naive(entries: dict[str, Any], **options: Any) -> list[str]:
    """What `list` must give, by the plainest means."""
    found = sorted(entries, key=lambda key: key.encode())
    prefix, start, after, end = (options.get(name) for name in ("prefix", "start", "start_after", "end"))
    found = [key for key in found if key.startswith(prefix or "")]
    found = [key for key in found if start is None or key.encode() >= start.encode()]
    found = [key for key in found if after is None or key.encode() > after.encode()]
    found = [key for key in found if end is None or key.encode() < end.encode()]
    if options.get("reverse"):
        found.reverse()
    return found[: options.get("limit")]


@pytest.mark.parametrize("asleep", [False, True])
async def test_order_is_by_the_keys_utf8_bytes(stage: Any, asleep: bool) -> None:
    async with stage.world() as world:
        shuffled = ORDER[:]
        random.Random(1).shuffle(shuffled)
        await fill(stage, shuffled)
        if asleep:
            await world.sleep_all()
        assert list(await stage.do(body_of("list"))) == ORDER
        assert list(await stage.do(body_of("list", reverse=True))) == ORDER[::-1]
        assert list(await stage.do(body_of("get_many", shuffled))) == ORDER


async def test_start_is_inclusive_and_start_after_exclusive_and_both_together_an_error(stage: Any) -> None:
    async with stage.world():
        await fill(stage, "abcde")
        assert list(await stage.do(body_of("list", start="c"))) == ["c", "d", "e"]
        assert list(await stage.do(body_of("list", start_after="c"))) == ["d", "e"]
        assert list(await stage.do(body_of("list", start="bb"))) == ["c", "d", "e"]
        with pytest.raises(BadOption, match="start or start_after, not both"):
            await stage.do(body_of("list", start="a", start_after="a"))


async def test_end_is_exclusive(stage: Any) -> None:
    async with stage.world():
        await fill(stage, "abcde")
        assert list(await stage.do(body_of("list", end="c"))) == ["a", "b"]
        assert list(await stage.do(body_of("list", start="b", end="d"))) == ["b", "c"]
        assert list(await stage.do(body_of("list", start_after="b", end="d"))) == ["c"]


async def test_prefix_combines_with_every_other_option(stage: Any) -> None:
    async with stage.world():
        keys = ["a", "p", "p/1", "p/2", "p/3", "p/4", "p0", "q"]
        await fill(stage, keys)

        async def listed(**options: Any) -> list[str]:
            return list(await stage.do(body_of("list", prefix="p/", **options)))

        assert await listed() == ["p/1", "p/2", "p/3", "p/4"]
        assert await listed(start="p/2") == ["p/2", "p/3", "p/4"]
        assert await listed(start="a") == ["p/1", "p/2", "p/3", "p/4"]
        assert await listed(start_after="p/2") == ["p/3", "p/4"]
        assert await listed(end="p/3") == ["p/1", "p/2"]
        assert await listed(end="z") == ["p/1", "p/2", "p/3", "p/4"]
        assert await listed(reverse=True, limit=2) == ["p/4", "p/3"]
        assert await listed(start="q") == []
        assert await stage.do(body_of("count", "p/")) == 4
        assert await stage.do(body_of("count")) == len(keys)


async def test_empty_and_inverted_ranges_give_nothing(stage: Any) -> None:
    async with stage.world():
        await fill(stage, "abcde")
        for options in ({"start": "c", "end": "c"}, {"start": "d", "end": "b"}, {"start_after": "e"}, {"end": "a"}):
            for reverse in (False, True):
                assert await stage.do(body_of("list", **options, reverse=reverse)) == {}
        assert await stage.do(body_of("list", end="")) == {}


async def test_reverse_walks_the_same_range_from_its_end(stage: Any) -> None:
    async with stage.world():
        await fill(stage, "abcde")
        assert list(await stage.do(body_of("list", start="b", end="e", reverse=True))) == ["d", "c", "b"]
        assert list(await stage.do(body_of("list", start_after="b", reverse=True, limit=2))) == ["e", "d"]


@pytest.mark.parametrize("limit", [0, -1, 1.5, "1", True])
async def test_limit_must_be_positive(stage: Any, limit: Any) -> None:
    async with stage.world():
        with pytest.raises(BadOption, match="positive whole number"):
            await stage.do(body_of("list", limit=limit))
        await fill(stage, "abc")
        assert list(await stage.do(body_of("list", limit=1))) == ["a"]
        assert list(await stage.do(body_of("list", limit=10))) == ["a", "b", "c"]


async def test_every_combination_of_list_options_agrees_with_a_naive_listing(stage: Any) -> None:
    dice = random.Random(7)
    alphabet = ["a", "b", "\0", "é", "\ud7ff", "\ue000", "\uffff", "😀", "\U0010ffff"]

    def word() -> str:
        return "".join(dice.choice(alphabet) for _ in range(dice.randrange(4)))

    async with stage.world() as world:
        entries = {word(): n for n in range(120)}
        await stage.do(body_of("put_many", entries))
        await world.sleep_all()

        async def body(self: Any) -> None:
            for _ in range(150):
                options: dict[str, Any] = {"reverse": dice.random() < 0.5}
                if dice.random() < 0.5:
                    options["prefix"] = word()[:2]
                if dice.random() < 0.5:
                    options[dice.choice(["start", "start_after"])] = word()
                if dice.random() < 0.5:
                    options["end"] = word()
                if dice.random() < 0.5:
                    options["limit"] = dice.randrange(1, 20)
                found = await self.storage.list(**options)
                assert list(found) == naive(entries, **options), options
                assert all(found[key] == entries[key] for key in found)

        await stage.do(body)


async def test_odd_keys_and_the_longest_key_work(stage: Any) -> None:
    keys = ["", "\0", "a\0b", "'", '"', "';--", "a/b//c", "\\", "%", "_", "😀", "\n", "k" * 2_048, "😀" * 512]
    async with stage.world() as world:
        await stage.do(body_of("put_many", {key: [key] for key in keys}))
        await world.sleep_all()

        async def body(self: Any) -> None:
            for key in keys:
                assert await self.storage.get(key) == [key]
            assert await self.storage.get_many(keys) == {key: [key] for key in keys}
            assert set(await self.storage.list()) == set(keys)
            assert list(await self.storage.list(start_after="k" * 2_047)) == naive(
                dict.fromkeys(keys), start_after="k" * 2_047
            )
            for key in keys:
                assert await self.storage.delete(key) is True
            assert await self.storage.list() == {}

        await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {}


@pytest.mark.parametrize("key", ["k" * 2_049, "😀" * 512 + "k"], ids=["ascii", "emoji"])
async def test_one_byte_longer_is_an_error(stage: Any, key: str) -> None:
    async with stage.world() as world:
        for body in (
            body_of("get", key),
            body_of("get_many", [key]),
            body_of("put", key, 1),
            body_of("put_many", {"ok": 1, key: 1}),
            body_of("delete", key),
            body_of("delete_many", ["ok", key]),
            body_of("list", start=key),
        ):
            with pytest.raises(LimitExceeded, match="2049 bytes, 1 more than the limit of 2048"):
                await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {}


@pytest.mark.parametrize("key", [1, None, b"k", "\ud800"], ids=repr)
async def test_a_key_that_is_not_text_is_an_error(stage: Any, key: Any) -> None:
    async with stage.world():
        for body in (body_of("get", key), body_of("put", key, 1), body_of("delete", key), body_of("list", prefix=key)):
            with pytest.raises(BadOption):
                await stage.do(body)


async def test_get_of_a_missing_key_gives_the_default(stage: Any) -> None:
    async with stage.world():
        assert await stage.do(body_of("get", "x")) is None
        assert await stage.do(body_of("get", "x", 7)) == 7
        assert await stage.do(body_of("get_many", ["x", "y"])) == {}
        await stage.do(body_of("put", "x", None))
        assert await stage.do(body_of("get", "x", 7)) is None
        assert await stage.do(body_of("get_many", ["x", "y"])) == {"x": None}


async def test_delete_says_whether_it_was_there_and_delete_many_how_many(stage: Any) -> None:
    async with stage.world() as world:
        await fill(stage, "abcdef")
        await world.sleep_all()
        assert await stage.do(body_of("delete", "a")) is True
        assert await stage.do(body_of("delete", "a")) is False
        assert await stage.do(body_of("delete_many", ["a", "b", "c", "c", "nope"])) == 2
        assert await stage.do(body_of("delete_many", [])) == 0

        async def body(self: Any) -> list[Any]:
            answers = []
            await self.storage.put("new", 1)
            answers.append(await self.storage.delete("new"))
            answers.append(await self.storage.delete("new"))
            answers.append(await self.storage.delete("d"))
            await self.storage.put("d", 2)
            answers.append(await self.storage.delete_many(["d", "e", "zzz"]))
            await self.storage.delete_all()
            answers.append(await self.storage.delete("f"))
            return answers

        assert await stage.do(body) == [True, False, True, 2, False]
        assert await world.rows(stage.Bell, "a") == {}


@pytest.mark.parametrize("asleep", [False, True])
async def test_listing_in_a_turn_shows_its_own_puts_and_hides_its_deletes(stage: Any, asleep: bool) -> None:
    dice = random.Random(3)
    async with stage.world() as world:
        stored = {f"{n:04}": n for n in range(0, 600, 2)}
        await stage.do(body_of("put_many", stored))
        if asleep:
            await world.sleep_all()

        async def body(self: Any) -> None:
            entries = dict(stored)
            for n in range(600):
                key = f"{dice.randrange(700):04}"
                if dice.random() < 0.5:
                    await self.storage.put(key, -n)
                    entries[key] = -n
                else:
                    await self.storage.delete(key)
                    entries.pop(key, None)
                if n % 20 == 0:
                    start, end = sorted((f"{dice.randrange(700):04}", f"{dice.randrange(700):04}"))
                    for options in (
                        {},
                        {"limit": 1 + dice.randrange(50)},
                        {"limit": 1 + dice.randrange(50), "reverse": True},
                        {"start": start, "end": end, "reverse": dice.random() < 0.5},
                        {"start_after": start, "limit": 5},
                        {"prefix": start[:2]},
                    ):
                        found = await self.storage.list(**options)
                        assert list(found) == naive(entries, **options)
                        assert found == {key: entries[key] for key in found}
                    assert await self.storage.count() == len(entries)
                    assert await self.storage.count(start[:2]) == len(naive(entries, prefix=start[:2]))
            await self.storage.delete_all()
            assert await self.storage.list() == {}
            await self.storage.put("only", 1)
            assert await self.storage.list() == {"only": 1}

        await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {"only": 1}


async def test_five_thousand_keys_in_one_put_many_are_one_atomic_write(stage: Any) -> None:
    entries = {f"key-{n:05}": {"n": n} for n in range(5_000)}
    async with stage.world() as world:
        groups = world.faults.groups
        await stage.do(body_of("put_many", entries))
        assert world.faults.groups == groups + 1
        assert await world.rows(stage.Bell, "a") == entries
        await world.sleep_all()
        assert await stage.do(body_of("list")) == entries
        assert await stage.do(body_of("get_many", list(entries))) == entries
        world.faults.fail_commit(when="before")
        with pytest.raises(Exception, match="commit failed"):
            await stage.do(body_of("delete_many", list(entries)))
        await world.advance(seconds=30)
        assert await stage.do(body_of("count")) == 5_000
        assert await stage.do(body_of("delete_many", list(entries))) == 5_000
        assert await world.rows(stage.Bell, "a") == {}


async def test_too_many_keys_in_one_call_are_an_error_that_says_by_how_much(stage: Any) -> None:
    async with stage.world(limits=Limits(keys_per_call=10)) as world:
        keys = [str(n) for n in range(13)]
        for body in (
            body_of("put_many", dict.fromkeys(keys, 1)),
            body_of("get_many", keys),
            body_of("delete_many", keys),
        ):
            with pytest.raises(LimitExceeded, match="13 in one call, 3 more than the limit of 10"):
                await stage.do(body)
        assert await world.rows(stage.Bell, "a") == {}


async def test_a_value_of_two_mebibytes_is_stored_and_one_byte_more_is_an_error(stage: Any) -> None:
    async with stage.world() as world:
        overhead = 1 + 5  # the version byte and the header of a long byte string
        largest = b"x" * (2 * 1_048_576 - overhead)
        await stage.do(body_of("put", "x", largest))
        with pytest.raises(LimitExceeded, match="1 more than the limit of 2097152"):
            await stage.do(body_of("put", "x", largest + b"x"))
        await world.sleep_all()

        async def size(self: Any) -> int:
            return len(await self.storage.get("x"))

        assert await stage.do(size) == len(largest)


async def test_rows_and_bytes_are_kept_per_object(stage: Any) -> None:
    async with stage.world() as world:
        start = world.now()
        await stage.do(body_of("put", "key", b"x" * 100))
        info = await world.info(stage.Bell, "a")
        assert info is not None
        assert (info.rows, info.bytes) == (1, 3 + 1 + 2 + 100)
        await world.advance(seconds=5)
        await stage.do(body_of("put_many", {"key": b"x" * 10, "other": None}))
        info = await world.info(stage.Bell, "a")
        assert info is not None
        assert (info.rows, info.bytes) == (2, (3 + 1 + 2 + 10) + (5 + 1 + 1))
        assert info.active_at - info.created_at == 5_000
        await stage.do(body_of("delete_all"))
        info = await world.info(stage.Bell, "a")
        assert info is not None
        assert (info.rows, info.bytes) == (0, 0)
        assert world.now() == start + timedelta(seconds=5)


async def test_a_large_object_is_not_loaded_whole_and_its_cache_is_bounded(stage: Any) -> None:
    async with stage.world(limits=Limits(cache_bytes_per_object=20_000)) as world:
        entries = {f"{n:04}": bytes([n % 256]) * 1_000 for n in range(200)}
        for start in range(0, 200, 20):
            await stage.do(body_of("put_many", dict(list(entries.items())[start : start + 20])))
        [activation] = world.node.awake.values()
        assert activation.rows.bytes <= 20_000
        await world.sleep_all()

        async def walk(self: Any) -> None:
            for key, value in entries.items():
                assert await self.storage.get(key) == value
            assert await self.storage.get("nope") is None
            assert await self.storage.list() == entries

        await stage.do(walk)
        await stage.do(body_of("put", "0000", b""))
        await stage.do(body_of("delete", "0001"))
        [activation] = world.node.awake.values()
        assert activation.rows.bytes <= 20_000
        assert await stage.do(body_of("get", "0000")) == b""
        assert await stage.do(body_of("get", "0001")) is None
        assert await stage.do(body_of("get", "0002")) == entries["0002"]


async def test_a_reader_lists_and_gets_but_can_not_write(stage: Any) -> None:
    async with stage.world() as world:
        await fill(stage, "abc")
        assert list(await stage.peek(body_of("list"))) == ["a", "b", "c"]
        assert await stage.peek(body_of("get", "b")) == 1
        assert await stage.peek(body_of("get_many", ["b"])) == {"b": 1}
        assert await stage.peek(body_of("count")) == 3
        assert await stage.peek(body_of("get_alarm")) is None

        async def transact(self: Any) -> None:
            async with self.storage.transaction():
                pass

        async def commit(self: Any) -> None:
            await self.ctx.commit()

        for body in (
            body_of("put", "x", 1),
            body_of("put_many", {"x": 1}),
            body_of("delete", "a"),
            body_of("delete_many", ["a"]),
            body_of("delete_all"),
            body_of("set_alarm", timedelta(seconds=1)),
            body_of("delete_alarm"),
            transact,
            commit,
        ):
            with pytest.raises(ReadOnly, match="drop @reader"):
                await stage.peek(body)
        assert list(await world.rows(stage.Bell, "a")) == ["a", "b", "c"]


async def test_storage_outside_a_turn_is_a_clear_error(stage: Any) -> None:
    async with stage.world():
        kept: list[Any] = []

        async def leak(self: Any) -> None:
            kept.append(self)

        await stage.do(leak)
        for body in (body_of("get", "x"), body_of("put", "x", 1), body_of("list")):
            with pytest.raises(TurnOver):
                await body(kept[0])

        async def of_another(self: Any) -> None:
            await kept[0].storage.put("x", 1)

        with pytest.raises(TurnOver, match="this very object"):
            await stage.do(of_another, "b")
