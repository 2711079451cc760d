"""KV namespaces of a Worker: values, metadata, expiry, lists, limits; on disk, over nodes, and seen by operators."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.compat.workers_stage import played, write_worker
from wakeful.compat.workers.bindings.kv import KVNamespace

CODE = """
    from workers import DurableObject, Response, WorkerEntrypoint

    class Sample(DurableObject):
        async def keep(self, key, value):
            await self.env.CACHE.put(key, value)
            return await self.env.CACHE.get(key)

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            await self.env.CACHE.put("asked", request.url, expirationTtl=60)
            return Response(await self.env.CACHE.get("asked"))
"""
WRANGLER = """
name = "sample"
main = "entry.py"
compatibility_date = "2026-03-01"

[[durable_objects.bindings]]
name = "SAMPLE"
class_name = "Sample"

[[kv_namespaces]]
binding = "CACHE"
id = "0f2ac74b498b48028cb68387c421e279"
"""
ID = "0f2ac74b498b48028cb68387c421e279"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_worker(tmp_path, CODE, WRANGLER)


async def test_a_value_is_read_as_what_is_asked_for(folder: Path) -> None:
    async with played(folder) as (worker, _):
        kv = worker.env.CACHE
        assert await kv.get("a") is None
        assert await kv.put("a", '{"b": [1]}', metadata={"by": "me"}) is None
        assert await kv.get("a") == '{"b": [1]}'
        read = await kv.get("a", "json")
        assert (read.b, read.to_py()) == ([1], {"b": [1]})
        assert await kv.get("a", {"type": "arrayBuffer"}) == b'{"b": [1]}'
        assert await kv.get("a", type="bytes", cacheTtl=60) == b'{"b": [1]}'
        assert (await kv.getWithMetadata("a", "json")).to_py() == {
            "value": {"b": [1]},
            "metadata": {"by": "me"},
            "cacheStatus": None,
        }
        assert (await kv.getWithMetadata("no")).to_py() == {"value": None, "metadata": None, "cacheStatus": None}
        await kv.put("bytes", b"\0\xff")
        assert await kv.get("bytes", "arrayBuffer") == b"\0\xff"
        assert await kv.get(["a", "no"]) == {"a": '{"b": [1]}', "no": None}
        assert (await kv.getWithMetadata(["a"], "json")).to_py() == {
            "a": {"value": {"b": [1]}, "metadata": {"by": "me"}}
        }
        await kv.delete("a")
        await kv.delete("a")
        assert await kv.get("a") is None


async def test_what_has_expired_is_neither_read_nor_listed_and_then_gone(folder: Path) -> None:
    async with played(folder, seed=3) as (worker, world):
        kv, names = worker.env.CACHE, ["ttl", "at", "stays", "again"]
        now = int(world.now().timestamp())
        await kv.put("ttl", "1", expirationTtl=60)
        await kv.put("at", "2", {"expiration": now + 120})
        await kv.put("stays", "3")
        await kv.put("again", "4", expirationTtl=60)
        await kv.put("again", "5")
        listed = (await kv.list()).to_py()["keys"]
        assert listed == [
            {"name": "again"},
            {"name": "at", "expiration": now + 120},
            {"name": "stays"},
            {"name": "ttl", "expiration": now + 60},
        ]
        await world.advance("59s")
        assert list((await kv.get(names)).values()) == ["1", "2", "3", "5"]
        await world.advance("1s")
        assert list((await kv.get(names)).values()) == [None, "2", "3", "5"]
        assert [one.name for one in (await kv.list()).keys] == ["again", "at", "stays"]
        await world.crash()
        await world.advance("5m")
        await world.restart()
        assert list((await kv.get(names)).values()) == [None, None, "3", "5"]
        await world.advance("1m")
        rows = await world.rows(world_class(worker), ID)
        assert sorted(key[0] for key in rows) == ["k", "k", "n", "p", "p"], "what expired left nothing behind"


async def test_what_has_expired_is_not_read_while_its_rows_are_there(folder: Path) -> None:
    async def late(self: KVNamespace) -> None:
        """An alarm that has not come to it yet."""

    with patch.object(KVNamespace, "alarm", late):
        async with played(folder) as (worker, world):
            kv = worker.env.CACHE
            await kv.put("a", "1", expirationTtl=60, metadata=1)
            await kv.put("b", "2")
            await world.advance("60s")
            assert len(await world.rows(world_class(worker), ID)) == 6
            assert await kv.get("a") is None
            assert await kv.get(["a", "b"]) == {"a": None, "b": "2"}
            assert (await kv.getWithMetadata("a")).metadata is None
            assert [one.name for one in (await kv.list(limit=1)).keys] == ["b"]
            for number in range(450):
                await kv.put(f"a{number:03}", "1", expirationTtl=60)
            await world.advance("60s")
            listed = await kv.list(limit=1)
            assert ([one.name for one in listed["keys"]], listed.list_complete) == (["b"], True)


def world_class(worker: Any) -> Any:
    return worker.app.deployment.registry.by_name("KVNamespace").cls


async def test_a_list_goes_on_at_its_cursor_in_the_order_of_bytes(folder: Path) -> None:
    async with played(folder) as (worker, world):
        kv = worker.env.CACHE
        for name in ("b", "a/2", "é", "a/1", "a/3", "Z", "\U0001f600", "\uffff"):
            await kv.put(name, "x", metadata=None if name == "b" else {"n": name})
        assert [one.name for one in (await kv.list()).keys] == [
            "Z", "a/1", "a/2", "a/3", "b", "é", "\uffff", "\U0001f600"
        ]  # fmt: skip
        first = await kv.list(prefix="a/", limit=2)
        assert ([one.name for one in first["keys"]], first.list_complete) == (["a/1", "a/2"], False)
        assert first["keys"][0].metadata.to_py() == {"n": "a/1"}
        await kv.put("a/0", "before the cursor")
        rest = await kv.list({"prefix": "a/", "cursor": first.cursor})
        assert ([one.name for one in rest["keys"]], rest.list_complete, "cursor" in rest) == (["a/3"], True, False)
        assert (await kv.list(prefix="none")).to_py() == {"keys": [], "list_complete": True, "cacheStatus": None}
        for number in range(3):
            await kv.put(f"c{number}", "x", expirationTtl=60)
        await kv.put("c9", "x")
        await world.advance("61s")
        assert [one.name for one in (await kv.list(prefix="c", limit=1))["keys"]] == ["c9"]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (lambda kv: kv.get(""), "Key name cannot be empty"),
        (lambda kv: kv.put(".", "x"), 'is not allowed as a key name'),
        (lambda kv: kv.delete(".."), 'is not allowed as a key name'),
        (lambda kv: kv.get("é" * 257), "KV GET failed: 414 UTF-8 encoded length of 514 exceeds key length limit of 512"),
        (lambda kv: kv.get("a", "xml"), "Unknown response type"),
        (lambda kv: kv.get("a", cacheTtl=5), "Invalid cache_ttl of 5"),
        (lambda kv: kv.get(["a"] * 101), "a maximum of 100 keys"),
        (lambda kv: kv.get([]), "a minimum of 1 key"),
        (lambda kv: kv.get(["a"], "arrayBuffer"), "is not a valid type"),
        (lambda kv: kv.put("a", {"b": 1}), "accepts only strings"),
        (lambda kv: kv.put("a", "x" * (25 * 2**20 + 1)), "413 Value length of 26214401 exceeds limit of 26214400"),
        (lambda kv: kv.put("a", "x", metadata="y" * 1023), "413 Metadata length of 1025 exceeds limit of 1024"),
        (lambda kv: kv.put("a", "x", expirationTtl=59), "Expiration TTL must be at least 60"),
        (lambda kv: kv.put("a", "x", expirationTtl=0), "integer greater than 0"),
        (lambda kv: kv.put("a", "x", expiration=5), "greater than the current number of seconds"),
        (lambda kv: kv.put("a", "x", expiration=4_000_000_000_000), "not milliseconds"),
        (lambda kv: kv.list(limit=1001), "Invalid key_count_limit of 1001"),
        (lambda kv: kv.list(limit=-1), "Invalid key_count_limit of -1"),
        (lambda kv: kv.list(cursor="%%"), "no cursor"),
        (lambda kv: kv.put("a", "x", {"metadata": {1, 2}}), "metadata must be what JSON can say"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said_as_there(folder: Path, what: Any, words: str) -> None:
    async with played(folder) as (worker, _):
        with pytest.raises(Exception, match=words):
            await what(worker.env.CACHE)
        assert (await worker.env.CACHE.list())["keys"] == []


async def test_a_value_of_25_mib_crosses_nodes_in_parts_and_leaves_none_behind(folder: Path) -> None:
    async with played(folder, nodes=2) as (worker, world):
        kv = worker.env.CACHE
        large = bytes(range(256)) * (25 * 4096)
        await kv.put("large", large)
        assert await kv.get("large", "arrayBuffer") == large
        assert (await kv.get(["large"]))["large"] == large.decode(errors="replace")
        await kv.put("large", b"x" * (9 << 20))
        assert await kv.get("large", "bytes") == b"x" * (9 << 20)
        rows = await world.rows(world_class(worker), ID)
        assert sum(key.startswith("p") for key in rows) == 9
        await kv.delete("large")
        assert list(await world.rows(world_class(worker), ID)) == ["n"]


async def test_a_value_that_was_begun_and_never_put_is_swept(folder: Path) -> None:
    async with played(folder) as (worker, world):
        stub = worker.env.CACHE._stub
        version = await stub.begin_value()
        await stub.add_parts(version, 0, b"x" * (3 << 20))
        await world.advance("59m")
        assert len(await world.rows(world_class(worker), ID)) == 5
        await world.advance("2m")
        assert list(await world.rows(world_class(worker), ID)) == ["n"]
        with pytest.raises(Exception, match="was sent"):
            await stub.write("a", 3 << 20, None, version, None, None)


async def test_objects_and_requests_use_it_and_operators_see_it(folder: Path, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'kv.db'}"
    async with played(folder, store=url) as (worker, _):
        assert await worker.env.SAMPLE.getByName("o").keep("k", "v") == "v"
        assert await (await worker.fetch(_request("http://x/y"))).text() == "http://x/y"
        assert [info.key async for info in worker.app.objects(world_class(worker))] == [ID]
    async with played(folder, store=url) as (worker, _):
        assert await worker.env.CACHE.get("k") == "v"


def _request(url: str) -> Any:
    from wakeful.compat.workers import Request

    return Request(url)


async def test_an_entry_that_is_put_is_there_after_a_crash(folder: Path) -> None:
    async with played(folder) as (worker, world):
        at = datetime.fromtimestamp(world.now().timestamp() + 3_600, UTC)
        await worker.env.CACHE.put("a", "1", expiration=int(at.timestamp()))
        await world.crash()
        await world.restart()
        assert await worker.env.CACHE.get("a") == "1"
        await world.advance("1h")
        assert await worker.env.CACHE.get("a") is None
