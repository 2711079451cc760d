"""Workflows of a Worker, from within: steps by decorator and at once, dependencies, retries, errors, bounds, waits."""

from pathlib import Path
from typing import Any

import pytest

from tests.compat.workflow_stage import LEGACY, output_of, running
from wakeful.compat.workers.workflow_steps import read_config, read_length


async def test_dependencies_are_done_once_and_their_results_are_arguments(tmp_path: Path) -> None:
    body = """
@step.do("one")
async def one():
    DID.append("one")
    return {"n": 1}

@step.do("two")
def two():
    DID.append("two")
    return 2

@step.do("both", depends=[one, two], concurrent=True)
async def both(a, ctx, b=()):
    return [a.n, b, ctx["step"]["name"], ctx.attempt]

@step.do("again", [both, one], False, {"timeout": "1 minute"})
async def again(a, b):
    return [a, b["n"]]

return await again()
"""
    async with running(tmp_path, body, date=LEGACY) as (worker, _world, begin):
        assert await output_of(await begin()) == [[1, 2, "both", 1], 1]
        assert worker.module.DID == ["one", "two"]


async def test_dependencies_are_parameters_that_are_called_like_steps(tmp_path: Path) -> None:
    body = """
@step.do()
async def one():
    DID.append("one")
    return 1

@step.do()
async def two(one, ctx):
    DID.append(ctx["step"]["count"])
    return one + 1

@step.do("sum", concurrent=True)
async def total(two, one):
    return one + two

@step.do()
async def odd(three):
    return three

try:
    await odd()
except TypeError as error:
    return [await total(), await two(), str(error)]
"""
    async with running(tmp_path, body) as (worker, _world, begin):
        assert await output_of(await begin()) == [3, 2, "Received unexpected parameter three"]
        assert worker.module.DID == ["one", 1, 2], "what is called by hand is done again, as there"


async def test_concurrent_dependencies_run_beside_each_other_and_others_in_turn(tmp_path: Path) -> None:
    body = """
def slow(name):
    async def work():
        DID.append(f"{name} begins")
        await asyncio.sleep(5)
        DID.append(f"{name} ends")
    return work

a, b = step.do("a")(slow("a")), step.do("b")(slow("b"))
c, d = step.do("c")(slow("c")), step.do("d")(slow("d"))

@step.do("beside", [a, b], True)
async def beside(a, b): pass

@step.do("in turn", [c, d])
async def in_turn(c, d): pass

await beside()
await in_turn()
"""
    async with running(tmp_path, body, date=LEGACY) as (worker, world, begin):
        made = await begin()
        for _ in range(4):
            await world.advance("5s")
        assert await output_of(made) is None
        did = worker.module.DID
        assert did[:2] == ["a begins", "b begins"]
        assert set(did[2:4]) == {"a ends", "b ends"}
        assert did[4:] == ["c begins", "c ends", "d begins", "d ends"]


async def test_a_step_at_once_with_and_without_a_config(tmp_path: Path) -> None:
    body = """
first = await step.do("first", lambda: {"a": [1]})
async def second(ctx):
    return [first.a[0], ctx["config"]["retries"]["limit"], ctx["config"]["timeout"]]
return await step.do("second", {"retries": {"limit": 7, "delay": 5}}, second)
"""
    async with running(tmp_path, body) as (_worker, _world, begin):
        assert await output_of(await begin()) == [1, 7, "10 minutes"]


@pytest.mark.parametrize(
    ("backoff", "waits"), [("constant", [4, 4, 4]), ("linear", [4, 8, 12]), ("exponential", [4, 8, 16])]
)
async def test_retries_come_after_the_waits_that_were_asked_for(tmp_path: Path, backoff: str, waits: list[int]) -> None:
    body = f"""
async def fails(ctx):
    SEEN.append(ctx.attempt)
    raise OSError("no")
try:
    await step.do("fails", {{"retries": {{"limit": 3, "delay": "4 seconds", "backoff": "{backoff}"}}}}, fails)
except Exception as error:
    return [type(error).__name__, error.message]
"""
    async with running(tmp_path, body) as (worker, world, begin):
        made = await begin()
        for count, wait in enumerate(waits, 1):
            assert list(range(1, count + 1)) == worker.module.SEEN
            assert (await made.status()).status == "waiting"
            await world.advance(seconds=wait - 0.1)
            assert len(worker.module.SEEN) == count
            await world.advance(seconds=0.1)
        assert worker.module.SEEN == [1, 2, 3, 4]
        assert await output_of(made) == ["OSError", "no"]


async def test_what_is_not_to_be_tried_again_is_not(tmp_path: Path) -> None:
    body = """
@step.do("final")
async def final():
    DID.append(1)
    raise NonRetryableError("never")
if event.payload.caught:
    try:
        await final()
    except NonRetryableError as error:
        return str(error)
await final()
"""
    async with running(tmp_path, body) as (worker, _world, begin):
        assert await output_of(await begin({"caught": True})) == "NonRetryableError: never"
        told = await (await begin({"caught": False})).status()
        assert (told.status, told.error) == ("errored", {"name": "NonRetryableError", "message": "never"})
        assert worker.module.DID == [1, 1]
    async with running(tmp_path, body, date="2026-05-13") as (worker, _world, begin):
        told = await (await begin({"caught": False})).status()
        assert told.error["name"] == "WorkflowFatalError", "as there before 2026-05-14"


async def test_an_attempt_that_takes_too_long_fails(tmp_path: Path) -> None:
    body = """
async def slow():
    DID.append(1)
    await asyncio.sleep(3600)
await step.do("slow", {"timeout": "10 seconds", "retries": {"limit": 1, "delay": 0}}, slow)
"""
    async with running(tmp_path, body) as (worker, world, begin):
        made = await begin()
        await world.advance("10s")
        await world.advance("11s")
        told = await made.status()
        assert told.error == {"name": "WorkflowTimeoutError", "message": "Execution timed out after 10000ms"}
        assert worker.module.DID == [1, 1]


@pytest.mark.parametrize(
    ("raised", "name", "said"),
    [
        ("TypeError('odd')", "TypeError", "odd"),
        ("ValueError('odd')", "ValueError", "odd"),
        ("LookupError('odd')", "LookupError", "odd"),
    ],
)
async def test_errors_of_steps_and_bodies_are_told_by_name(tmp_path: Path, raised: str, name: str, said: str) -> None:
    body = f"""
def fails():
    raise {raised}
await step.do("fails", {{"retries": {{"limit": 0, "delay": 0}}}}, fails)
"""
    async with running(tmp_path, body) as (_worker, _world, begin):
        told = await (await begin()).status()
        assert (told.status, told.error) == ("errored", {"name": name, "message": said})
    async with running(tmp_path, f"raise {raised}") as (_worker, _world, begin):
        assert (await (await begin()).status()).error == {"name": name, "message": said}


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("object()", "not serialisable"),
        ("'x' * 1_048_577", "Maximum allowed size is 1MiB"),
    ],
)
async def test_a_result_that_can_t_be_kept_fails_at_once(tmp_path: Path, made: str, words: str) -> None:
    body = f"""
def work():
    DID.append(1)
    return {made}
await step.do("work", work)
"""
    async with running(tmp_path, body) as (worker, _world, begin):
        told = await (await begin()).status()
        assert told.status == "errored"
        assert words in told.error.message
        assert worker.module.DID == [1]
    async with running(tmp_path, f"return {made}") as (worker, _world, begin):
        assert (await (await begin()).status()).status == "errored"


@pytest.mark.parametrize(
    "config",
    [
        {"retries": {"limit": 1}},
        {"retries": {"delay": 1}},
        {"retries": {"limit": -1, "delay": 1}},
        {"retries": {"limit": 1, "delay": -1}},
        {"retries": {"limit": 1, "delay": "soon"}},
        {"retries": {"limit": 1, "delay": 1, "backoff": "quadratic"}},
        {"retries": {"limit": 1, "delay": 1, "more": 1}},
        {"retries": 3},
        {"timeout": 0},
        {"timeout": "ever"},
        {"tries": 3},
        {"sensitive": "input"},
        7,
    ],
)
def test_a_config_that_can_t_be_is_refused(config: Any) -> None:
    with pytest.raises(Exception, match='config for "a" is in a invalid format') as refused:
        read_config("a", config)
    assert type(refused.value).__name__ == "WorkflowFatalError"


def test_lengths_are_milliseconds_or_text() -> None:
    assert [read_length(one) for one in (5, 0.5, "7", "1 second", "2 hours", "1.5 days")] == [
        5, 0.5, 7, 1_000, 7_200_000, 129_600_000,
    ]  # fmt: skip
    assert [read_length(one) for one in ("1 week", "1 month", "1 year")] == [604_800_000, 2_592_000_000, 31_557_600_000]
    assert all(read_length(one) != read_length(one) for one in ("", "soon", "1 fortnight", None, True, [], "-1 day"))
    usual = read_config("a", None)
    assert (usual.retry.max_attempts, usual.retry.delay_ms(5, OSError(), 1.0), usual.timeout_ms) == (6, 16_000, 600_000)
    assert usual.retry.delay_ms(6, OSError(), 0.0) is None


async def test_names_and_numbers_of_steps_have_bounds(tmp_path: Path) -> None:
    body = """
for n in range(event.payload.steps):
    await step.do("x" * event.payload.chars, lambda: None)
"""
    async with running(tmp_path, body, more="limits = { steps = 3 }") as (_worker, _world, begin):
        assert (await (await begin({"steps": 3, "chars": 256})).status()).status == "complete"
        for params, words in (
            ({"steps": 4, "chars": 1}, "limit of 3 steps"),
            ({"steps": 1, "chars": 257}, "max length"),
        ):
            told = await (await begin(params)).status()
            assert told.error.name == "WorkflowFatalError"
            assert words in told.error.message


async def test_a_body_that_waits_for_something_else_is_told(tmp_path: Path) -> None:
    for line in ("await asyncio.sleep(1)", "await self.env.FLOW.get('x')"):
        async with running(tmp_path, line) as (_worker, _world, begin):
            told = await (await begin()).status()
            assert told.status == "errored", line
            assert "waits for its steps alone" in told.error.message, line


# waits


async def test_sleeps_take_as_long_as_they_say(tmp_path: Path) -> None:
    body = """
start = event.timestamp
await step.sleep("a minute", "1 minute")
await step.sleep("a second", 1000)
await step.sleep_until("a date", start + timedelta(hours=1))
await step.sleep_until("a number", round((start + timedelta(hours=2)).timestamp() * 1000))
try:
    await step.sleep_until("the past", start)
except Exception as error:
    return str(error)
"""
    async with running(tmp_path, body) as (_worker, world, begin):
        made = await begin()
        assert (await made.status()).status == "waiting"
        await world.advance(hours=1, minutes=59, seconds=59)
        assert (await made.status()).status == "waiting"
        await world.crash()
        await world.restart(after="1s")
        await world.settle()
        assert "time-traveler" in await output_of(made)


async def test_sleeps_that_can_t_be_are_refused(tmp_path: Path) -> None:
    for line in (
        'step.sleep("a", "soon")',
        'step.sleep("a", "2 years")',
        'step.sleep("a", None)',
        'step.sleep_until("a", "now")',
    ):
        async with running(tmp_path, f"await {line}") as (_worker, _world, begin):
            assert (await (await begin()).status()).status == "errored", line


async def test_events_that_come_early_late_and_not_at_all(tmp_path: Path) -> None:
    body = """
early = await step.wait_for_event("the first", "told")
late = await step.wait_for_event("the second", "told", timeout="1 hour")
try:
    await step.wait_for_event("the third", "told", timeout=5000)
except TimeoutError as error:
    return [early.payload, early.type, late.payload.n, late.timestamp.isoformat(), str(error)]
"""
    async with running(tmp_path, body) as (worker, world, _begin):
        made = await worker.env.FLOW.create(id="e")
        await made.send_event({"type": "told", "payload": "one"})
        await made.sendEvent(type="other", payload=0)
        await world.advance("50m")
        await made.send_event({"type": "told", "payload": {"n": 2}})
        await world.advance("5s")
        came = "2026-01-01T00:50:00+00:00"
        late = "WorkflowTimeoutError: Execution timed out after 5000ms"
        assert await output_of(made) == ["one", "told", 2, came, late]
        steps = await world.get(worker.app.deployment.registry.by_name("flow").cls, "e").steps()
        assert [one.name for one in steps] == ["the first", "the second", "the third"]
        with pytest.raises(Exception, match=r"\(instance.cannot_sendEvent\)"):
            await made.send_event({"type": "told"})
        with pytest.raises(Exception, match="an event's type"):
            made.send_event({"type": "a b"})


async def test_an_event_is_waited_for_a_day_if_nothing_is_said(tmp_path: Path) -> None:
    async with running(tmp_path, 'await step.wait_for_event("a", {"type": "b"})') as (_worker, world, begin):
        made = await begin()
        await world.advance(hours=23, minutes=59)
        assert (await made.status()).status == "waiting"
        await world.advance("1m")
        assert (await made.status()).error.name == "WorkflowTimeoutError"
