"""Streams and sockets of a mounted app hear that the server under them stops: its own way, or by its signals."""

import asyncio
import json
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from tests.http.http_stage import make_app
from tests.http.served_stage import WAIT_S, Place, connect
from wakeful.http import stops as stopping
from wakeful.http.stops import KNOWN, STOPPING_S, ServerKind, Stops, servers_of
from wakeful.server.embedded_server import UNFINISHED, server_config
from wakeful.server.site import Site

NUMBERS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def handlers(heard: list[int]) -> Iterator[Any]:
    """As a server that nobody knows takes its signals; those of pytest are back afterwards."""

    def take(number: int, _frame: object) -> None:
        heard.append(number)

    before = {number: signal.signal(number, take) for number in NUMBERS}
    try:
        yield take
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def hears(place: Place) -> list[Any]:
    """What a socket hears when its server is told to stop; it waits for nobody by itself."""
    async with asyncio.timeout(WAIT_S), place.served():
        client = await connect(place)
        await client.text()
        assert place.server is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(b"GET /v1/events HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n" % place.port)
        await reader.readuntil(b"events of")
        began_at = asyncio.get_running_loop().time()
        place.server.should_exit = True
        said, end = await reader.read(), await client.end()
        took_s = asyncio.get_running_loop().time() - began_at
        await client.close()
        writer.close()
    assert end is not None
    return [said[-30:], end.code, took_s]


async def test_uvicorn_is_heard_itself_in_any_loop_and_left_as_it_was() -> None:
    place = Place()
    said, code, took_s = await hears(place)
    assert took_s < 4, "it was cut off after the five seconds that this server gives"
    assert said.endswith(b"0\r\n\r\n")
    assert b"gone" in said
    assert code == 1012
    assert "shutdown" not in vars(place.server)
    assert await place.over() == ("r", 1012, "the server is restarting", True)


async def test_a_server_that_stops_by_itself_is_heard_too() -> None:
    place = Place()
    async with asyncio.timeout(WAIT_S), place.served(limit_max_requests=1):
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(b"GET /v1/events HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n" % place.port)
        await reader.readuntil(b"events of")
        _, other = await asyncio.open_connection("127.0.0.1", place.port)
        other.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n" % place.port)
        assert b"event: gone" in await reader.read()
        other.close()
        writer.close()


async def test_a_server_that_is_known_is_found_and_no_signal_is_touched() -> None:
    heard: list[int] = []
    place = Place()
    async with place.served():
        assert [server for server, _ in servers_of(asyncio.get_running_loop())] == [place.server]
        with handlers(heard) as handler, Stops().lasting(lambda: None):
            assert [signal.getsignal(number) for number in NUMBERS] == [handler, handler]


async def test_signals_are_heard_on_their_way_and_the_handlers_are_put_back() -> None:
    heard: list[int] = []
    ended: list[str] = []
    with handlers(heard) as handler:
        stops = Stops()
        with stops.lasting(lambda: ended.append("a")):
            with stops.lasting(lambda: ended.append("b")):
                assert handler not in [signal.getsignal(number) for number in NUMBERS]
            assert handler not in [signal.getsignal(number) for number in NUMBERS], "one still lasts"
            signal.raise_signal(signal.SIGTERM)
            assert (heard, ended) == ([signal.SIGTERM], []), "the loop's own turn ends them"
            await asyncio.sleep(0)
            assert ended == ["a"]
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)
            assert (heard, ended) == ([signal.SIGTERM, signal.SIGINT], ["a"]), "each is told once"
        assert [signal.getsignal(number) for number in NUMBERS] == [handler, handler]


async def test_two_sites_release_in_any_order_and_what_others_put_there_stays() -> None:
    heard: list[int] = []
    with handlers(heard) as handler:
        first, second = ExitStack(), ExitStack()
        first.enter_context(Stops().lasting(lambda: None))
        second.enter_context(Stops().lasting(lambda: None))
        first.close()
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
        second.close()
        assert signal.getsignal(signal.SIGTERM) is handler
        with Stops().lasting(lambda: None):
            ours = signal.getsignal(signal.SIGTERM)
            signal.signal(signal.SIGTERM, lambda number, frame: ours(number, frame))  # type: ignore[operator]
            other = signal.getsignal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is other
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM] * 2, "ours passes on, for as long as somebody calls it"


async def test_a_signal_that_nobody_handles_stays_so_and_ends_the_process() -> None:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Stops().lasting(lambda: None):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def test_outside_of_the_main_thread_nothing_is_touched_and_nothing_breaks() -> None:
    heard: list[int] = []
    found: list[Any] = []

    async def last() -> None:
        with Stops().lasting(lambda: None):
            found.append(signal.getsignal(signal.SIGTERM))

    with handlers(heard) as handler:
        thread = threading.Thread(target=lambda: asyncio.run(last()))
        thread.start()
        await asyncio.to_thread(thread.join)
        assert found == [handler]


async def test_what_begins_to_last_when_the_stop_has_begun_ends_at_once() -> None:
    stops, ended = Stops(), asyncio.Event()
    stops.begin()
    with stops.lasting(ended.set):
        for _ in range(3):
            await asyncio.sleep(0)
        assert ended.is_set(), "a request that was under way would hold up the server"


async def test_a_later_server_of_the_same_app_is_heard_too() -> None:
    app = make_app()
    site = app.asgi()
    for _ in range(2):
        place = Place()
        place.app = app
        async with place.served():
            with site.stops.lasting(lambda: None):
                assert site.stops._servers[0].server is place.server
        assert site.stops._servers == []


@pytest.mark.parametrize("by", ["meet", "lasting"])
def test_a_server_that_was_cancelled_with_its_loop_is_not_waited_for(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It never says that it stops, and the next was not heard."""
    here: list[Any] = []
    kind = ServerKind("", "", lambda server, begin: None, lambda server: False)
    monkeypatch.setattr(stopping, "servers_of", lambda loop: [(one, kind) for one in here])
    stops = Stops()

    async def heard(name: str) -> list[Any]:
        here[:] = [name]
        if by == "meet":
            stops.meet()
        else:
            with stops.lasting(lambda: None):
                pass
        return [one.server for one in stops._servers]

    assert [asyncio.run(heard(name)) for name in ("first", "second")] == [["first"], ["second"]]


async def cut_off(method: str, path: str = "/v1/x", *, stops: bool) -> list[dict[str, Any]]:
    """What is sent to somebody whose request is cancelled, while the server stops or not."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def never(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "http_version": "1.1", "method": method, "path": unquote(path), "raw_path": path.encode()}
    scope |= {"query_string": b"", "headers": [(b"host", b"127.0.0.1")], "scheme": "http", "root_path": ""}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
    app = make_app()
    async with app.run("memory:"):
        site = Site(app, dashboard=False)
        site.api._answer = site.gate.admit = never  # type: ignore[method-assign]
        site._pages = never
        asking = asyncio.ensure_future(site(scope, receive, send))
        await asyncio.sleep(0)
        if stops:
            site.hang_up()
        asking.cancel()
        await asking
    return sent


@pytest.mark.parametrize(("method", "error"), [("POST", "OutcomeUnknown"), ("GET", "NotRunning")])
async def test_whom_a_stopping_server_cuts_off_is_told_what_is_known(method: str, error: str) -> None:
    """It was a bare 500, as if it were a fault of ours; and the turn went on, and was kept."""
    start, rest = await cut_off(method, stops=True)
    body = json.loads(rest["body"])
    assert (start["status"], body["code"], body["error"]) == (503, "node.stopping", error)
    assert "the server stops" in body["detail"]
    assert ("unknown" in body["detail"]) == (method == "POST")
    assert (b"connection", b"close") in start["headers"]


@pytest.mark.parametrize("path", ["/metrics", "/", "/objects/A/b"])
async def test_so_is_who_asked_for_a_page_or_for_metrics(path: str) -> None:
    start, rest = await cut_off("GET", path, stops=True)
    assert (start["status"], json.loads(rest["body"])["code"]) == (503, "node.stopping")
    assert (b"content-type", b"application/problem+json") in start["headers"]


async def test_the_path_is_named_as_it_was_sent() -> None:
    """As in every other problem: one key with a slash in it would be two."""
    _, rest = await cut_off("POST", "/v1/objects/A/b%2Fc/do", stops=True)
    assert json.loads(rest["body"])["instance"] == "/v1/objects/A/b%2Fc/do"


@pytest.mark.parametrize("path", ["/v1/x", "/metrics", "/"])
async def test_who_is_cancelled_by_somebody_else_is_cancelled(path: str) -> None:
    with pytest.raises(asyncio.CancelledError):
        await cut_off("POST" if path == "/v1/x" else "GET", path, stops=False)


@pytest.mark.parametrize("by", ["should_exit", "requests"])
async def test_a_server_of_ones_own_that_cuts_a_call_is_asked_whether_it_stops(by: str) -> None:
    """Only who watches something was told of its stop; all others had its bare 500."""
    place, closing = Place(), ExitStack()
    async with asyncio.timeout(WAIT_S), place.served(limit_max_requests=1 if by == "requests" else None):
        assert place.server is not None
        place.server.config.timeout_graceful_shutdown = 0
        head = b"host: 127.0.0.1:%d\r\n" % place.port
        with closing:
            reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
            closing.callback(writer.close)
            writer.write(b"POST /v1/objects/Deaf/a/wait HTTP/1.1\r\n" + head + b"content-length: 2\r\n\r\n[]")
            await place.waits.wait()
            if by == "should_exit":
                place.server.should_exit = True
            else:
                _, other = await asyncio.open_connection("127.0.0.1", place.port)
                closing.callback(other.close)
                other.write(b"GET /healthz HTTP/1.1\r\n" + head + b"\r\n")
            said = await reader.read()
            place.gate.set()
        assert said.startswith(b"HTTP/1.1 503"), said
        assert b'"node.stopping"' in said


async def test_a_stop_is_one_for_as_long_as_the_server_waits_and_not_for_the_next_server() -> None:
    """What it cut after more than twenty seconds was no stop any more."""
    stops, place = Stops(), Place()
    async with place.served():
        stops.meet()
        stops.begin()
        assert place.server is not None
        place.server.should_exit = True
        assert stops._begun_at is not None
        stops._begun_at -= 3 * STOPPING_S
        assert stops.is_stopping()
    other = Place()
    async with other.served():
        stops.meet()
        stops._begun_at -= 3 * STOPPING_S
        assert [one.server for one in stops._servers] == [other.server]
        assert not stops.is_stopping()
        stops.begin()


async def test_hypercorn_is_asked_by_its_own_event() -> None:
    context = SimpleNamespace(terminated=asyncio.Event())
    kind = next(kind for kind in KNOWN if kind.module.startswith("hypercorn"))
    assert not kind.is_stopping(context)
    context.terminated.set()
    assert kind.is_stopping(context)
    assert not kind.is_stopping(SimpleNamespace())


def test_a_stranger_has_uvicorn_say_nothing() -> None:
    """Three hundred sockets without a token were three hundred lines at the level of errors."""
    server_config(None, 1)
    uvicorn_log = logging.getLogger("uvicorn.error")
    for words, is_said in [(words, False) for words in UNFINISHED] + [("Exception in ASGI application\n", True)]:
        record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, words, (), None)
        assert bool(uvicorn_log.filter(record)) == is_said
