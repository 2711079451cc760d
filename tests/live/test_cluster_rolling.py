"""Two versions of a program on one cluster, as during every deploy: what does each of them do with the other's things?"""

import asyncio
import time

import pytest

from tests.live.cluster import Member, balanced, fetch, fleet, keys_of, until
from tests.live.programs.rolling_new import Account, Receipt, app
from wakeful import Unavailable
from wakeful.values.errors import UnknownMethod


async def test_a_deploy_rolls_over_nodes_of_two_versions(postgres_schema_url: str) -> None:
    url = postgres_schema_url
    with fleet(url, 1, program="rolling_old.py") as members:
        [old] = members
        new = Member(url, program="rolling_new.py")
        members.append(new)
        await asyncio.to_thread(new.wait_for, "ready")
        async with app.connect(url) as node:
            await balanced(node, members)
            on_old = keys_of(node, old.name, 3, cls="Account")
            on_new = keys_of(node, new.name, 3, cls="Account")

            # What both have works wherever the object lives, and so do timers of it.
            for key, version in ((on_old[0], 1), (on_new[0], 2)):
                assert await app.get(Account, key).version() == version
                assert await app.get(Account, key).deposit(100) == 100
                job = await app.jobs.schedule(app.get(Account, key).deposit, 5)
                assert await app.jobs.wait(job, timeout="120s") == 105

            # A new method fails on old nodes, at once and by its name.
            assert await app.get(Account, on_new[0]).told() == "105 EUR"
            with pytest.raises(UnknownMethod, match="told"):
                await app.get(Account, on_old[0]).told()

            # A new class waits where an old node owns the shard: calls until their deadline, timers for as long as it takes.
            there = keys_of(node, old.name, 2, cls="Receipt")
            here = keys_of(node, new.name, 2, cls="Receipt")
            assert await app.get(Receipt, here[0]).write("at once") == "at once"
            with pytest.raises((Unavailable, TimeoutError), match=r"does not know the class|not begin within"):
                await app.get(Receipt, there[0], deadline="1s").write("too early")
            waiting = await app.jobs.schedule(app.get(Receipt, there[1]).write, "at last")
            await until(lambda: bool(old.said("timer.unknown")), "the old node reports the class it does not know")
            assert "Receipt" in old.said("timer.unknown")[0]["text"]
            assert (await app.jobs.get(waiting)).state == "scheduled"

            # The last old node goes: the new one has everything, what waited runs, and old state has the new field.
            assert await asyncio.to_thread(old.stop) == 0
            since = time.monotonic()
            assert await app.jobs.wait(waiting, timeout="120s") == "at last"
            waited_s = time.monotonic() - since
            assert await app.get(Account, on_old[0]).told() == "105 EUR"
            assert await app.get(Receipt, there[0]).text() is None
            bad = await fetch(url, "SELECT key, name, verdict, error FROM {s}.ledger WHERE verdict <> 'run'")
            assert not bad, bad
    print(f"what waited for the new version ran {waited_s:.2f} s after the old one had gone")
