"""Layer 5. Who looks at a page or sends a form, what may they, and what do they see when it goes wrong?"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

from markupsafe import Markup

from wakeful.dashboard.history import History
from wakeful.dashboard.renderer import Place, address, path_of, render
from wakeful.operations import Acts
from wakeful.security.crowd import Crowding, Turnstile, asker_of
from wakeful.values import errors
from wakeful.values.errors import (
    BadOption,
    BadToken,
    NoToken,
    NotRunning,
    OutcomeUnknown,
    StoreDown,
    StoreError,
    TooMany,
    WakefulError,
)
from wakeful.values.ids import ObjectId
from wakeful.views import classes
from wakeful.views.view import View

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from wakeful.deployment import Deployment
    from wakeful.runtime.node import Node
    from wakeful.security.gate import Gate
    from wakeful.security.scopes import Caller, Scope

log = logging.getLogger("wakeful.dashboard")

PAGES = (
    ("due", "/", "Due"),
    ("objects", "/objects", "Objects"),
    ("schedules", "/schedules", "Schedules"),
    ("jobs", "/jobs", "Jobs"),
    ("parked", "/parked", "Parked"),
    ("calls", "/calls", "Calls"),
)
WIDE = (
    ("nodes", "/nodes", "Nodes"),
    ("queues", "/queues", "Queues"),
    ("webhooks", "/webhooks", "Webhooks"),
)  # about the whole deployment, so not for someone who is bound to a tenant
ADMIN = (("audit", "/audit", "Audit"), ("tokens", "/tokens", "Tokens"))
FORM_BYTES_MAX = 65_536  # a form with every parked number of a page in it is smaller
FIELDS_MAX = 2_000
SPARING = 50
KEPT_MAX = 1_000
# A page holds the loop for milliseconds: a few at a time, so that timers wait for few of them.
PAGES_AT_ONCE = 2
WAITING_MAX = 256
# The most special class decides.
STATUS: dict[type[WakefulError], tuple[int, str]] = {
    errors.UnknownObject: (404, "Not there"),
    errors.UnknownParked: (404, "Not there"),
    errors.UnknownSchedule: (404, "Not there"),
    errors.UnknownPoint: (404, "Not there"),
    errors.UnknownJob: (404, "Not there"),
    errors.UnknownClass: (404, "Not there"),
    errors.BadInput: (400, "That makes no sense"),
    errors.Conflict: (409, "Not now"),
    errors.TooMany: (429, "Too often"),
    errors.Denied: (403, "Not for you"),
    errors.Unavailable: (503, "Not reachable"),
    errors.CallFailed: (424, "It failed"),
    errors.WakefulError: (503, "It failed"),
}

# Who has no token, or one that is over, may have another.
TO_LOGIN = frozenset({"denied.no_token", "denied.token", "denied.session", "denied.expired", "denied.revoked"})

Handler = Callable[["Visit"], Awaitable["Response"]]
Endpoint = Callable[["Request"], Awaitable["Response"]]


class Visit:
    """One request of someone who was let in."""

    def __init__(self, desk: "Desk", request: "Request", caller: "Caller", node: "Node", form: dict[str, list[str]]):
        self.desk = desk
        self.request = request
        self.caller = caller
        self.node = node
        self.form = form
        self.view = View.for_caller(node, caller)
        self.now = self.view.now()
        self.place: Place | None = None  # of the page that answers a form, whose own address nobody can ask for

    @property
    def acts(self) -> Acts:
        """What they may do, under their name."""
        return Acts.of_node(self.node, self.caller.name)

    def query(self, name: str) -> str | None:
        """A parameter of the address; None when it is missing or empty."""
        return self.request.query_params.get(name) or None

    def field(self, name: str) -> str:
        """A field of the form; empty when it is missing."""
        return self.form.get(name, [""])[0]

    async def object(self) -> ObjectId:
        """The object that address or form names, if there can be one and the visitor may know of it."""
        cls, key = (self.field("class"), self.field("key")) if self.form else (self.query("class"), self.query("key"))
        return await self.desk.gate.check_named(self.request, self.caller, cls or "", key or "")

    async def classes(self) -> list[str]:
        """What the filters offer."""
        found: list[str] = await self.desk.sparing("classes", lambda: classes.names(self.view))
        return found

    async def count(self, what: Literal["timers", "parked"], cls: str | None = None) -> int:
        """How many there are in all stores; 0 for a tenant, whose own can't be counted without reading all."""
        if self.caller.tenant is not None:
            return 0

        async def count_all() -> int:
            return sum([await store.count(what, cls=cls) for store in self.view.stores])

        found: int = await self.desk.sparing(f"{what} {cls}", count_all)
        return found

    async def render(
        self, template: str, page: str, *, status: int = 200, lives: bool = True, problem: str = "", **given: Any
    ) -> "Response":
        """The page with all that its frame needs."""
        frame = {
            "caller": self.caller,
            "page": page,
            "pages": self._pages(),
            "stores": [store.url for store in self.view.stores] if self.caller.tenant is None else [],
            "csrf": self.csrf,
            "said": self.desk.words_of(self.query("said")),
            "problem": problem,
            "lives": lives,
            "parked_count": await self.count("parked"),
            "request_cursor": self.query("cursor"),
        }
        return render(self.request, template, status=status, now=self.now, place=self.place, **frame, **given)

    def go(self, path: str, **query: Any) -> "Response":
        """After a form: to that page, so that loading it again does nothing twice."""
        from starlette.responses import RedirectResponse

        return RedirectResponse(
            address(self.request, path, **query), status_code=303, headers={"cache-control": "no-store"}
        )

    def csrf(self) -> Markup:
        """The field that a form of this visitor carries."""
        token = self.desk.gate.csrf(self.request) if self.caller.is_session else ""
        return Markup('<input type="hidden" name="csrf" value="{}">').format(token) if token else Markup("")

    def _pages(self) -> list[tuple[str, str, str]]:
        found = list(PAGES)
        if self.caller.tenant is None:
            found += WIDE
            if self.caller.may("admin"):
                found += ADMIN
        return found


class Desk:
    """What all pages share: the program, who is let in, and what happened in the last minutes."""

    # What the page says after a form, by a word in its address: nobody else can put words there.
    SAID = {
        "paused": "Paused. Its occurrences get the verdict “paused” until it is resumed.",
        "resumed": "Resumed. What the pause held stays as it is; backfill runs it.",
        "running": "It runs now, beside its own times.",
        "backfilled": "The occurrences run now, one after another.",
        "cancelled": "Cancelled: it has not run and never will.",
        "ended": "Cancelled: it is not tried again.",
        "stopped": "Cancelled: it is being undone, and its caller is told.",
        "over": "Not cancelled: it is over, or there is none.",
        "redriven": "Set due again; it runs now.",
        "dropped": "Dropped: it never runs.",
        "forgotten": "Forgotten: nothing of it is left.",
        "restored": "It is as it was, and wakes anew. The newest point is this return: the one below it undoes it.",
        "reset": "It has begun anew.",
        "flow-pause": "Paused: nothing more begins; what runs comes to its end.",
        "flow-resume": "It goes on.",
        "flow-cancel": "It is being cancelled: what it has done is undone, last first.",
        "flow-retry": "It goes on from the step that failed.",
        "flow-restart": "It begins from the top.",
        "draining": "It hands its shards over now.",
        "undrained": "It may own shards again.",
    }

    def __init__(self, deployment: "Deployment", gate: "Gate") -> None:
        self.deployment = deployment
        self.gate = gate
        self.history = History()
        self._kept: dict[str, tuple[float, Any]] = {}  # until when, and what
        self._turns = Turnstile(PAGES_AT_ONCE, WAITING_MAX, "pages", Crowding(deployment))

    async def sparing(self, name: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer, or the one of a moment ago: what takes long in a big store is asked so seldom that it is a fiftieth of all time."""
        until, answer = self._kept.get(name, (0.0, None))
        began = monotonic()
        if began >= until:
            answer = await ask()
            if len(self._kept) > KEPT_MAX:
                self._kept.clear()
            now = monotonic()
            self._kept[name] = (now + SPARING * (now - began), answer)
        return answer

    def words_of(self, word: str | None) -> str:
        return self.SAID.get(word or "", "")

    def page(self, handler: Handler, scope: "Scope" = "read", *, wide: bool = False) -> Any:
        """An endpoint that lets in, answers, and shows what went wrong."""
        return self.safe(partial(self._answer, handler, scope, wide))

    def safe(self, endpoint: Endpoint) -> Any:
        """The endpoint, of which whatever goes wrong is a page, too."""
        return partial(self._safely, endpoint)

    async def _safely(self, endpoint: Endpoint, request: "Request") -> "Response":
        from starlette.requests import ClientDisconnect
        from starlette.responses import Response

        try:
            return await endpoint(request)
        except ClientDisconnect:  # in the middle of a form: nobody's fault, and nobody reads the answer
            return Response(status_code=400)
        except WakefulError as error:
            return await self._problem(request, None, error)
        except Exception as error:
            path = request.url.path
            log.error("a page failed by a fault of ours: %s", path, exc_info=error, extra={"code": "http.bug"})
            text = "This is a fault of Wakeful's; its log says more. [http.bug]"
            return self.bare(request, "problem.html", status=500, heading="It failed", text=text)

    async def _answer(self, handler: Handler, scope: "Scope", wide: bool, request: "Request") -> "Response":
        visit: Visit | None = None
        try:
            node = self.deployment.node
            if node is None:
                raise NotRunning("the program is not running; it is starting or stopping")
            self.history.follow(node)
            form = await read_form(request)
            caller = await self.gate.admit(request, scope, csrf=form.get("csrf", [None])[0], wide=wide)
            if any("\0" in value for value in request.query_params.values()):  # not every store can be asked for it
                raise BadOption("the address has a NUL in it; leave it out", code="query.value")
            visit = Visit(self, request, caller, node, form)
            return await (self._in_turn(handler, visit) if scope != "operate" else handler(visit))
        except (NoToken, BadToken) as error:
            if error.code in TO_LOGIN:
                return self._to_login(request)
            return await self._problem(request, visit, error)
        except WakefulError as error:
            return await self._problem(request, visit, error)

    async def _in_turn(self, handler: Handler, visit: Visit) -> "Response":
        """Visitor by visitor: one who reloads all the time waits behind nobody but himself."""
        async with self._turns.passing(asker_of(visit.caller)):
            return await handler(visit)

    def _to_login(self, request: "Request") -> "Response":
        """To the login page, and from there back; htmx has to be told to take the whole page there."""
        from starlette.responses import RedirectResponse, Response

        path = path_of(request)
        back = f"{path}?{request.url.query}" if request.url.query else path
        target = address(request, "/login", next=back if request.method == "GET" and back != "/" else None)
        if "hx-request" in request.headers or "text/event-stream" in request.headers.get("accept", ""):
            return Response(
                status_code=401, headers={"hx-redirect": address(request, "/login"), "cache-control": "no-store"}
            )
        return RedirectResponse(target, status_code=303, headers={"cache-control": "no-store"})

    async def _problem(self, request: "Request", visit: Visit | None, error: WakefulError) -> "Response":
        status, heading = next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)
        said = {"heading": heading, "text": error_words(error, visit.caller if visit else None)}
        if status == 503:
            log.warning("%s %s: %s", request.method, request.url.path, error, extra={"code": error.code})
        if visit is None or status == 503:
            found = self.bare(request, "problem.html", status=status, **said)
        else:
            found = await visit.render("problem.html", "", status=status, lives=False, **said)
        if isinstance(error, TooMany):
            found.headers["retry-after"] = str(max(1, round(error.retry_after_s)))
        return found

    async def missing(self, request: "Request") -> "Response":
        """An address that no page has."""
        return self.bare(
            request, "problem.html", status=404, heading="Not there", text="There is no page of that name."
        )

    def bare(self, request: "Request", template: str, *, status: int = 200, **given: Any) -> "Response":
        """A page for someone who is not let in, or not yet."""
        node = self.deployment.node
        now = node.clock.now() if node is not None else 0
        return render(
            request, template, status=status, now=now, caller=None, said="", lives=False, parked_count=0,
            **{"problem": "", **given},
        )  # fmt: skip


def error_words(error: WakefulError, caller: "Caller | None") -> str:
    """What it says; where the store is is not for tenants, and not for those who are not let in."""
    of_store = (StoreDown, OutcomeUnknown, StoreError)
    is_away = isinstance(error, of_store) and not isinstance(error, errors.Undecodable)
    if is_away and (caller is None or caller.tenant is not None):
        return f"The store can't be reached now; try again in a moment. [{error.code}]"
    return str(error)


async def read_form(request: "Request") -> dict[str, list[str]]:
    """The fields of a form; `BadOption` for what no form of ours sends."""
    if request.method in ("GET", "HEAD"):
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadOption(f"a form is expected, not {kind or 'nothing'}", code="form.type")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES_MAX:
            raise BadOption(f"a form has at most {FORM_BYTES_MAX} bytes", code="form.size")
    fields: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
    except ValueError:
        raise BadOption("the form can't be read", code="form.text") from None
    if any("\0" in value for _, value in pairs):
        raise BadOption("the form has a NUL in it; leave it out", code="form.text")
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields
