"""The commands that operate a cluster, in this process: nodes, drain, doctor, move, run's own options."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from wakeful.cli import checkups, cluster_access, run
from wakeful.cli.exit_codes import CommandError, exit_code_of
from wakeful.store import NodeRow, ShardRow, Store, open_url
from wakeful.store.postgres.health import Health, LongSession
from wakeful.values.commits import Commit
from wakeful.values.errors import AddressInUse, BadAddress, BadOption, NoSecret, WrongCluster
from wakeful.values.ids import SHARDS, ObjectId, shard_of
from wakeful.values.timers import Parked, Timer
from wakeful.views.nodes import Members, ranges, stand, state_of

NOW = 1_000_000


def row(node: str, lease_ms: int = 3_000, **more: Any) -> NodeRow:
    return NodeRow(node, f"tcp:127.0.0.1:{len(node)}", NOW - 9_000, NOW + lease_ms, f"host {node}", **more)


def cluster(*rows: NodeRow, owners: dict[int, str] | None = None) -> Members:
    found = [ShardRow(n, (owners or {}).get(n), 1) for n in range(SHARDS)]
    return stand(rows, found, NOW)


@pytest.fixture
def wakeful(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # no other test's nodes are reached from here
    for name in (
        *cluster_access.TLS,
        cluster_access.SECRET,
        cluster_access.SECRET_FILE,
        "WAKEFUL_STORE",
        "WAKEFUL_LISTEN",
    ):
        monkeypatch.delenv(name, raising=False)

    def command(*args: str, code: int = 0, as_json: bool = True) -> Any:
        capsys.readouterr()
        ended = run([*args, *["--json"] * as_json])
        out, err = capsys.readouterr()
        assert ended == code, (out, err)
        if not as_json:
            return out + err
        return json.loads(out) if ended == 0 else json.loads(out.splitlines()[0])

    return command


def on(url: str, do: Callable[[Store], Coroutine[Any, Any, Any]]) -> Any:
    async def open_and_do() -> Any:
        store = open_url(url)
        await store.open(now=NOW)
        try:
            return await do(store)
        finally:
            await store.close()

    return asyncio.run(open_and_do())


@contextmanager
def joined(url: str, *names: str) -> Iterator[None]:
    """Nodes that live, as the store sees it, and do nothing; the first owns ten shards."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stores: list[Store] = []

    async def join(name: str) -> None:
        store = open_url(url)
        stores.append(store)
        await store.open(now=NOW)
        now = await store.time() or 0
        await store.join(NodeRow(name, "", now, now + 60_000, "host"))
        if name == names[0]:
            await store.claim(name, range(10), now=now)

    async def close() -> None:
        for store in stores:
            await store.close()

    try:
        for name in names:
            asyncio.run_coroutine_threadsafe(join(name), loop).result(20)
        yield
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


# how nodes stand


@pytest.mark.parametrize(
    ("lease_ms", "is_here", "is_draining", "state"),
    [
        (1, True, False, "up"),
        (1, None, False, "up"),
        (1, None, True, "draining"),
        (1, False, False, "gone"),  # its session tells more than its lease
        (0, True, False, "silent"),
        (-59_999, None, True, "silent"),
        (-60_000, None, False, "gone"),
        (-600_000, True, False, "silent"),  # frozen, however long
    ],
)
def test_the_state_of_a_node(lease_ms: int, is_here: bool | None, is_draining: bool, state: str) -> None:
    assert state_of(row("a", lease_ms, is_here=is_here, is_draining=is_draining), NOW) == state


def test_shards_are_counted_where_they_are() -> None:
    found = cluster(row("a"), row("b"), owners={0: "a", 1: "a", 2: "b", 3: "left"})
    assert [(member.row.node, member.shards) for member in found.nodes] == [("a", [0, 1]), ("b", [2])]
    assert found.lost == {"left": [3]}
    assert found.unowned == list(range(4, SHARDS))


def test_a_node_is_named_by_how_its_name_begins() -> None:
    found = cluster(row("abc"), row("abd"), row("ab"))
    assert found.with_name("abc").row.node == "abc"
    assert found.with_name("ab").row.node == "ab"  # whole names win
    for prefix, word in (("a", "several nodes"), ("x", "no node's name"), ("", "no node's name")):
        with pytest.raises(BadOption, match=word) as raised:
            found.with_name(prefix)
        assert (raised.value.code, exit_code_of(raised.value)) == ("node.name", 2)


def test_ranges_of_shards() -> None:
    assert ranges([5, 3, 4, 9, 11, 12]) == "3-5, 9, 11-12"
    assert ranges([]) == ""


# what the doctor says of them


def statuses(*names: str, **more: Any) -> dict[str, dict[str, Any]]:
    common = {"pid": 7, "state": "up", "down_because": None, "awake": 3, "classes": []} | more
    return dict.fromkeys(names, common)


class Frozen:
    """A store whose nodes and shards don't change between two looks."""

    shared = True

    def __init__(self, found: Members, owners: list[ShardRow]) -> None:
        self._found, self._owners = found, owners

    async def nodes(self) -> list[NodeRow]:
        return [member.row for member in self._found.nodes]

    async def owners(self) -> list[ShardRow]:
        return self._owners

    async def time(self) -> int:
        return NOW


def examined(
    *rows: NodeRow, owners: dict[int, str], said: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, str]]:
    monkeypatch.setattr(checkups, "HANDOVER_S", 0)
    found = [ShardRow(n, owners.get(n), 1) for n in range(SHARDS)]
    store: Any = Frozen(stand(rows, found, NOW), found)
    findings = asyncio.run(checkups.owners(store, stand(rows, found, NOW), said))
    assert all(finding.remedy for finding in findings if finding.status != "ok")
    return [(finding.check, finding.status) for finding in findings]


def test_a_healthy_cluster_has_no_findings_but_good_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {n: "ab"[n % 2] for n in range(SHARDS)}
    found = examined(row("a"), row("b"), owners=owners, said=statuses("a"), monkeypatch=monkeypatch)
    assert found == [("owner", "ok"), ("owner", "ok")]


def test_shards_that_nobody_serves_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = (
        dict.fromkeys(range(100), "a") | dict.fromkeys(range(100, 110), "dead") | dict.fromkeys(range(110, 120), "gone")
    )
    rows = (row("a"), row("dead", is_here=False))
    found = examined(*rows, owners=owners, said=statuses("a"), monkeypatch=monkeypatch)
    assert found == [("owner", "ok"), ("owner", "warn"), ("shards", "fail"), ("shards", "fail"), ("shards", "fail")]


def test_what_is_wrong_between_nodes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = dict.fromkeys(range(SHARDS), "a")
    quiet = NodeRow("b", "", 0, NOW + 1_000, "host b", cluster="other")
    found = examined(row("a"), quiet, owners=owners, said={}, monkeypatch=monkeypatch)
    assert found == [("owner", "ok"), ("owner", "ok"), ("cluster", "fail"), ("cluster", "fail")]
    far = NodeRow("c", "unix:/run/c.sock", 0, NOW + 1_000, "elsewhere pid 3")
    found = examined(row("a"), far, owners=owners, said={}, monkeypatch=monkeypatch)
    assert found == [("owner", "ok"), ("owner", "ok"), ("cluster", "fail")]
    found = examined(row("a", is_draining=True), owners=owners, said={}, monkeypatch=monkeypatch)
    assert found == [("owner", "ok"), ("cluster", "warn")]


def test_silent_down_and_doubting_nodes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = dict.fromkeys(range(SHARDS), "a")
    rows = (row("a"), row("b", -5_000, is_here=True), row("c", -5_000))
    found = examined(*rows, owners=owners, said=statuses("a"), monkeypatch=monkeypatch)
    assert found == [("owner", "ok"), ("lease", "warn"), ("lease", "warn")]
    down = statuses("a", state="down", down_because="no route")
    assert examined(row("a"), owners=owners, said=down, monkeypatch=monkeypatch) == [("owner", "fail")]
    doubt = statuses("a", clock_doubt="the clock jumped")
    assert examined(row("a"), owners=owners, said=doubt, monkeypatch=monkeypatch) == [("owner", "fail")]
    nobody = examined(row("b", -5_000, is_here=True), owners=owners, said={}, monkeypatch=monkeypatch)
    assert nobody == [("owner", "warn"), ("lease", "warn")]


@pytest.mark.parametrize(("offset_ms", "status"), [(300, "ok"), (-300, "ok"), (5_000, "warn"), (-5_000, "warn")])
def test_the_clock_is_measured_by_the_quickest_answer(
    offset_ms: int, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [NOW]
    trips = iter([400, 20, 900, 80, 200])
    monkeypatch.setattr(checkups, "own_ms", lambda: now[0])

    class Far:
        async def time(self) -> int:
            trip = next(trips)
            now[0] += trip
            # A slow answer is old when it comes: only the quick ones tell the truth.
            return now[0] - (trip // 2 if trip == 20 else trip) + offset_ms

    store: Any = Far()
    [finding] = asyncio.run(checkups.clock(store))
    assert finding.status == status
    assert ("behind" in finding.text) == (offset_ms > 0)
    assert f"{abs(offset_ms) / 1000:.1f} s" in finding.text or f"{abs(offset_ms)} ms" in finding.text


def test_sessions_that_hold_others_up() -> None:
    idle = LongSession(7, "app", "psql", "idle in transaction", 90_000, False, [], True, "SELECT 1")
    waits = LongSession(8, "app", "wakeful", "active", 6_000, True, [7], False, "UPDATE x")
    first, second = checkups.sessions([idle, waits], 0)
    assert (first.status, second.status) == ("warn", "warn")
    assert "holds locks on Wakeful's tables" in first.text
    assert "pg_terminate_backend(7)" in first.remedy
    assert "waits for a lock of 7" in second.text
    assert [finding.status for finding in checkups.sessions([], 0)] == ["ok"]


@pytest.mark.parametrize(
    ("found", "statuses"),
    [
        (Health(False, False, 12, 100, 0, [], True), {"server": "ok", "queries": "ok", "hints": "ok"}),
        (Health(False, False, 95, 100, 0, [], False), {"server": "warn", "queries": "ok", "hints": "warn"}),
        (Health(None, None, None, None, None, None, False), {"hints": "warn"}),  # a relative that says little
    ],
)
def test_what_the_server_says_of_itself(
    found: Health, statuses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def health(target: object) -> Health:
        return found

    monkeypatch.setattr("wakeful.store.postgres.health.health", health)
    findings = asyncio.run(checkups.server("postgresql://db/app"))
    assert {finding.check: finding.status for finding in findings} == statuses
    assert all(finding.remedy for finding in findings if finding.status != "ok")


def test_a_standby_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async def health(target: object) -> Health:
        return Health(True, True, None, None, None, [], False)

    monkeypatch.setattr("wakeful.store.postgres.health.health", health)
    first, *rest = asyncio.run(checkups.server("postgresql://db/app"))
    assert (first.check, first.status) == ("server", "fail")
    assert [finding.check for finding in rest] == ["queries"]  # that it hears nothing is no news then


def test_the_doctor_sees_a_long_transaction_and_who_waits_for_it(
    wakeful: Callable[..., Any], postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wakeful.store.postgres import health as module
    from wakeful.store.postgres.url import parse_url

    target = parse_url(postgres_schema_url)
    assert wakeful("migrate", "--store", postgres_schema_url)["applied"]

    async def do() -> None:
        import asyncpg

        holder = await asyncpg.connect(target.dsn, server_settings={"application_name": "careless"})
        waiter = await asyncpg.connect(target.dsn)
        try:
            await holder.execute(f"BEGIN; LOCK TABLE {target.schema}.timers IN EXCLUSIVE MODE")
            task = asyncio.ensure_future(waiter.execute(f"UPDATE {target.schema}.timers SET attempt = 1"))
            await asyncio.sleep(1.2)
            found = await module.health(target, long_ms=1_000)
            assert found.is_standby is False
            assert found.hears is True
            assert found.sessions is not None
            held = {one.application: one for one in found.sessions}["careless"]
            assert held.touches
            assert not held.is_waiting
            assert held.age_ms >= 1_000
            [waiting] = [one for one in found.sessions if one.is_waiting]
            assert waiting.blockers == [held.pid]
            await holder.execute("ROLLBACK")
            await task
            assert (await module.health(target, long_ms=1_000)).sessions == []
        finally:
            await holder.close()
            await waiter.close()

    asyncio.run(do())
    findings = {found["check"]: found["status"] for found in wakeful("doctor", "--store", postgres_schema_url)}
    assert findings["queries"] == findings["server"] == findings["hints"] == findings["clock"] == "ok"


# nodes and drain


def test_nodes_of_a_store_that_nobody_runs(wakeful: Callable[..., Any], postgres_schema_url: str) -> None:
    wakeful("migrate", "--store", postgres_schema_url)
    found = wakeful("nodes", "--store", postgres_schema_url)
    assert found == {"nodes": [], "unowned": list(range(SHARDS)), "lost": {}}
    said = wakeful("nodes", "--store", postgres_schema_url, as_json=False)
    assert "no node has joined this store" in said
    assert "256 shards without an owner: 0-255" in said


def test_nodes_are_shown_as_they_stand_after_they_were_asked(
    wakeful: Callable[..., Any], postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which takes seconds when one of them is frozen; what was read before is over by then."""
    wakeful("migrate", "--store", postgres_schema_url)
    before = cluster(row("frozen", 786), row("leaves"), owners={0: "frozen", 1: "leaves"})
    after = stand([row("frozen", 786), row("joins")], [ShardRow(0, "frozen", 1), ShardRow(1, "joins", 2)], NOW + 2_000)
    readings = iter([before, after] * 2)

    async def members(store: Store, now: int) -> Members:
        return next(readings)

    async def statuses(store: Store, rows: list[NodeRow]) -> dict[str, Any]:
        assert [one.node for one in rows] == ["frozen", "leaves"]
        return {"leaves": {"state": "up"}}

    monkeypatch.setattr("wakeful.views.nodes.members", members)
    monkeypatch.setattr("wakeful.cli.node_access.statuses", statuses)
    said = wakeful("nodes", "--store", postgres_schema_url, as_json=False)
    lines = [line.split() for line in said.splitlines()[2:]]
    assert [line[:3] for line in lines[:2]] == [["frozen", "silent", "1"], ["joins", "up", "1"]], said
    assert "frozen, joins: no answer; frozen, or not to be reached from here" in said
    assert "over for 1.2 s" in said
    found = wakeful("nodes", "--store", postgres_schema_url)["nodes"]
    assert [(one["node"], one["lease_ms"], one["status"]) for one in found] == [
        ("frozen", -1_214, None),
        ("joins", 1_000, None),
    ]


def test_draining_is_a_wish_in_the_store(wakeful: Callable[..., Any], postgres_schema_url: str) -> None:
    with joined(postgres_schema_url, "n1", "n2"):
        drained = wakeful("drain", "n1", "--store", postgres_schema_url)
        assert drained == {"node": "n1", "is_draining": True, "shards_left": 10, "others": ["n2"]}
        states = {one["node"]: one["state"] for one in wakeful("nodes", "--store", postgres_schema_url)["nodes"]}
        assert states == {"n1": "draining", "n2": "up"}
        late = wakeful("drain", "n1", "--wait", "--timeout", "300ms", "--store", postgres_schema_url, code=3)
        assert late["error"]["code"] == "drain.timeout"
        assert wakeful("drain", "n1", "--undo", "--store", postgres_schema_url)["is_draining"] is False
        assert wakeful("drain", "n2", "--store", postgres_schema_url)["others"] == ["n1"]
        said = wakeful("drain", "n1", "--store", postgres_schema_url, as_json=False)
        assert "hands over" not in said
        assert "node n1 keeps its 10 shards and goes on firing: no other node can take them" in said
        assert "--undo" in said
        alone = wakeful("drain", "n1", "--wait", "--store", postgres_schema_url, code=1)
        assert alone["error"]["code"] == "drain.alone"
        unknown = wakeful("drain", "zz", "--store", postgres_schema_url, code=2)
        assert unknown["error"]["code"] == "node.name"


def test_drain_is_for_stores_that_nodes_share(wakeful: Callable[..., Any], tmp_path: Path) -> None:
    said = wakeful("drain", "a", "--store", f"sqlite:{tmp_path}/x.db", code=2)
    assert said["error"]["code"] == "store.single"
    assert not (tmp_path / "x.db").exists()


# redrive


def test_redrive_without_a_node_takes_no_shard_from_one_that_starts_just_then(
    wakeful: Callable[..., Any], postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wakeful.store.postgres import PostgresStore

    ids = [ObjectId("A", "first"), ObjectId("A", "second")]
    taken = shard_of(ids[1])

    async def park(store: Store) -> None:
        epochs = await store.claim("n", range(SHARDS), now=NOW)
        for id in ids:
            shard = shard_of(id)
            parked = Parked(Timer(id, "alarm", 1, 1, 1), "run", 2, 7, "failed", "no", "")
            commit = Commit(id=id, shard=shard, epoch=epochs[shard], now=NOW, parks=[parked])
            assert await store.commit("n", [commit]) == [None]
        await store.release("n", epochs)

    on(postgres_schema_url, park)
    owners = PostgresStore.owners

    async def seen_too_early(self: PostgresStore) -> list[ShardRow]:
        rows = await owners(self)
        return [ShardRow(one.shard, one.owner, one.epoch - (one.shard == taken)) for one in rows]

    monkeypatch.setattr(PostgresStore, "owners", seen_too_early)
    said = wakeful("redrive", "--all", "--store", postgres_schema_url, code=1, as_json=False)
    assert "A/first alarm: due now" in said
    assert "took the store over meanwhile" in said
    monkeypatch.setattr(PostgresStore, "owners", owners)
    [again] = wakeful("redrive", "--all", "--store", postgres_schema_url)
    assert (again["key"], again["ok"]) == ("second", True)
    assert len(wakeful("due", "--store", postgres_schema_url)) == 2
    assert wakeful("nodes", "--store", postgres_schema_url)["lost"] == {}


# move


def test_move_says_what_it_moved_and_that_it_checked(wakeful: Callable[..., Any], tmp_path: Path) -> None:
    async def fill(store: Store) -> None:
        await store.insert([Timer(ObjectId("A", "b"), "alarm", 1, 1, 1)], now=1)

    source, target = f"sqlite:{tmp_path}/a.db", f"sqlite:{tmp_path}/b.db"
    on(source, fill)
    done = wakeful("move", source, target)
    assert (done["source"], done["target"], done["is_checked"]) == (source, target, True)
    assert {name: part["rows"] for name, part in done["tables"].items() if part["rows"]} == {"objects": 1, "timers": 1}
    refused = wakeful("move", source, target, code=1)
    assert refused["error"]["code"] == "move.target"
    said = wakeful("move", source, f"sqlite:{tmp_path}/c.db", as_json=False)
    assert "moved and checked" in said
    assert "don't run both" in said


# what run is given


def test_a_secret_comes_from_a_file_or_the_environment_and_never_from_an_argument(
    wakeful: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s").write_text("  from-the-file\n")
    monkeypatch.setenv("WAKEFUL_SECRET", "from-the-environment")
    assert cluster_access.pass_of().secret == "from-the-environment"
    assert cluster_access.pass_of(str(tmp_path / "s")).secret == "from-the-file"
    monkeypatch.setenv("WAKEFUL_SECRET_FILE", str(tmp_path / "s"))
    for option in (None, str(tmp_path / "s")):  # an option that is not given comes from the environment too
        with pytest.raises(CommandError, match=r"\$WAKEFUL_SECRET and \$WAKEFUL_SECRET_FILE are both set") as caught:
            cluster_access.pass_of(option)
        assert (caught.value.code, caught.value.exit_code) == ("secret.both", 2)
        assert "from-the" not in caught.value.message
    (tmp_path / "other").write_text("of-the-option")
    assert cluster_access.pass_of(str(tmp_path / "other")).secret == "of-the-option"  # which goes first, as always
    monkeypatch.setenv("WAKEFUL_SECRET", "from-the-file")
    assert cluster_access.pass_of().secret == "from-the-file"  # they agree
    monkeypatch.delenv("WAKEFUL_SECRET")
    assert cluster_access.pass_of().secret == "from-the-file"
    said = wakeful("run", "app.py", "--secret", "hunter2", code=2, as_json=False)
    assert "can be read by every user" in said
    assert "hunter2" not in said
    (tmp_path / "s").write_text("\n")
    with pytest.raises(CommandError, match="is empty"):
        cluster_access.pass_of()


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--advertise", "127.0.0.1:1"), "address.listen"),
        (("--listen", "127.0.0.1:0", "--secret-file", "missing"), "secret.file"),
        (("--listen", "127.0.0.1:0", "--tls-cert", "a.pem"), "tls.files"),
    ],
)
def test_options_that_make_no_sense_are_refused(wakeful: Callable[..., Any], args: tuple[str, ...], code: str) -> None:
    assert wakeful("run", "app.py", "--store", "postgresql://db/x", *args, code=2)["error"]["code"] == code


def test_tls_takes_all_three_files(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="--tls-key and --tls-ca is missing"):
        cluster_access.pass_of(None, "cert.pem")
    monkeypatch.setenv("WAKEFUL_TLS_KEY", "key.pem")
    monkeypatch.setenv("WAKEFUL_TLS_CA", "ca.pem")
    assert cluster_access.pass_of(None, "cert.pem").tls == ("cert.pem", "key.pem", "ca.pem")


def test_options_of_run_reach_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WAKEFUL_LISTEN", "WAKEFUL_ADVERTISE", "WAKEFUL_CLUSTER", "WAKEFUL_LEASE"):
        monkeypatch.delenv(name, raising=False)
    postgres, let_in = "postgresql://db/app", cluster_access.Pass("s" * 16, None)
    assert cluster_access.join_options(postgres, "h:1", "x:2", "shop", let_in) == {
        "listen": "h:1", "advertise": "x:2", "cluster": "shop", "secret": "s" * 16,
    }  # fmt: skip
    assert (
        cluster_access.join_options("sqlite:x.db", None, None, None, let_in) == {}
    )  # one process has nobody to show a secret to
    monkeypatch.setenv("WAKEFUL_LISTEN", "h:3")
    assert cluster_access.join_options(postgres, None, None, None, cluster_access.Pass(None, None)) == {"listen": "h:3"}


@pytest.mark.parametrize(
    ("error", "code"), [(BadAddress("x"), 2), (NoSecret("x"), 2), (AddressInUse("x"), 3), (WrongCluster("x"), 3)]
)
def test_exit_codes_of_what_stops_a_node_from_joining(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code
