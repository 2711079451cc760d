"""Two processes on one store: a file has one owner, a database is shared, and a node that lost its shards can't write."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.live.harness import Book, check, child, looking, settle
from tests.live.stage import Stage
from wakeful.store.protocol import Query, Range
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.errors import FileOwned


async def test_second_owner_of_a_file_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/live.db"
    book = Book()
    with child(book, url=url, run="o", callers=4) as owner:
        owner.until(lambda: owner.count("ack") > 20)
        stage = Stage(url)
        with pytest.raises(FileOwned, match=rf"process {owner.pid} \(.*tally\.py\)"):
            async with stage.app.run(url):
                pass
        async with looking(url) as store:
            infos = await store.find_objects(Query(cls="Tally"))
            assert infos, "a reader sees nothing"
            rows = dict(await store.scan(infos[0].id, USER, Range()))
            assert decode(rows["count"]) == decode(rows["mirror"]) > 0
        acked = owner.count("ack")
        owner.until(lambda: owner.count("ack") > acked + 20)
        owner.kill()
    # The lock goes with the process, however it ended.
    await asyncio.to_thread(settle, url, book)
    await asyncio.to_thread(check, url, book)


def test_two_nodes_on_one_database_share_it_and_lose_nothing(postgres_schema_url: str) -> None:
    book = Book()
    tallies = [f"t{number}" for number in range(4)]
    with child(book, url=postgres_schema_url, run="a") as first:
        first.wait_for("up")
        first.order(["add", "t0", "before"])
        first.wait_for("ack", "t0", "before")
        with child(book, url=postgres_schema_url, run="b") as second:
            second.wait_for("up")
            # Whoever is asked, the answer comes from the one owner, and counts on.
            for asked, run in ((first, "a"), (second, "b")):
                for tally in tallies:
                    asked.order(["add", tally, f"{run}-{tally}"])
                    asked.wait_for("ack", tally, f"{run}-{tally}")
            assert second.wait_for("ack", "t0", "b-t0") == ["ack", "t0", "b-t0", 3]
            first.order(["stop"])
            first.wait_for("stopped")
            second.order(["add", "t0", "still-there"])
            assert second.wait_for("ack", "t0", "still-there")[3] == 4, "the first one's stop took something along"
            second.order(["stop"])
            second.wait_for("stopped")
    book.tried = {"before": "t0", "still-there": "t0"} | {f"{run}-{tally}": tally for run in "ab" for tally in tallies}
    settle(postgres_schema_url, book)
    check(postgres_schema_url, book)


def test_a_frozen_node_wakes_up_and_can_not_write(postgres_schema_url: str) -> None:
    book = Book()
    url = postgres_schema_url
    with child(book, url=url, run="a", callers=8) as first:
        first.until(lambda: first.count("ack") > 50)
        first.order(["hold", "held", 1.0])
        first.wait_for("holding", "held")
        first.send_signal(signal.SIGSTOP)
        with child(book, url=url, run="b", callers=4) as second:
            second.until(lambda: second.count("ack") > 50)
            # The other one has what the frozen one holds.
            second.order(["add", "held", "taken"])
            second.wait_for("ack", "held", "taken")
            first.send_signal(signal.SIGCONT)
            # Wakes up in the middle of its turns, still believing: the one that was certainly under way is refused.
            assert first.wait_for("refused", "held", "hold")
            # It knows then who has them, and its callers go on there.
            acked = [first.count("ack"), second.count("ack")]
            first.until(lambda: first.count("ack") > acked[0] + 20)
            second.until(lambda: second.count("ack") > acked[1] + 20)
            first.kill()
            second.order(["stop"])
            second.wait_for("stopped")
        late = [event for event in first.events if event[0] == "ack"]
    book.tried["taken"] = "held"
    settle(url, book)
    assert "held" not in asyncio.run(_rows(url, "held")), "a turn that was refused has written"
    print(f"{len(late)} acknowledged by the frozen one; {check(url, book)}")


async def _rows(url: str, key: str) -> dict[str, bytes]:
    async with looking(url) as store:
        (info,) = await store.find_objects(Query(cls="Tally", key=key))
        return dict(await store.scan(info.id, USER, Range()))
