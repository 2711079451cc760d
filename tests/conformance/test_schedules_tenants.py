"""Many schedules of one tenant: one view over shards, claims across objects, quotas by name; on every store."""

import asyncio
from typing import Any

import pytest

from tests.conformance.rota import Rota, after, failing, fates, since
from wakeful import Quotas, RetryPolicy, Run, fixed, sharded
from wakeful.values.errors import BadOption, LimitExceeded, QuotaExceeded, UnknownSchedule


async def test_a_sharded_tenant_is_one_view_over_several_objects(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        spread = sharded("acme", 4)
        view = rota.app.schedules(rota.Clock, spread)
        names = [f"s{n:02}" for n in range(20)]
        for name in names:
            await view.add("every 10s", "tick", name, name=name, tags=["even" if int(name[1:]) % 2 == 0 else "odd"])
        used = {key for key in spread.keys if await rota.on(key).list()}
        assert used == set(spread.keys) == {f"acme/shard-{n}" for n in range(4)}
        assert [one.name for one in await view.list()] == names  # in order, over all of them
        assert len(await view.list(tag="odd")) == 10
        for name in names:
            assert (await view.get(name)).name == name
            assert name in {one.name for one in await rota.on(spread.key_for(name)).list()}
        await world.advance(seconds=11)
        assert sorted(args[0] for args, _ in rota.given) == names
        assert (await rota.app.counters(tenant="acme")).runs == 20


async def test_every_operation_goes_to_the_shard_that_has_it_or_to_all(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        view = rota.app.schedules(rota.Clock, sharded("acme", 3))
        for n in range(6):
            await view.add("0 * * * *", "tick", name=f"s{n}", tags=["t"])
        assert await view.pause("s1", note="x") == 1
        assert [one.name for one in await view.list(state="paused")] == ["s1"]
        assert await view.pause(tag="t") == 6
        assert await view.resume(tag="t") == 6
        assert len(await view.trigger("s2")) == 1
        assert len(await view.trigger(tag="t")) == 6
        await world.settle()
        assert len(rota.began) == 7
        assert (await view.reschedule("s3", "30 * * * *")).version == 2
        assert await view.next("s3", 1) == [after(1800)]
        assert len(await view.backfill("s4", after(-7200), after(0), dry_run=True)) == 2
        assert [run.verdict for run in await view.history("s2")] == ["run", "run"]
        assert await view.cancel("s0") is True
        assert await view.cancel("s0") is False
        with pytest.raises(UnknownSchedule):
            await view.get("s0")
        assert await view.cancel(tag="t") is True
        assert await view.list() == []


def test_names_stay_with_their_shard_for_ever_and_counts_are_checked() -> None:
    assert [sharded("acme", 10).key_for(name) for name in ("nightly", "wöchentlich")] == [
        "acme/shard-6",
        "acme/shard-1",
    ]
    for count in (0, -1, 1_001, True, "3"):
        with pytest.raises(BadOption, match="count must be a whole number from 1 to 1000"):
            sharded("acme", count)  # type: ignore[arg-type]


async def test_a_claim_is_won_by_one_object_until_its_window_is_over(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        claims: list[Any] = []

        async def claims_it(clock: Any, run: Run) -> None:
            claims.append((clock.ctx.key, await clock.schedules.claim("nightly", "8s")))

        rota.handlers["s"] = claims_it
        for key in ("a", "b", "c"):
            await rota.on(key).add("every 10s", "tick", name="s")
        await world.advance(seconds=25)
        assert len(claims) == 6
        for round_ in (claims[:3], claims[3:]):
            [winner] = [key for key, claim in round_ if claim]
            assert {claim.winner for _, claim in round_} == {f"Clock/{winner}"}
            assert {(claim.until - claim.claimed_at).total_seconds() for _, claim in round_} == {8}
        assert since(claims[3][1].claimed_at) == 20


async def test_the_run_that_won_a_claim_still_has_it_when_it_is_tried_again(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        answers: list[tuple[str, int, bool]] = []

        async def claims_it(clock: Any, run: Run) -> None:
            won = bool(await clock.schedules.claim("nightly", "5s"))
            answers.append((clock.ctx.key, run.attempt, won))
            if won and run.attempt == 0:
                raise ValueError("after the claim")

        rota.handlers["s"] = claims_it
        for key in ("a", "b"):
            await rota.on(key).add(after(10), "tick", name="s", retry=RetryPolicy(3, fixed("2s")))
        await world.advance(seconds=13)
        assert len(answers) == 3
        assert [won for _, _, won in answers].count(True) == 2
        assert {key for key, _, won in answers if won} == {answers[-1][0]}
        assert answers[-1][1] == 1


async def test_a_claim_by_a_call_is_won_once_and_a_crash_does_not_lose_it(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:

        async def take(clock: Any) -> bool:
            return bool(await clock.schedules.claim("x", "1m"))

        assert await rota.do(take) is True
        assert await rota.do(take) is False
        await world.crash()
        await world.restart()
        assert await rota.do(take, "b") is False
        await world.crash()
        await world.restart(after="61s")
        assert await rota.do(take, "b") is True
        with pytest.raises(BadOption, match="longer than nothing"):
            await rota.do(lambda clock: clock.schedules.claim("x", 0))


async def test_a_tenants_quota_of_schedules_is_named_in_the_error(stage: Any) -> None:
    rota = Rota(stage, quotas=Quotas(schedules=3))
    async with rota.world():
        for n, key in enumerate(("acme/a", "acme/b", "acme/b")):
            await rota.on(key).add("every 10s", "tick", name=f"s{n}")
        for key in ("acme/a", "acme/c", "acme"):
            with pytest.raises(
                QuotaExceeded, match="'acme' would have 4 schedules, its quota `schedules` is 3"
            ) as info:
                await rota.on(key).add("every 10s", "tick", name="more")
            assert info.value.code == "quota.schedules"
            assert isinstance(info.value, LimitExceeded)
            assert "more" not in {one.name for one in await rota.on(key).list()}
        await rota.on("acme/b").add("every 20s", "tick", name="s1")  # a version is none more
        await rota.on("other/a").add("every 10s", "tick", name="s")


async def test_what_is_cancelled_or_done_is_given_back_to_the_quota(stage: Any) -> None:
    rota = Rota(stage, quotas=Quotas(schedules=2))
    async with rota.world() as world:
        await rota.on("acme/a").add("every 10s", "tick", name="s")
        await rota.on("acme/b").add(5, "tick")  # nameless: it goes when it is done
        with pytest.raises(QuotaExceeded):
            await rota.on("acme/a").add("every 10s", "tick", name="t")
        await world.advance(seconds=6)
        await rota.on("acme/a").add("every 10s", "tick", name="t")
        assert await rota.on("acme/a").cancel("s") is True
        await rota.on("acme/b").add("every 10s", "tick", name="u")
        with pytest.raises(QuotaExceeded):
            await rota.on("acme/b").add("every 10s", "tick", name="v")


async def test_a_turn_that_fails_after_asking_does_not_eat_the_quota(stage: Any) -> None:
    rota = Rota(stage, quotas=Quotas(schedules=1))
    async with rota.world():

        async def fails(clock: Any) -> None:
            await clock.schedules.add("every 10s", clock.tick, name="s")
            raise ValueError("after all")

        for _ in range(3):
            with pytest.raises(ValueError, match="after all"):
                await rota.do(fails, "acme/a")
        await rota.on("acme/a").add("every 10s", "tick", name="s")
        assert [one.name for one in await rota.on("acme/a").list()] == ["s"]


async def test_single_tenants_may_have_quotas_of_their_own(stage: Any) -> None:
    rota = Rota(stage, quotas=Quotas(schedules=1, tenants={"big": Quotas(schedules=3), "free": Quotas()}))
    async with rota.world():
        for tenant, count in (("small", 1), ("big", 3)):
            for n in range(count):
                await rota.on(f"{tenant}/a").add("every 10s", "tick", name=f"s{n}")
            with pytest.raises(QuotaExceeded, match=f"its quota `schedules` is {count}"):
                await rota.on(f"{tenant}/a").add("every 10s", "tick", name="more")
        for n in range(5):
            await rota.on("free/a").add("every 10s", "tick", name=f"s{n}")


async def test_a_tenants_rate_is_how_many_schedules_it_makes_a_minute(stage: Any) -> None:
    rota = Rota(stage, quotas=Quotas(rate=3))
    async with rota.world(start=after(50)) as world:
        made = await asyncio.gather(
            *(rota.on(f"acme/{n}").add("every 1h", "tick", name="s") for n in range(5)), return_exceptions=True
        )
        refused = [one for one in made if isinstance(one, QuotaExceeded)]
        assert len(refused) == 2
        assert refused[0].code == "quota.rate"
        assert "'acme' made 3 schedules this minute, its quota `rate`" in str(refused[0])
        await world.advance(seconds=10)
        await rota.on("acme/9").add("every 1h", "tick", name="s")


def test_a_quota_is_a_whole_number() -> None:
    for wrong in ({"schedules": -1}, {"rate": True}, {"schedules": "3"}):
        with pytest.raises(BadOption, match=r"quota (schedules|rate) must be a whole number from 0"):
            Quotas(**wrong)  # type: ignore[arg-type]


async def test_failures_of_a_tenants_schedules_are_in_its_sums(stage: Any) -> None:
    rota = Rota(stage)
    async with rota.world() as world:
        rota.handlers["s"] = failing()
        view = rota.app.schedules(rota.Clock, sharded("acme", 2))
        await view.add("every 10s", "tick", name="s", retry=RetryPolicy(1))
        await view.add("every 10s", "tick", name="t")
        await world.advance(seconds=21)
        counters = await rota.app.counters(tenant="acme")
        assert (counters.runs, counters.failures) == (2, 2)
        assert set((await fates(world, rota, "s", view._sharded.key_for("s"))).values()) == {"failed"}
