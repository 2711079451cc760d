"""The client for code that does not await."""

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from tests.http.client_stage import Shop, in_thread, served
from wakeful import Client, errors
from wakeful.client import SyncClient

AT = datetime(2099, 1, 1, tzinfo=UTC)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "wakeful-client"]


async def test_everything_blocks() -> None:
    def work(shop: Shop) -> None:
        with Client.sync(shop.url) as client:
            bob = client.get(shop.cls, "bob")
            assert (bob.add(5), bob.add(amount=2), client.get("Shop", "bob").total()) == (5, 7, 7)
            with pytest.raises(ValueError, match="no luck"):
                bob.fails("no luck")
            job = client.jobs.schedule(bob.echo, b"x")
            assert client.jobs.wait(job, timeout="20s") == b"x"
            own = client.schedules(shop.cls, "bob")
            assert own.add("0 3 * * *", shop.cls.nightly, name="n").name == "n"
            assert [one.name for one in own.list()] == ["n"]
            assert [row["key"] for row in client.objects("Shop")] == ["bob"]
            assert {"objects", "due", "jobs", "schedules"} <= set(dir(client))
            assert "schedule" in dir(client.jobs)
            with pytest.raises(AttributeError):
                client.nothing()
            with pytest.raises(errors.BadName):
                client.get("Shop", "")
            with pytest.raises(errors.UnknownMethod):
                bob.nothing()
        assert threads() == []
        with pytest.raises(errors.NotRunning):
            bob.add(1)

    async with served() as shop:
        await in_thread(lambda: work(shop))


async def test_many_threads_share_one() -> None:
    def work(shop: Shop) -> None:
        with Client.sync(shop.url) as client, ThreadPoolExecutor(16) as pool:
            stub = client.get("Shop", "a")
            assert sorted(pool.map(lambda _: stub.add(1), range(200))) == list(range(1, 201))
            assert threads() == ["wakeful-client"]

    async with served() as shop:
        await in_thread(lambda: work(shop))


async def test_events() -> None:
    def work(shop: Shop) -> None:
        with Client.sync(shop.url) as client:
            client.get("Shop", "a").alarm_soon(0.5)
            for event in client.events("run"):
                assert (event["kind"], event["key"]) == ("run", "a")
                break

    async with served() as shop:
        await in_thread(lambda: work(shop))


async def test_in_an_event_loop_it_refuses_to_block() -> None:
    client = Client.sync("http://127.0.0.1:1")
    with pytest.raises(errors.BadOption) as caught:
        client.get("Shop", "a").add(1)
    assert caught.value.code == "client.blocking"
    client.close()


async def test_closing_ends_what_is_under_way() -> None:
    async with served() as shop:
        client = Client.sync(shop.url)
        task = asyncio.ensure_future(in_thread(lambda: client.get("Shop", "a").slow(60.0)))
        while not shop.app.deployment.node.awake:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await in_thread(client.close)
        with pytest.raises(errors.NotRunning) as caught:
            await asyncio.wait_for(task, 20)
        assert caught.value.code == "client.closed"
        assert threads() == []


async def test_one_that_is_forgotten_ends_its_thread() -> None:
    def work(shop: Shop) -> None:
        client = Client.sync(shop.url)
        assert client.get("Shop", "a").add(1) == 1
        assert threads() == ["wakeful-client"]

    async with served() as shop:
        await in_thread(lambda: work(shop))
        assert threads() == []


def test_it_is_not_used_before_it_is_used() -> None:
    client = Client.sync("http://127.0.0.1:1", token="wk_secret", timeout="100ms")
    assert isinstance(client, SyncClient)
    assert threads() == []
    assert "wk_secret" not in repr(client)
    with pytest.raises(errors.Unavailable):
        client.objects()
    client.close()
    client.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
async def test_after_a_fork_it_says_so() -> None:
    program = """
import os, sys
from wakeful import Client
used, unused = Client.sync(sys.argv[1]), Client.sync(sys.argv[1])
assert used.get("Shop", "a").add(1) == 1
if os.fork() == 0:
    try:
        used.get("Shop", "a").add(1)
    except Exception as error:
        print(error.code, unused.get("Shop", "a").add(1), flush=True)
    unused.close()
    used.close()
    os._exit(0)
os.wait()
print(used.get("Shop", "a").add(1))
"""
    async with served() as shop:
        command = [sys.executable, "-W", "error", "-c", program, shop.url]
        done = await in_thread(lambda: subprocess.run(command, capture_output=True, text=True, timeout=60))
        assert (done.stdout.split(), done.stderr) == (["client.fork", "2", "3"], "")


def test_without_its_extra_it_says_what_to_install() -> None:
    code = """
import sys
sys.modules["aiohttp"] = None
import wakeful
try:
    wakeful.Client("http://x")
except wakeful.WakefulError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "the client needs aiohttp: pip install 'wakeful[client]' [extra.client]\n"
    code = (
        "import sys, wakeful; print([name for name in sys.modules if name.startswith(('aiohttp', 'wakeful.client'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
