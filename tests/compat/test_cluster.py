"""A Worker's objects on several nodes: calls, errors, names and requests cross between them as they are."""

from pathlib import Path

import pytest

from tests.compat.workers_stage import played, write_worker

CODE = """
from workers import DurableObject, Response

class Own(Exception):
    pass

class Sample(DurableObject):
    async def go(self, what):
        await self.ctx.storage.put("n", (await self.ctx.storage.get("n") or 0) + 1)
        if what == "lookup":
            raise LookupError("theirs")
        if what == "own":
            raise Own("mine")
        if what == "abort":
            self.ctx.abort("over")
        if what == "refused":
            await self.ctx.storage.setAlarm("soon")
        return [await self.ctx.storage.get("n"), self.ctx.id.name]

    async def fetch(self, request):
        return Response(await request.bytes(), status=203)

    async def alarm(self):
        pass
"""
NAMES = ["a", "b", "c", "d", "e", "f", "a name longer than twenty-three bytes"]


async def test_what_crosses_between_nodes_is_what_was_sent(tmp_path: Path) -> None:
    async with played(write_worker(tmp_path, CODE), nodes=3) as (worker, world):
        owners = set()
        for name in NAMES:
            sample = worker.env.SAMPLE.getByName(name)
            assert await sample.go("fine") == [1, name]
            with pytest.raises(LookupError, match="theirs"):
                await sample.go("lookup")
            with pytest.raises(worker.module.Own, match="mine"):
                await sample.go("own")
            with pytest.raises(Exception, match="over") as reset:
                await sample.go("abort")
            assert reset.value.durableObjectReset  # type: ignore[attr-defined]
            with pytest.raises(TypeError, match="setAlarm"):
                await sample.go("refused")
            answer = await sample.fetch("http://x/", method="POST", body=b"\0")
            assert (answer.status, await answer.bytes()) == (203, b"\0")
            assert await sample.go("fine") == [5, name], "the raises keep, the abort loses"
            [owner] = [one for one in world.members if any(id.key == sample.id.key for id in one.node.awake)]  # type: ignore[union-attr]
            owners.add(owner)
        assert len(owners) > 1
