"""The command line over a class on several servers: moving slots, looking at all, and what is about one store."""

import asyncio
import json
from os import urandom
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.conformance.test_slot_moves import BY_SLOT
from tests.spread_stage import Killed, Servers
from wakeful import App
from wakeful.cli import run
from wakeful.store import open_url
from wakeful.store.protocol import NodeRow, Query
from wakeful.store.sealed_store import CHECK
from wakeful.system import SystemClock, open_store
from wakeful.testing.suites.harness import NOW
from wakeful.values.commits import USER, Commit
from wakeful.values.errors import BadOption, WakefulError
from wakeful.values.ids import shard_of


@pytest.fixture
def urls(postgres_url: str) -> dict[str, str]:
    with_schema = f"{postgres_url}{'&' if '?' in postgres_url else '?'}schema=spread_{uuid4().hex[:12]}"
    return {name: f"{with_schema}_{name}" for name in ("a", "b")}


@pytest.fixture
def wakeful(capsys: pytest.CaptureFixture[str], urls: dict[str, str]) -> Any:
    def command(*args: str, code: int = 0) -> Any:
        capsys.readouterr()
        found = run([*args, "--json"])
        out = capsys.readouterr().out
        assert found == code, out
        return json.loads(out)

    return command


def named(urls: dict[str, str]) -> list[str]:
    return [part for name, url in urls.items() for part in ("--server", f"{name}={url}")]


async def fill(urls: dict[str, str], *, count: int = 6, kill: bool = False) -> list[str]:
    async with Servers(urls) as servers:
        some = list(BY_SLOT.items())[:count]
        for _, id in some:
            await servers.fill(id)
        if kill:
            with pytest.raises(Killed):
                await servers.mover(14).move(await servers.move_of(some[0][0]))
        for store in servers.stores.values():  # whoever wrote that has stopped
            await store.release("n", {row.shard: row.epoch for row in await store.owners() if row.owner == "n"})
        return sorted(id.key for _, id in some)


def test_a_dry_run_says_what_would_move_and_a_run_moves_it_and_ends_what_was_begun(
    wakeful: Any, urls: dict[str, str]
) -> None:
    keys = asyncio.run(fill(urls, kill=True))
    looked = wakeful("rebalance", "Order", *named(urls), "--without", "b", "--dry-run")
    assert (looked["servers"], looked["begun"]) == ({"a": 128, "b": 128}, 1)
    assert looked["after"]["a"] == 128 + len(looked["moves"])
    done = wakeful("rebalance", "Order", *named(urls), "--without", "b", "--slots", "3")
    assert (done["moved"], done["resumed"]) == (3, 1)
    everything = " ".join(urls.values())
    assert [row["key"] for row in wakeful("ls", "Order", "--store", everything)] == keys
    done = wakeful("rebalance", "Order", *named(urls))
    assert done["resumed"] == 0
    assert done["servers"] == {"a": 128, "b": 128}
    assert wakeful("rebalance", "Order", *named(urls))["moved"] == 0


def test_what_people_look_at_goes_over_all_servers_that_are_named(wakeful: Any, urls: dict[str, str]) -> None:
    keys = asyncio.run(fill(urls))
    everything = " ".join(urls.values())
    rows = wakeful("ls", "Order", "--store", everything)
    assert [row["key"] for row in rows] == keys
    assert 0 < len(wakeful("ls", "Order", "--store", urls["a"])) < len(keys)
    assert wakeful("ls", "Order", "--store", f"{everything} {urls['a']}") == rows, "each store once"
    for key in keys:
        assert wakeful("show", "Order", key, "--store", everything)["key"] == key
    assert len(wakeful("due", "--store", everything)) == 3 * len(keys)
    assert len(wakeful("parked", "--store", everything)) == len(keys)
    some = [row["key"] for row in wakeful("search", keys[0], "--store", everything) if "key" in row]
    assert keys[0] in some


async def _make_main(url: str) -> None:
    """A store with tables and nothing else."""
    store = open_url(url)
    await store.open(now=NOW)
    await store.close()


def test_a_server_that_is_not_named_beside_others_is_missed(
    urls: dict[str, str], postgres_schema_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(fill(urls))
    asyncio.run(_make_main(postgres_schema_url))
    assert run(["ls", "Order", "--store", f"{postgres_schema_url} {urls['a']} {urls['b']}"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert run(["ls", "Order", "--store", f"{postgres_schema_url} {urls['a']}"]) == 0
    assert "warning: 128 of the 256 slots of Order are on servers that are not named" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "code", "says"),
    [
        ("a", "spread.server", "'b': has objects and is not among the servers (a)"),
        (
            "ba",
            "spread.first",
            "is server 'b' of a spread already, whose map another server keeps; name that one first",
        ),
    ],
)
async def test_a_client_whose_program_lacks_a_server_does_not_connect(
    names: str, code: str, says: str, urls: dict[str, str], postgres_schema_url: str
) -> None:
    """Its jobs for what is there would wait, and be told to try again."""
    await fill(urls)
    await _make_main(postgres_schema_url)
    app = App(stores={"Order": {name: urls[name] for name in names}})
    with pytest.raises(WakefulError) as refused:
        async with app.connect(postgres_schema_url):
            pass
    assert (refused.value.code, says in refused.value.message) == (code, True), refused.value


async def test_a_client_that_has_taken_one_server_for_another_does_not_connect(
    urls: dict[str, str], postgres_schema_url: str
) -> None:
    await fill(urls)
    await _make_main(postgres_schema_url)
    async with Servers({"x": f"{urls['a']}_x"}):
        pass
    app = App(stores={"Order": {"a": urls["a"], "b": f"{urls['a']}_x"}})
    with pytest.raises(BadOption, match="is server 'x' of a spread already, and here it is 'b'"):
        async with app.connect(postgres_schema_url):
            pass


@pytest.mark.parametrize(
    "command",
    [
        *(["nodes"], ["doctor"], ["schema"], ["migrate"], ["calls"], ["audit"], ["redrive", "--all"]),
        *(["drain", "--here"], ["tokens"], ["keys", "rotate"], ["parked", "drop", "--all", "--yes"]),
    ],
    ids=" ".join,
)
def test_what_is_about_one_store_is_refused_for_several(command: list[str], wakeful: Any, urls: dict[str, str]) -> None:
    if command == ["tokens"]:  # a group
        command = ["tokens", "create", "x", "--scope", "read"]
    said = wakeful(*command, "--store", " ".join(urls.values()), code=2)
    assert said["error"]["code"] == "store.one"
    assert "2 are named" in said["error"]["message"]


def test_a_call_without_a_process_says_so_for_several_too(wakeful: Any, urls: dict[str, str]) -> None:
    asyncio.run(fill(urls, count=1))
    assert (
        wakeful("call", "Order", "k0", "add", "--store", " ".join(urls.values()), code=3)["error"]["code"]
        == "owner.none"
    )


def test_servers_are_named_by_the_program_or_by_hand(wakeful: Any, urls: dict[str, str], tmp_path: Path) -> None:
    asyncio.run(fill(urls, count=1))
    program = tmp_path / "shop.py"
    program.write_text(f"from wakeful import App\napp = App(stores={{'Order': {urls!r}, 'Mail': 'memory:'}})\n")
    assert wakeful("rebalance", "Order", "--app", str(program), "--dry-run")["moves"] == []
    for args, code in (
        (("Mail", "--app", str(program)), "spread.none"),
        (("Order",), "usage"),
        (("Order", "--app", str(program), *named(urls)), "usage"),
        (("Order", "--server", "a"), "usage"),
        (("Order", *named(urls), *named(urls)), "usage"),
        (("Order", *named(urls), "--without", "z"), "spread.server"),
        (("Order", "--server", "a=sqlite:x.db"), "spread.store"),
    ):
        assert wakeful("rebalance", *args, code=2)["error"]["code"] == code


def test_a_server_that_no_program_has_spread_over_is_none(wakeful: Any, urls: dict[str, str]) -> None:
    async def make() -> None:
        for url in urls.values():
            store = open_url(url)
            await store.open(now=NOW)
            await store.close()

    asyncio.run(make())
    assert wakeful("rebalance", "Order", *named(urls), code=1)["error"]["code"] == "spread.none"


def test_nothing_moves_while_a_node_runs_that_does_not_know_a_server(wakeful: Any, urls: dict[str, str]) -> None:
    async def make() -> None:
        await fill(urls, count=1)
        store = open_url(f"{urls['a']}&session_lock=off")  # so that its lease alone says that it lives
        await store.open(now=NOW)
        now = SystemClock().now()
        await store.join(NodeRow("n1", "", now, now + 60_000, "host pid 7 old.py"))
        await store.close()

    asyncio.run(make())
    said = wakeful("rebalance", "Order", *named(urls), code=1)["error"]
    assert said["code"] == "spread.nodes"
    assert "n1 (host pid 7 old.py) does not run on server b" in said["message"]


def test_one_of_several_servers_is_not_moved_as_a_whole(wakeful: Any, urls: dict[str, str], tmp_path: Path) -> None:
    asyncio.run(fill(urls, count=1))
    said = wakeful("move", urls["a"], f"sqlite:{tmp_path}/a.db", code=1)["error"]
    assert said["code"] == "move.spread"


def test_servers_that_are_not_sealed_alike_are_not_mixed(
    wakeful: Any, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is moved goes as it is: a plain value would be refused where everything is sealed, one under an old key lost."""
    old, new = key(), key()
    asyncio.run(fill(urls, count=6))  # nothing of it sealed
    everyone = ["rebalance", "Order", *named(urls), "--without", "b", "--slots"]
    for ring, keys in (("none", old), (old, f"{new} {old}")):
        monkeypatch.setenv("WAKEFUL_KEYS", keys)
        wakeful("keys", "rotate", "--store", urls["a"])
        said = wakeful(*everyone, "2", code=1)["error"]
        assert said["code"] == "spread.keys", ring
        assert "wakeful keys rotate" in said["message"]
        assert "a has everything under key" in said["message"]
        wakeful("keys", "rotate", "--store", urls["b"])
        assert wakeful(*everyone, "2")["moved"] == 2
    monkeypatch.setenv("WAKEFUL_KEYS", new)
    for url in urls.values():
        checked = wakeful("keys", "check", "--store", url)
        assert (checked["left"], checked["shut"]) == (0, 0)
    rows = [one for one in asyncio.run(stored(urls)) if one]
    assert len(rows) == 6


async def test_a_server_says_which_key_it_needs_though_the_shard_of_that_row_is_elsewhere(
    urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spread that gets its keys late: else what is sealed next would have it refused at the next start."""
    monkeypatch.setenv("WAKEFUL_KEYS", key())
    async with Servers(urls) as servers:
        [there] = [name for name in urls if name not in await servers.has(shard_of(CHECK))]
        slot, id = next((slot, id) for slot, id in BY_SLOT.items() if servers.map.slots[slot] == there)
        assert (await servers.stores[there].find_objects(Query(limit=5))) == []
        for _ in range(2):
            store: Any = open_store(urls[there])
            await store.open(now=NOW)
            epochs = await store.claim("n", [slot], now=NOW)
            put = Commit(id=id, shard=slot, epoch=epochs[slot], now=NOW, puts={(USER, "n"): b"1"})
            assert await store.commit("n", [put]) == [None]
            assert (await store.sealed_with())[1] is True
            await store.close()
        assert (await servers.stores[there].read(id, USER, ["n"]))["n"] != b"1"


async def stored(urls: dict[str, str]) -> list[dict[str, bytes]]:
    """What each object that was filled has, through the seal."""
    some, found = list(BY_SLOT.items())[:6], []
    for url in urls.values():
        store = open_store(url)
        await store.open(now=NOW, readonly=True)
        found += [await store.read(id, USER, ["n"]) for _, id in some]
        await store.close()
    return found


async def test_nobody_moves_slots_while_a_server_is_sealed_anew_nor_the_other_way_round(
    wakeful: Any, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_KEYS", key())
    await fill(urls, count=1)
    for name in urls:
        await asyncio.to_thread(wakeful, "keys", "rotate", "--store", urls[name])
    for name in urls:
        async with Servers(urls) as servers:
            assert await servers.tables[name].lock()
            said = await asyncio.to_thread(wakeful, "keys", "rotate", "--store", urls[name], code=1)
            assert said["error"]["code"] == "spread.busy"
            said = await asyncio.to_thread(wakeful, "rebalance", "Order", *named(urls), "--without", "b", code=1)
            assert said["error"]["code"] == "spread.busy"
            assert urls[name].partition("?")[0].rpartition("/")[2] in said["error"]["message"]


def key() -> str:
    return f"wkk_{urandom(32).hex()}"
