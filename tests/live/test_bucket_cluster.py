"""Three processes on a bucket that is slow, refuses and loses answers: one is killed with -9, one frozen, one cut off, under load.

No acknowledged write is lost, none is doubled. The long form is `test_cluster_bucket.py`.
"""

import asyncio
import shutil
from pathlib import Path

from tests.live.cluster import balanced
from tests.live.harness import IS_LONG
from tests.live.rough import Load, RoughFleet, rough_fleet, settled

CALLERS = 24
CALM_S = 1.5
FROZEN_S = 20.0 if IS_LONG else 6.0  # longer than the lease
LEASE_S = 5.0


async def _hurt(members: RoughFleet) -> None:
    """One is killed, one frozen for longer than its lease, one is cut off, and one loses its local file while it runs."""
    await asyncio.sleep(CALM_S)
    await asyncio.to_thread(members[0].kill)
    await asyncio.to_thread(members.replace(0).wait_for, "ready")
    members.links[2].cut()
    await asyncio.sleep(CALM_S)
    members[1].freeze()
    await asyncio.sleep(FROZEN_S / 2)
    members.links[2].heal()
    await asyncio.sleep(FROZEN_S / 2)
    members[1].thaw()
    await asyncio.sleep(CALM_S)
    shutil.rmtree(members.cache)
    await asyncio.sleep(CALM_S)


async def test_nothing_is_lost_or_doubled_while_nodes_on_a_bucket_are_killed_frozen_and_cut_off(tmp_path: Path) -> None:
    load = Load(CALLERS)
    async with rough_fleet(tmp_path, 3, LEASE_S) as (members, node):
        await balanced(node, members)
        calling = asyncio.create_task(load.run())
        await _hurt(members)
        load.is_over = True
        await calling
        await balanced(node, members)
        await settled(node)
        codes = await asyncio.gather(*(asyncio.to_thread(member.stop) for member in members))
        assert codes == [0] * 3, [member.tail() for member in members]
    await load.check(f"bucket:{tmp_path / 'bucket'}?cache={tmp_path}/judge")
    assert len(load.acked) > 100
    assert load.longest_s < LEASE_S + 20  # a request that was done may be heard of 6 s later here
