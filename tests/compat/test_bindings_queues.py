"""Queues of a Worker: batches, acks, retries, dead letters; what a crash in between leaves; on disk and over nodes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import played, write_worker
from wakeful.compat.workers import WorkersApp, load

CODE = """
    import asyncio
    from workers import DurableObject, WorkerEntrypoint

    SEEN = []
    MODES = {}

    class Sample(DurableObject):
        async def send(self, text):
            await self.env.JOBS.send(text)

    class Default(WorkerEntrypoint):
        async def queue(self, batch, env, ctx):
            bodies = [message.body for message in batch.messages]
            SEEN.append((batch.queue, bodies, [message.attempts for message in batch.messages]))
            if "raise" in bodies:
                batch.messages[0].ack()
                raise ValueError("no")
            if "slow" in bodies:
                await asyncio.sleep(20)
                SEEN.append("slow ended")
            if "forever" in bodies:
                await asyncio.sleep(86_400)
            if "again" in bodies:
                await env.JOBS.send("from the handler")
            for message in batch.messages:
                if message.body == "later" and message.attempts == 1:
                    message.retry(delaySeconds=30)
                if message.body == "twice":
                    message.ack()
                    message.retry()
                if message.body == "never":
                    message.retry({"delaySeconds": 0})
            if "all" in bodies:
                batch.messages[-1].ack()
                batch.retryAll(delaySeconds=10)
                batch.ackAll()
"""
WRANGLER = """
name = "sample"
main = "entry.py"
compatibility_date = "2026-03-01"

[[durable_objects.bindings]]
name = "SAMPLE"
class_name = "Sample"

[[queues.producers]]
binding = "JOBS"
queue = "jobs"

[[queues.producers]]
binding = "LATE"
queue = "jobs"
delivery_delay = 60

[[queues.consumers]]
queue = "jobs"
max_batch_size = 3
max_batch_timeout = 5
"""
DEAD = """
dead_letter_queue = "dead"

[[queues.consumers]]
queue = "dead"
max_batch_timeout = 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_worker(tmp_path, CODE, WRANGLER)


def seen_by(worker: Any) -> list[Any]:
    """What the handler was given since this was last asked."""
    given = worker.module.SEEN[:]
    worker.module.SEEN.clear()
    return given


def queue_of(worker: Any, cls: str = "Queue") -> Any:
    return worker.app.deployment.registry.by_name(cls).cls


async def test_a_batch_goes_when_it_is_full_or_has_waited(folder: Path) -> None:
    async with played(folder) as (worker, world):
        jobs = worker.env.JOBS
        assert await jobs.send("a") is None
        await world.advance("4s")
        await jobs.send({"n": [1]})
        assert seen_by(worker) == []
        await world.advance("1s")
        assert seen_by(worker) == [("jobs", ["a", {"n": [1]}], [1, 1])]
        await jobs.sendBatch([{"body": text} for text in "abcdefg"])
        await world.advance(milliseconds=100)
        assert seen_by(worker) == [("jobs", ["a", "b", "c"], [1, 1, 1]), ("jobs", ["d", "e", "f"], [1, 1, 1])]
        await world.advance("5s")
        assert seen_by(worker) == [("jobs", ["g"], [1])]
        rows = await world.rows(queue_of(worker), "jobs")
        assert list(rows) == ["n"], "what was handled is gone"


async def test_bodies_are_what_they_were(folder: Path) -> None:
    async with played(folder) as (worker, world):
        await worker.env.JOBS.send(b"\0\xff", contentType="bytes")
        await worker.env.JOBS.send("text", {"contentType": "text"})
        await worker.env.JOBS.send({1, 2}, contentType="v8")
        await world.advance("5s")
        [(_, bodies, _)] = seen_by(worker)
        assert bodies == [b"\0\xff", "text", {1, 2}]


async def test_delays_of_messages_batches_and_queues(folder: Path) -> None:
    async with played(folder) as (worker, world):
        await worker.env.JOBS.send("in 30", delaySeconds=30)
        await worker.env.LATE.send("in 60")
        await worker.env.LATE.sendBatch([{"body": "in 10"}, {"body": "at once", "delaySeconds": 0}], delaySeconds=10)
        for seconds, expected in ((5, "at once"), (10, "in 10"), (20, "in 30"), (30, "in 60")):
            await world.advance(seconds=seconds - 1)
            assert seen_by(worker) == []
            await world.advance("1s")
            assert [bodies for _, bodies, _ in seen_by(worker)] == [[expected]]


async def test_messages_say_for_themselves_what_becomes_of_them(folder: Path) -> None:
    async with played(folder) as (worker, world):
        await worker.env.JOBS.sendBatch([{"body": "later"}, {"body": "twice"}, {"body": "plain"}])
        await world.advance("1s")
        assert seen_by(worker) == [("jobs", ["later", "twice", "plain"], [1, 1, 1])]
        await world.advance("33s")
        assert seen_by(worker) == []
        await world.advance("2s")
        assert seen_by(worker) == [("jobs", ["later"], [2])]
        await world.advance("10m")
        assert seen_by(worker) == []


async def test_a_batch_whose_handler_raises_comes_again_but_for_what_it_acked(folder: Path) -> None:
    async with played(folder) as (worker, world):
        await worker.env.JOBS.sendBatch([{"body": "fine"}, {"body": "raise"}])
        await world.advance("1m")
        assert seen_by(worker) == [("jobs", ["fine", "raise"], [1, 1]), ("jobs", ["raise"], [2])]
        await worker.env.JOBS.sendBatch([{"body": "all"}, {"body": "b"}, {"body": "c"}])
        await world.advance("9s")
        assert seen_by(worker) == [("jobs", ["all", "b", "c"], [1, 1, 1])]
        await world.advance("7s")
        assert seen_by(worker) == [("jobs", ["all", "b"], [2, 2])]


async def test_what_nobody_takes_is_parked_and_can_be_had_again(folder: Path) -> None:
    async with played(folder) as (worker, world):
        await worker.env.JOBS.send("never")
        await world.advance("5m")
        assert [attempts for _, _, [attempts] in seen_by(worker)] == [1, 2, 3, 4]
        queue = worker.app.get(queue_of(worker), "jobs")
        [parked] = await queue.parked()
        assert parked["attempts"] == 4
        assert await queue.redrive() == 1
        await world.advance("5m")
        assert [attempts for _, _, [attempts] in seen_by(worker)] == [1, 2, 3, 4]


async def test_what_nobody_takes_goes_to_the_dead_letter_queue(folder: Path) -> None:
    write_worker(folder, CODE, WRANGLER + DEAD)
    async with played(folder) as (worker, world):
        await worker.env.JOBS.send("never")
        await world.advance("19s")
        assert [queue for queue, *_ in seen_by(worker)] == ["jobs"] * 3
        await world.advance("2s")
        assert seen_by(worker) == [("jobs", ["never"], [4]), ("dead", ["never"], [1])]
        rows = await world.rows(queue_of(worker), "jobs")
        assert list(rows) == ["n"]


async def test_a_handler_may_send_to_the_queue_that_it_reads(folder: Path) -> None:
    async with played(folder) as (worker, world):
        await worker.env.SAMPLE.getByName("o").send("again")
        await world.advance("12s")
        assert [bodies for _, bodies, _ in seen_by(worker)] == [["again"], ["from the handler"]]


async def test_a_process_that_dies_in_the_handler_loses_no_message(folder: Path) -> None:
    async with played(folder) as (worker, world):
        await worker.env.JOBS.sendBatch([{"body": "slow"}, {"body": "b"}, {"body": "c"}])
        await world.advance("10s")
        assert seen_by(worker) == [("jobs", ["slow", "b", "c"], [1, 1, 1])]
        await world.crash()
        await world.restart()
        await world.advance("5m")
        assert seen_by(worker)[-2:] == [("jobs", ["slow", "b", "c"], [1, 1, 1]), "slow ended"]
        assert list(await world.rows(queue_of(worker), "jobs")) == ["n"]


async def test_a_handler_that_hangs_has_failed_and_holds_up_nobody_for_ever(folder: Path) -> None:
    async with played(folder) as (worker, world):
        await worker.env.JOBS.sendBatch([{"body": "forever"}, {"body": "b"}, {"body": "c"}])
        await world.advance("13m")
        assert [attempts for _, _, attempts in seen_by(worker)] == [[1, 1, 1]]
        await world.advance("1h")
        assert [attempts for _, _, attempts in seen_by(worker)] == [[2, 2, 2], [3, 3, 3], [4, 4, 4]]
        assert len(await worker.app.get(queue_of(worker), "jobs").parked()) == 3
        await worker.env.JOBS.send("next")
        await world.advance("5s")
        assert [bodies for _, bodies, _ in seen_by(worker)] == [["next"]]


async def test_a_crash_between_send_and_delivery_loses_no_message(folder: Path, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'q.db'}"
    async with played(folder, store=url) as (worker, world):
        await worker.env.JOBS.send("kept")
        await world.crash()
        await world.restart(after="1m")
        await world.advance("6s")
        assert seen_by(worker) == [("jobs", ["kept"], [1])]
        await worker.env.JOBS.send("over the end", delaySeconds=100)
    async with played(folder, store=url) as (worker, world):
        await world.advance("5m")
        assert seen_by(worker) == [("jobs", ["over the end"], [1])]
        keys = [info.key async for info in worker.app.objects(queue_of(worker))]
        assert keys == ["jobs"]


async def test_lanes_run_beside_each_other_and_over_nodes(folder: Path) -> None:
    write_worker(folder, CODE, WRANGLER + "max_concurrency = 2\n")
    async with played(folder, nodes=2) as (worker, world):
        await worker.env.JOBS.sendBatch([{"body": text} for text in ("slow", "a", "b", "c", "d", "e", "f", "g", "h")])
        await world.advance("10s")
        assert [bodies for _, bodies, _ in seen_by(worker)] == [["slow", "a", "b"], ["c", "d", "e"], ["f", "g", "h"]]
        await world.advance("20s")
        assert seen_by(worker) == ["slow ended"]


async def test_one_lane_keeps_the_others_waiting(folder: Path) -> None:
    async with played(folder) as (worker, world):
        await worker.env.JOBS.sendBatch([{"body": text} for text in ("slow", "a", "b", "c", "d", "e")])
        await world.advance("19s")
        assert len(seen_by(worker)) == 1
        await world.advance("2s")
        assert seen_by(worker) == ["slow ended", ("jobs", ["c", "d", "e"], [1, 1, 1])]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (lambda q: q.send("x" * 128_000), r"message length of 12800\d bytes exceeds limit of 128000"),
        (lambda q: q.sendBatch([]), "at least one message"),
        (lambda q: q.sendBatch([{"body": 1}] * 101), "count of 101 exceeds limit of 100"),
        (lambda q: q.sendBatch([{"body": "x" * 100_000}] * 3), "batch size of"),
        (lambda q: q.send("x", contentType="xml"), "Unsupported queue message content type: xml"),
        (lambda q: q.send(1, contentType="text"), "requires a value of type string"),
        (lambda q: q.send("x", contentType="bytes"), "requires a value of type ArrayBufferView"),
        (lambda q: q.send({1}), "what JSON can say"),
        (lambda q: q.send("x", delaySeconds=86_401), "delaySeconds is 0 to 86400"),
        (lambda q: q.send("x", delaySeconds=-1), "delaySeconds is 0 to 86400"),
        (lambda q: q.send(asyncio, contentType="v8"), "a message"),
    ],
)
async def test_what_is_wrong_is_said_as_there(folder: Path, what: Any, words: str) -> None:
    async with played(folder) as (worker, world):
        with pytest.raises(Exception, match=words):
            await what(worker.env.JOBS)
        await world.advance("10s")
        assert seen_by(worker) == []


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("max_batch_size = 101", "max_batch_size is a whole number from 1 to 100, not 101"),
        ("max_batch_timeout = 61", "max_batch_timeout"),
        ("max_retries = 101", "max_retries"),
        ("max_concurrency = 0", "max_concurrency"),
        ('[[queues.consumers]]\nqueue = "jobs"', "has a consumer already"),
        ("[[queues.consumers]]\nmax_retries = 1", "has no `queue`"),
        ('[[queues.producers]]\nbinding = "X"\nqueue = "x"\ndelivery_delay = 90000', "delivery_delay"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_at_the_start(folder: Path, more: str, words: str) -> None:
    kept = "\n".join(line for line in WRANGLER.splitlines() if line.partition(" ")[0] != more.partition(" ")[0])
    write_worker(folder, CODE, f"{kept}\n{more}\n")
    with pytest.raises(Exception, match=words):
        load(folder)


def test_a_consumer_without_a_handler_is_refused(folder: Path) -> None:
    write_worker(folder, "from workers import DurableObject\nclass Sample(DurableObject): ...", WRANGLER)
    with pytest.raises(Exception, match=r"it consumes jobs, and entry.py has no queue\(\)"):
        load(folder)


def test_a_worker_that_was_unloaded_consumes_no_more(folder: Path) -> None:
    head, _, rest = WRANGLER.partition("[[durable_objects")
    write_worker(folder, CODE, head + rest[rest.index("[[queues") :])
    app = WorkersApp()
    for _ in range(2):
        worker = load(folder, app=app)
        assert list(app.desk.consumers) == ["jobs"]
        worker.unload()
        assert not app.desk.consumers


def test_a_pull_consumer_is_named(folder: Path) -> None:
    write_worker(folder, CODE, WRANGLER + '\n[[queues.consumers]]\nqueue = "pulled"\ntype = "http_pull"\n')
    worker = load(folder)
    worker.unload()
    assert [words for words in worker.config.idle if "pulled" in words]
