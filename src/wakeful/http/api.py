"""Layer 5. The API as one ASGI application: from a request to its answer.

Every request goes the same way: the table says what it asks for, the gate who asks, then what belongs to it is read and
checked, and the handler answers. Whatever is raised on the way becomes a problem. How many are under way at once is
bounded, and how many begin in one pass of the event loop: timers wait for a pass, never for a flood. Both are shared by
those who ask: one of them may have much of it, and never all.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.routing import Mount

from wakeful.http import table
from wakeful.http.asks import Answer, Ask, Gone, Receive, Room, Scope, Send, path_of
from wakeful.http.calls import early_deadline, is_call
from wakeful.http.openapi import document
from wakeful.http.pace import HEALTH, Admission, Begun
from wakeful.http.problems import MEDIA, STOPPING, Problem, Told, problem_of
from wakeful.http.rows import TABLE
from wakeful.http.sockets import HELD
from wakeful.http.stops import Stops
from wakeful.http.table import Route, read_query
from wakeful.policy.shares import Asker, Shares, Verdict
from wakeful.security.crowd import Askers, Crowding, Turnstile, address_of
from wakeful.security.patience import lock_of, unless_locked, within
from wakeful.values.errors import DeadlineExceeded, NotRunning, OutcomeUnknown, StoreDown, WakefulError
from wakeful.values.json_patch import json_bytes
from wakeful.values.metrics import LASTING, ROUTE
from wakeful.values.trace import TRACE, trace_of_header

if TYPE_CHECKING:
    from wakeful.deployment import Deployment
    from wakeful.security.gate import Gate
    from wakeful.security.scopes import Caller

BODY_BYTES_MAX = 2 << 20  # arguments may have one mebibyte, and base64 or \\u escapes make more of them
REQUESTS_MAX = 512  # half of the turns that a node runs at once: the other half is for timers and other nodes
ACTS_MAX = 64  # of operators, who need no place of those who call
LOOKS_MAX = 256
LAST_WORD_S = 1.0  # for an answer while the server stops
LOOKS_AT_ONCE = 1  # on a store in this process, whose reads hold the loop; see `_looked`
STREAMS_MAX = 1_000
BODIES_BYTES_MAX = 256 << 20  # of bodies that are still coming in, or wait to be read
_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
DOCUMENT_METHODS = "GET, HEAD, OPTIONS"
SERVER_METHODS = "DELETE, GET, HEAD, OPTIONS, POST, PUT"
_HEALTH = frozenset({b"/healthz", b"/readyz"})
_WRITES = frozenset({"POST", "PUT", "DELETE", "PATCH"})


class Api:
    """Answers HTTP requests to `/v1`, `/openapi.json`, `/healthz` and `/readyz`."""

    def __init__(
        self,
        deployment: "Deployment",
        gate: "Gate",
        *,
        body_bytes_max: int = BODY_BYTES_MAX,
        requests_max: int = REQUESTS_MAX,
        looks_max: int = LOOKS_MAX,
        streams_max: int = STREAMS_MAX,
        stops: Stops | None = None,
    ) -> None:
        self.deployment = deployment
        self.gate = gate
        self._body_max = body_bytes_max
        self._askers = Askers()
        self._crowding = Crowding(deployment)
        self._calls = Shares(requests_max)
        self._acts = Shares(ACTS_MAX)
        self._waits = Shares(streams_max)  # for jobs
        self._left = Shares(requests_max)  # admissions that nobody waits for any more, and the store still does
        self._watched = Shares(streams_max)
        self._room = Room(Shares(BODIES_BYTES_MAX, few=2 * body_bytes_max), self._crowding)
        self._looks = Turnstile(LOOKS_AT_ONCE, looks_max, "lists", self._crowding)
        self.stops = Stops() if stops is None else stops
        self._pace = Admission(self._crowding)
        self._document: tuple[list[str], bytes] | None = None  # for which classes it was made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ask = Ask(self.deployment, self.gate, scope, receive, send, self._body_max)
        raw = table.raw_of(scope)
        self.stops.meet()
        asker = Asker(HEALTH, address_of(scope)) if raw in _HEALTH else self._askers.guess(scope)
        try:
            begun = self._pace.take(asker)
            if not isinstance(begun, Begun):
                begun = await self._pace.turn(begun)
            try:
                answer = await self._answer(ask, raw)
            finally:
                self._pace.end(begun)
        except Gone:
            return
        except asyncio.CancelledError:
            if ask.is_begun or not self.stops.is_stopping():
                raise
            await say_cut_off(scope, send)
            return
        except Exception as error:
            is_operator = ask.caller is not None and ask.caller.may("operate")
            lock = lock_of(ask.homes) if isinstance(error, StoreDown) and self.deployment.node is not None else None
            answer = _as_answer(problem_of(error, ask.path, is_operator=is_operator, lock=lock))
        if answer is not None:
            # The client may have gone meanwhile, which servers say in one of these ways.
            with suppress(OSError, RuntimeError):
                await respond(scope, send, answer)

    async def _answer(self, ask: Ask, raw: bytes) -> Answer | None:
        scope = ask.scope
        table.check_length(scope)
        method = scope["method"]
        if raw == table.WHOLE and method == "OPTIONS":
            return Answer(b"", 204, headers=((b"allow", SERVER_METHODS.encode()),))
        segments = table.segments_of(raw)
        scope[ROUTE] = "/openapi.json" if segments == ["openapi.json"] else "other"
        # The document names the program's classes, so it is not for everyone.
        if segments == ["openapi.json"] and method != "OPTIONS":
            await self.gate.admit(HTTPConnection(scope), None)
            return self._openapi(method)
        if method == "OPTIONS":
            return _options(segments)
        route, ask.params = TABLE.find("GET" if method == "HEAD" else method, segments)
        scope[ROUTE] = route.path
        ask.weight_max = route.weight_max
        if route.is_wait:
            scope[LASTING] = True
        if not route.scope:
            ask.is_full = self._calls.is_full or self._pace.is_full
            ask.query = read_query(route, scope["query_string"])
            return await route.handler(ask)
        connection = HTTPConnection(scope)
        ask.caller = await self._admit(ask, route, connection)
        self._askers.remember(scope, ask.caller)
        asker = ask.asker
        if (sent := scope.get(HELD)) is not None:
            sent.belong(asker)
        ask.query = read_query(route, scope["query_string"])
        if route.names_object:
            await self.gate.check_named(connection, ask.caller, ask.params["class"], ask.params["key"])
        if method in _WRITES:
            check_key(ask, route)
            await ask.take_body(self._room, asker)
        if route.is_stream:
            return await self._stream(ask, route, asker)
        if route.is_wait:
            return await self._wait(ask, route, asker)
        if route.is_look:  # those that wait in line wait for the lock as well
            return await unless_locked(ask.node, self._look(ask, route, asker), lambda: ask.homes)
        return await self._handle(ask, route, asker)

    async def _admit(self, ask: Ask, route: Route, connection: HTTPConnection) -> "Caller":
        """Who asks. A call's deadline and its wait for the store hold for that as well: it is what is waited for first."""
        needed: Any = route.scope
        node = self.deployment.node
        if not is_call(route) or node is None or self.gate.knows(connection):  # a task for each call would cost 80 µs
            asked = self.gate.admit(connection, needed, wide=route.is_wide, takes_grants=route.takes_grants)
            is_watched = route.is_look and node is not None
            return await (unless_locked(ask.node, asked, lambda: ask.homes) if is_watched else asked)
        deadline_ms, wait_ms = early_deadline(ask, route), node.limits.store_wait_ms
        asker = self._askers.guess(ask.scope)
        verdict = self._left.verdict(asker)
        if verdict is not Verdict.TAKEN:
            raise self._crowding.refusal(verdict, "those whom the store has not known yet", self._left, asker)
        began_at = node.clock.now()
        left_ms = wait_ms if deadline_ms is None else min(deadline_ms, wait_ms)
        asked = self.gate.admit(connection, needed, wide=route.is_wide, takes_grants=route.takes_grants)
        admission = await within(node, asked, left_ms)
        if not admission.done():
            self._leave(admission, asker)
            kind = StoreDown if left_ms == wait_ms else DeadlineExceeded
            raise kind(f"the store did not say within {left_ms} ms who asks; nothing was done")
        ask.waited_ms = max(0, node.clock.now() - began_at)
        return admission.result()

    def _leave(self, admission: "asyncio.Future[Any]", asker: Asker) -> None:
        """Nobody waits for it any more; that is bounded, and whoever comes when it is too much is refused at once."""
        if self._left.take(asker) is Verdict.TAKEN:
            admission.add_done_callback(lambda _: self._left.give(asker))

    async def _look(self, ask: Ask, route: Route, asker: Asker) -> Answer | None:
        """A few at a time: a long list holds the loop for milliseconds again and again."""
        async with self._looks.passing(asker):
            return await route.handler(ask)

    async def _handle(self, ask: Ask, route: Route, asker: Asker) -> Answer | None:
        places = self._calls if route.scope == "call" else self._acts
        self._take(places, asker, "calls" if route.scope == "call" else "operators' acts")
        # What runs because of this request belongs to the caller's trace.
        trace = trace_of_header(ask.header(b"traceparent"))
        token = None if trace is None else TRACE.set(trace)
        try:
            return await route.handler(ask)
        finally:
            places.give(asker)
            if token is not None:
                TRACE.reset(token)

    async def _wait(self, ask: Ask, route: Route, asker: Asker) -> Answer | None:
        self._take(self._waits, asker, "waits for jobs")
        task, is_over = asyncio.current_task(), False
        assert task is not None

        def end() -> None:
            nonlocal is_over
            is_over = True
            task.cancel()

        try:
            with self.stops.lasting(end):
                return await route.handler(ask)
        except asyncio.CancelledError:
            if not is_over:
                raise
            task.uncancel()
            raise NotRunning("the server is stopping, and the job is not done; ask again") from None
        finally:
            self._waits.give(asker)

    async def _stream(self, ask: Ask, route: Route, asker: Asker) -> Answer | None:
        """Until the client or the server goes."""
        ask.is_begun = True
        self._take(self._watched, asker, "streams")
        task = asyncio.current_task()
        assert task is not None
        try:
            with self.stops.lasting(task.cancel):
                return await route.handler(ask)
        finally:
            self._watched.give(asker)

    def _take(self, places: Shares, asker: Asker, what: str) -> None:
        verdict = places.take(asker)
        if verdict is not Verdict.TAKEN:
            raise self._crowding.refusal(verdict, what, places, asker)

    @property
    def requests(self) -> int:
        """Under way; streams, lists and waits for jobs are counted for themselves."""
        return self._calls.taken + self._acts.taken

    @property
    def waits(self) -> int:
        """For jobs."""
        return self._waits.taken

    @property
    def looks(self) -> int:
        """Requests that read lists, under way or waiting."""
        return self._looks.shares.taken

    def _openapi(self, method: str) -> Answer:
        if method not in ("GET", "HEAD"):
            raise Problem(405, "method.not_allowed", f"{method[:20]} is not for this", allow=DOCUMENT_METHODS)
        names = self.deployment.registry.names()
        if self._document is None or self._document[0] != names:
            self._document = names, json_bytes(document(self.deployment.registry))
        return Answer(self._document[1])


def routes(deployment: "Deployment", gate: "Gate", **options: Any) -> list[Mount]:
    """The API for a Starlette application of your own."""
    return [Mount("", app=Api(deployment, gate, **options))]


def check_key(ask: Ask, route: Route) -> None:
    """`Problem` for a key that nobody would honour: who sends one believes that they may send it all again."""
    if "Idempotency-Key" not in route.headers and ask.header(b"idempotency-key") is not None:
        words = "Idempotency-Key is for calls and for single jobs, and would do nothing here; leave it out"
        raise Problem(400, "request.key.unsupported", words)


async def respond(scope: Scope, send: Send, answer: Answer) -> None:
    """Send it; of an answer to HEAD only what stands above the body."""
    headers = [*_HEADERS, *answer.headers]
    if answer.status != 204:
        headers += [(b"content-type", answer.media), (b"content-length", b"%d" % len(answer.body))]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})


async def say_cut_off(scope: Scope, send: Send) -> None:
    """To whom the server, which stops, waits for no longer. What was begun goes on: it may still be done."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    words = "the server stops, and this took longer than it waits"
    error: WakefulError = NotRunning(f"{words}; try again", code=STOPPING)
    if scope["method"] in _WRITES:
        error = OutcomeUnknown(f"{words}; whether it was done is unknown, use a request key", code=STOPPING)
    found = problem_of(error, path_of(scope))
    found.headers.append((b"connection", b"close"))
    with suppress(OSError, RuntimeError, TimeoutError):
        async with asyncio.timeout(LAST_WORD_S):  # who does not read does not hold up the stop
            await respond(scope, send, _as_answer(found))


def _as_answer(found: Told) -> Answer:
    return Answer(json_bytes(found.body), found.status, MEDIA, tuple(found.headers))


def _options(segments: list[str]) -> Answer:
    """Which methods there are for the path."""
    allowed = ["OPTIONS"]
    if segments == ["openapi.json"]:
        return Answer(b"", 204, headers=((b"allow", DOCUMENT_METHODS.encode()),))
    for method in ("GET", "PUT", "POST", "DELETE"):
        try:
            TABLE.find(method, segments)
        except Problem as problem:
            if problem.status == 404:
                raise
            continue
        allowed += [method, "HEAD"] if method == "GET" else [method]
    return Answer(b"", 204, b"application/json", ((b"allow", ", ".join(sorted(allowed)).encode()),))
