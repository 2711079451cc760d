"""A search that one look does not finish goes on in the next: nothing is skipped and no schedule ends; on every store."""

from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.rota import Rota, fates
from wakeful import any_of, cron, every, except_for, rrule
from wakeful.specs import combine

# Every second, but for those from the 20th to the 50th of each minute. A rule is not jumped over as a cron is: 31 steps of 2.
HOLE = except_for(every(1).seconds, rrule(f"FREQ=SECONDLY;BYSECOND={','.join(map(str, range(20, 51)))}", "UTC"))
KEPT = [second for second in range(1, 131) if not 20 <= second % 60 <= 50]  # a world begins at a full minute


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combine, "STEPS_MAX", 24)


@pytest.mark.parametrize("spec", [HOLE, any_of(HOLE, cron("0 0 1 1 *", "UTC"))], ids=["alone", "beside another"])
async def test_a_schedule_goes_on_behind_what_one_search_can_t_cross(stage: Any, spec: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add(spec, "tick", name="s")
        await world.advance(seconds=130)
        assert rota.nominal == KEPT


@pytest.mark.parametrize("catch_up", ["all", "latest", "skip"])
async def test_what_fell_due_behind_it_while_nobody_was_there_is_judged(stage: Any, catch_up: str) -> None:
    """Each has its fate. What is run of them is looked for from the latest backwards, up to such a hole."""
    rota = Rota(stage)
    async with rota.world() as world:
        await rota.on().add(HOLE, "tick", name="s", catch_up=catch_up, grace="2s", max_catch_up=200)
        await world.crash()
        await world.restart(after=timedelta(seconds=130))
        await world.settle()
        found = await fates(world, rota)
        assert sorted(found) == KEPT
        assert set(found.values()) == {"run", "skipped"}
        ran = (
            [at for at in KEPT if at > 110] if catch_up == "all" else [130] if catch_up == "latest" else [128, 129, 130]
        )
        assert rota.nominal == ran
        await world.advance(seconds=50)
        assert rota.nominal == [*ran, *range(131, 140), *range(171, 181)]
