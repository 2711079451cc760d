"""Streams of a Worker and its objects: each chunk leaves when it is made, no faster than it is read."""

import asyncio
import gzip
import logging
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import played, write_worker
from wakeful.compat.workers import Request, Response, Worker
from wakeful.compat.workers.conduits import UNCLAIMED_MS
from wakeful.compat.workers.failures import JsException
from wakeful.compat.workers.js_globals import js_globals
from wakeful.compat.workers.site import WorkerSite
from wakeful.compat.workers.sources import QUEUE_BYTES_MAX
from wakeful.compat.workers.streams import (
    IdentityTransformStream,
    ReadableStream,
    TextDecoderStream,
    TextEncoderStream,
    TransformStream,
    WritableStream,
)
from wakeful.testing.world import World
from wakeful.values.errors import Unavailable
from wakeful.values.ids import SHARDS


class Visit:
    """A client of the Worker, on the other side of ASGI."""

    def __init__(self, worker: Worker, world: World, path: str, *, method: str = "GET", room: int = 1_000) -> None:
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.start: dict[str, Any] = {}
        self.got: list[tuple[float, bytes]] = []
        self.is_whole = False
        self.room = asyncio.Semaphore(room)  # chunks that it is ready to take
        self._world = world
        self._began = world.now()
        headers = [(b"host", b"there")] + ([(b"transfer-encoding", b"chunked")] if method == "POST" else [])
        scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
        if method != "POST":
            self.events.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        self.task = asyncio.ensure_future(WorkerSite(worker)(scope, self.events.get, self._send))

    def say(self, body: bytes, *, is_last: bool = False) -> None:
        self.events.put_nowait({"type": "http.request", "body": body, "more_body": not is_last})

    def leave(self) -> None:
        self.events.put_nowait({"type": "http.disconnect"})

    @property
    def body(self) -> bytes:
        return b"".join(part for _, part in self.got)

    async def _send(self, event: Any) -> None:
        if event["type"] == "http.response.start":
            self.start = event
            return
        await self.room.acquire()
        if event.get("body"):
            self.got.append(((self._world.now() - self._began).total_seconds(), event["body"]))
        self.is_whole = not event.get("more_body")


CODE = """
    import asyncio
    from js import ReadableStream, TransformStream, TextEncoder
    from workers import DurableObject, Request, Response, WorkerEntrypoint

    log = []

    async def tokens(n, wait=1.0, broken=False):
        try:
            for i in range(n):
                log.append(i)
                yield f"{i} "
                await asyncio.sleep(wait)
            if broken:
                raise ValueError("the model is gone")
        finally:
            log.append("end")

    class Sample(DurableObject):
        async def fetch(self, request):
            if "upload" in request.url:
                sizes = [len(chunk) async for chunk in request.body]
                return Response.json(sizes)
            if "echo" in request.url:
                return Response(request.body)
            return Response(self.count(60), headers={"content-type": "text/event-stream"})

        async def count(self, n):
            try:
                for i in range(n):
                    await self.ctx.storage.put("made", i)
                    yield f"data: {i}\\n\\n"
                    await asyncio.sleep(10)
            finally:
                log.append("end")

        async def made(self):
            return await self.ctx.storage.get("made")

        async def stream(self, given):
            async def shout():
                async for chunk in given:
                    yield chunk.to_bytes().decode().upper()
            return ReadableStream.from_(shout())

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            path = request.url.rpartition("/")[2]
            room = self.env.SAMPLE.getByName("room")
            if path == "tokens":
                return Response(tokens(5), headers={"content-type": "text/plain"})
            if path == "many":
                return Response(tokens(1000, 0))
            if path == "broken":
                return Response(tokens(2, broken=True))
            if path == "packed":
                return Response(tokens(3), headers={"content-encoding": "gzip"})
            if path == "writer":
                made = TransformStream.new()
                async def write():
                    writer = made.writable.getWriter()
                    for i in range(3):
                        await writer.write(TextEncoder.new().encode(f"{i},"))
                        log.append(i)
                        await asyncio.sleep(1)
                    await writer.close()
                self.ctx.waitUntil(write())
                return Response(made.readable)
            if path == "sizes":
                reader, sizes = request.body.getReader(), []
                while not (part := await reader.read()).done:
                    sizes.append(part.value.byteLength)
                    await asyncio.sleep(1)
                return Response.json(sizes)
            if path == "text":
                return Response(await request.text())
            if path == "unread":
                return Response(tokens(100))
            if path in ("object", "echo", "upload"):
                return await room.fetch(request)
            if path == "shout":
                return Response(await room.stream(ReadableStream.from_([b"a", b"b"])))
            return Response("?", status=404)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_worker(tmp_path, CODE)


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


# streams as they are, without a Worker


async def chunks(stream: ReadableStream) -> list[Any]:
    return [chunk async for chunk in stream]


async def test_a_stream_is_steered_by_start_pull_and_cancel() -> None:
    told: list[Any] = []

    class Underlying:
        def start(self, controller: Any) -> None:
            controller.enqueue("first")
            told.append(controller.desiredSize)

        async def pull(self, controller: Any) -> None:
            told.append("pull")
            await asyncio.sleep(0)
            controller.enqueue(b"more")
            if told.count("pull") == 3:
                controller.close()

        def cancel(self, reason: Any) -> None:
            told.append(reason)

    assert await chunks(ReadableStream.new(Underlying())) == ["first", b"more", b"more", b"more"]
    assert told == [0.0, "pull", "pull", "pull"]
    told.clear()
    stream = ReadableStream.new(Underlying(), {"highWaterMark": 5})
    reader = stream.getReader()
    found = await reader.read()
    assert (found.done, found.value, stream.locked) == (False, "first", True)
    await reader.cancel("enough")
    assert (await reader.read()).done
    assert told == [4.0, "enough"]
    with pytest.raises(TypeError, match="has a reader already"):
        stream.getReader()
    reader.releaseLock()
    assert not stream.locked


async def test_what_start_enqueues_over_time_is_read_as_it_comes_and_errors_reach_the_reader() -> None:
    async def start(controller: Any) -> None:
        for n in range(2):
            controller.enqueue(n)
            await asyncio.sleep(0)
        raise ValueError("out of order")

    reader = ReadableStream(start=start).getReader()
    assert [(await reader.read()).value for _ in range(2)] == [0, 1]
    with pytest.raises(ValueError, match="out of order"):
        await reader.read()
    stream = ReadableStream(start=lambda controller: controller.error("broken"))
    with pytest.raises(JsException, match="broken"):
        await chunks(stream)


async def test_who_stops_waiting_for_a_chunk_loses_none() -> None:
    """As with a heartbeat: `asyncio.wait_for(reader.read(), …)` again and again."""
    go = asyncio.Event()

    async def slow() -> Any:
        yield b"a"
        await go.wait()
        yield b"b"

    reader = ReadableStream.from_(slow()).getReader()
    assert (await reader.read()).value == b"a"
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), 0.001)
    go.set()
    assert (await reader.read()).value.to_bytes() == b"b"
    assert (await reader.read()).done


async def test_a_generator_runs_in_one_task_from_its_first_step_to_its_last() -> None:
    tasks = []

    async def made() -> Any:
        async with asyncio.timeout(60):  # which would not survive a change of task
            for _ in range(3):
                tasks.append(asyncio.current_task())
                yield b"x"

    reader = ReadableStream.from_(made()).getReader()
    for _ in range(3):
        await asyncio.create_task(reader.read())
    assert (await reader.read()).done
    assert len(set(tasks)) == 1


async def test_two_branches_read_the_same_and_cancel_together() -> None:
    told: list[Any] = []
    one, two = ReadableStream.from_([b"a", b"b"]).tee()
    assert (await chunks(one), await chunks(two)) == ([b"a", b"b"], [b"a", b"b"])
    one, two = ReadableStream(pull=lambda c: c.enqueue(b"x"), cancel=told.append).tee()
    await one.cancel("first")
    assert told == []
    await two.cancel("second")
    assert told == ["second"]


async def test_pipes_and_transforms() -> None:
    async def double(chunk: Any, controller: Any) -> None:
        controller.enqueue(chunk)
        controller.enqueue(chunk)

    euro = "5 €".encode()
    stream = ReadableStream.from_([euro[:3], euro[3:]]).pipeThrough(TextDecoderStream())
    doubled = stream.pipeThrough(TransformStream.new({"transform": double, "flush": lambda c: c.enqueue("!")}))
    assert "".join(await chunks(doubled)) == "5 5 €€!"
    assert await chunks(ReadableStream.from_(["é"]).pipeThrough(TextEncoderStream())) == ["é".encode()]
    with pytest.raises(TypeError):
        await chunks(ReadableStream.from_([b"\xff"]).pipeThrough(TextDecoderStream("utf-8", {"fatal": True})))
    got: list[Any] = []
    await ReadableStream.from_([b"a", b"b"]).pipeTo(
        WritableStream.new({"write": got.append, "close": lambda: got.append("close")})
    )
    assert got == [b"a", b"b", "close"]

    def fail(chunk: Any) -> None:
        raise ValueError("the disk is full")

    told: list[Any] = []
    source = ReadableStream(pull=lambda c: c.enqueue(b"x"), cancel=told.append)
    with pytest.raises(ValueError, match="the disk is full"):
        await source.pipeTo(WritableStream.new({"write": fail}))
    assert [str(error) for error in told] == ["the disk is full"]


async def test_a_write_is_done_when_it_has_been_read_and_fails_when_it_never_will_be() -> None:
    made = IdentityTransformStream()
    writer, reader = made.writable.getWriter(), made.readable.getReader()
    writing = writer.write(b"x")
    await settle()
    assert not writing.done()
    assert (await reader.read()).value == b"x"
    await writing
    writing = writer.write(b"y")
    await settle()
    await reader.cancel("enough")
    with pytest.raises(TypeError, match="cancelled by its reader"):
        await writing


async def test_what_nobody_reads_has_a_bound() -> None:
    kept: Any = None

    def start(controller: Any) -> None:
        nonlocal kept
        kept = controller

    stream = ReadableStream(start=start)
    for _ in range(16):
        kept.enqueue(b"x" * (QUEUE_BYTES_MAX // 16))
    with pytest.raises(ValueError, match="a stream that nobody reads"):
        kept.enqueue(b"x")
    with pytest.raises(ValueError, match="a stream that nobody reads"):
        await chunks(stream)


async def test_a_body_may_be_a_stream_and_is_read_once() -> None:
    async def made() -> Any:
        yield "a"
        yield b"b"

    response = Response(made())
    copy = response.clone()
    assert (await response.text(), await copy.bytes(), response.body_used) == ("ab", b"ab", True)
    with pytest.raises(OSError, match="read already"):
        await response.text()
    assert await chunks(Response("whole").body) == [b"whole"]  # type: ignore[arg-type]
    assert Response(None).body is None
    passed = Response(Response(made()).body, status=201)
    assert (passed.status, await passed.text()) == (201, "ab")
    sent = Request("http://x/", method="POST", body=made())
    reader: Any = sent.body.getReader()  # type: ignore[union-attr]
    assert (await reader.read()).value.to_py().tobytes() == b"a"
    with pytest.raises(TypeError, match="a chunk of a body"):
        await Response(ReadableStream.from_([{"no": "bytes"}])).text()
    assert {"ReadableStream", "TransformStream", "TextDecoderStream"} < set(js_globals(None))


# streams of the Worker


async def test_each_chunk_leaves_when_it_is_made(folder: Path) -> None:
    async with played(folder) as (worker, world):
        visit = Visit(worker, world, "/tokens")
        await world.advance("10s")
        assert [(round(at), part) for at, part in visit.got] == [(n, b"%d " % n) for n in range(5)]
        assert visit.is_whole
        assert b"content-length" not in dict(visit.start["headers"])
        await visit.task


async def test_what_is_written_by_hand_leaves_as_it_is_written(folder: Path) -> None:
    async with played(folder) as (worker, world):
        visit = Visit(worker, world, "/writer")
        await world.advance("10s")
        assert [(round(at), part) for at, part in visit.got] == [(0, b"0,"), (1, b"1,"), (2, b"2,")]
        assert visit.is_whole


async def test_a_client_that_does_not_read_stops_the_generator(folder: Path) -> None:
    async with played(folder) as (worker, world):
        visit = Visit(worker, world, "/many", room=3)
        await world.advance("1m")
        assert len(visit.got) == 3
        assert max(worker.module.log) <= 4
        visit.room.release()
        await world.advance("1s")
        assert len(visit.got) == 4
        visit.leave()
        await world.advance("1s")
        assert worker.module.log[-1] == "end"
        await visit.task


async def test_a_client_that_hangs_up_ends_the_generator(folder: Path) -> None:
    async with played(folder) as (worker, world):
        visit = Visit(worker, world, "/unread")
        await world.advance("3500ms")
        visit.leave()
        await world.advance("10m")
        assert worker.module.log == [0, 1, 2, 3, "end"]
        assert not visit.is_whole
        await visit.task


async def test_a_stream_that_breaks_breaks_the_connection(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with played(folder) as (worker, world):
        with caplog.at_level(logging.ERROR, "wakeful.workers"):
            visit = Visit(worker, world, "/broken")
            await world.advance("10s")
        await visit.task
        assert (visit.body, visit.is_whole) == (b"0 1 ", False)
        assert "its stream broke" in caplog.text


async def test_a_packed_stream_can_be_read_at_each_chunk(folder: Path) -> None:
    async with played(folder) as (worker, world):
        visit = Visit(worker, world, "/packed")
        await world.advance("100ms")
        assert zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(visit.body) == b"0 "
        await world.advance("10s")
        assert gzip.decompress(visit.body) == b"0 1 2 "


async def test_the_head_of_a_stream_is_no_stream(folder: Path) -> None:
    async with played(folder) as (worker, world):
        visit = Visit(worker, world, "/tokens", method="HEAD")
        await world.advance("1s")
        assert (visit.got, visit.is_whole, worker.module.log) == ([], True, [])
        await visit.task


# bodies of requests


async def test_a_body_is_read_as_it_comes_and_no_faster(folder: Path) -> None:
    async with played(folder) as (worker, world):
        visit = Visit(worker, world, "/sizes", method="POST")
        for size in (3, 4, 5):
            visit.say(b"x" * size)
        await world.advance("1500ms")
        assert visit.events.qsize() == 1, "one a second"
        visit.say(b"", is_last=True)
        await world.advance("10s")
        assert visit.body == b"[3, 4, 5]"


async def test_what_is_read_is_bounded_and_what_is_passed_on_is_not_held(folder: Path) -> None:
    async with played(folder) as (worker, _):
        site = WorkerSite(worker)
        bodies = site._bodies
        most = 0

        async def send(size: int, path: str) -> int:
            nonlocal most
            left, status = size, 0

            async def receive() -> Any:
                nonlocal left, most
                most = max(most, bodies.taken)
                left -= 1_048_576
                return {"type": "http.request", "body": b"x" * 1_048_576, "more_body": left > 0}

            async def take(event: Any) -> None:
                nonlocal status
                status = event.get("status", status)

            headers = [(b"transfer-encoding", b"chunked")]
            await site({"type": "http", "method": "POST", "path": path, "headers": headers}, receive, take)
            return status

        assert await send(60 << 20, "/upload") == 200
        assert most <= 2 << 20
        assert await send(60 << 20, "/text") == 200
        assert most >= 59 << 20
        assert await send(101 << 20, "/text") == 413
        assert await send(101 << 20, "/upload") == 413
        assert bodies.taken == 0


async def test_a_body_that_nobody_reads_does_not_hide_that_the_client_is_gone(folder: Path) -> None:
    async with played(folder) as (worker, world):
        visit = Visit(worker, world, "/unread", method="POST")
        await world.advance("1s")
        for _ in range(5):
            visit.say(b"x" * 1000)
        visit.leave()
        await world.advance("5s")
        assert worker.module.log[-1] == "end"
        await visit.task


# streams of objects


async def test_an_object_streams_for_ten_minutes_and_answers_others_meanwhile(folder: Path) -> None:
    async with played(folder) as (worker, world):
        visit = Visit(worker, world, "/object")
        await world.advance("50ms")
        assert visit.body == b"data: 0\n\n"
        await world.advance("295s")
        assert await worker.env.SAMPLE.getByName("room").made() == 29
        await world.advance("306s")
        assert (len(visit.got), visit.is_whole) == (60, True)
        assert max(at - 10 * n for n, (at, _) in enumerate(visit.got)) < 0.05
        await world.advance("1m")
        assert not world.node.awake, "it stayed awake for its stream, and no longer"  # type: ignore[union-attr]


async def test_a_client_that_hangs_up_ends_the_stream_of_the_object(folder: Path) -> None:
    async with played(folder) as (worker, world):
        visit = Visit(worker, world, "/object")
        await world.advance("25s")
        visit.leave()
        await world.advance("2m")
        assert worker.module.log == ["end"]
        assert await worker.env.SAMPLE.getByName("room").made() == 2
        await world.advance("1m")
        assert not world.node.awake  # type: ignore[union-attr]


async def test_a_stream_that_nobody_takes_does_not_keep_its_object(folder: Path) -> None:
    async with played(folder) as (worker, world):
        room = worker.env.SAMPLE.getByName("room")
        answer = await room.fetch("http://there/object")
        await answer.body.getReader().read()
        del answer  # and nobody reads the rest
        await room.fetch("http://there/object")  # nor any of this
        await world.advance("3m")
        assert not world.node.awake  # type: ignore[union-attr]


async def test_a_stream_whose_object_moves_breaks(folder: Path) -> None:
    async with played(folder) as (worker, world):
        reader: Any = (await worker.env.SAMPLE.getByName("room").fetch("http://there/object")).body.getReader()
        await reader.read()
        world.node.take_leave(range(SHARDS))  # as when its shards go elsewhere
        with pytest.raises(Unavailable, match="has moved"):
            await reader.read()
        assert worker.module.log == ["end"]


async def test_a_body_goes_through_to_the_object_as_it_comes(folder: Path) -> None:
    async with played(folder) as (worker, world):
        visit = Visit(worker, world, "/echo", method="POST")
        visit.say(b"one")
        await world.advance("1s")
        assert visit.body == b"one"
        visit.say(b"two", is_last=True)
        await world.advance("1s")
        assert (visit.body, visit.is_whole) == (b"onetwo", True)


async def test_streams_are_arguments_and_answers_of_calls(folder: Path) -> None:
    async with played(folder) as (worker, _):
        assert await (await worker.fetch(Request("http://x/shout"))).text() == "AB"


async def test_streams_cross_between_nodes(folder: Path) -> None:
    async with played(folder, nodes=3) as (worker, world):
        owners = set()
        for name in "abcdef":
            room = worker.env.SAMPLE.getByName(name)
            answer = await room.fetch("http://there/object")
            reader = answer.body.getReader()
            assert (await reader.read()).value == b"data: 0\n\n"
            await world.advance("35s")
            assert [(await reader.read()).value for _ in range(2)] == [b"data: 1\n\n", b"data: 2\n\n"]
            await reader.cancel("enough")
            sent = Request(
                "http://there/upload", method="POST", body=ReadableStream.from_([b"x" * 3, b"y" * 2_500_000])
            )
            sizes: Any = await (await room.fetch(sent)).json()
            assert (sizes[0], sum(sizes)) == (3, 2_500_003)
            [owner] = [one for one in world.members if any(id.key == name for id in one.node.awake)]  # type: ignore[union-attr]
            owners.add(owner)
        assert len(owners) > 1
        assert worker.module.log == ["end"] * 6
        unread = await worker.env.SAMPLE.getByName("a").fetch("http://there/object")
        del unread
        await world.advance(f"{2 * UNCLAIMED_MS}ms")
        assert not any(one.node.awake for one in world.members)  # type: ignore[union-attr]


SSE = """
    import asyncio
    from starlette.applications import Starlette
    from starlette.responses import StreamingResponse
    from starlette.routing import Route
    from workers import DurableObject, WorkerEntrypoint, asgi

    log = []

    async def events(request):
        async def made():
            try:
                for n in range(100):
                    yield f"data: {n}\\n\\n"
                    await asyncio.sleep(1)
            finally:
                log.append("end")
        return StreamingResponse(made(), media_type="text/event-stream")

    async def echo(request):
        return StreamingResponse(request.stream())

    app = Starlette(routes=[Route("/events", events), Route("/echo", echo, methods=["POST"])])

    class Sample(DurableObject):
        async def fetch(self, request):
            return await asgi.fetch(app, request, self.env, self.ctx)
        async def hello(self):
            return "hello"

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            if "object" in request.headers.get("host"):
                return await self.env.SAMPLE.getByName("room").fetch(request)
            return await asgi.fetch(app, request, self.env, self.ctx)
"""


@pytest.mark.parametrize("by", ["worker", "object"])
async def test_server_sent_events_of_an_asgi_app(tmp_path: Path, by: str) -> None:
    code = SSE if by == "worker" else SSE.replace('"object" in', '"there" in')
    async with played(write_worker(tmp_path, code)) as (worker, world):
        visit = Visit(worker, world, "/events")
        await world.advance("50ms")
        assert visit.body == b"data: 0\n\n"
        assert await worker.env.SAMPLE.getByName("room").hello() == "hello"
        await world.advance("4s")
        assert len(visit.got) == 5
        visit.leave()
        await world.advance("10s")
        assert (worker.module.log, len(visit.got)) == (["end"], 5)
        visit = Visit(worker, world, "/echo", method="POST")
        visit.say(b"one")
        await world.advance("1s")
        assert visit.body == b"one"
        visit.say(b"two", is_last=True)
        await world.advance("1s")
        assert (visit.body, visit.is_whole) == (b"onetwo", True)
