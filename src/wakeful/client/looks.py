"""Layer 5. What is there to see on a server, from another process? Nothing of it wakes an object."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

import msgspec

from wakeful.client.wire import NOTHING, HttpWire, error_of, segment
from wakeful.machines.snapshot import Snapshot
from wakeful.runtime.registry import name_of
from wakeful.values.errors import BadOption, TooMany, Unavailable
from wakeful.values.ids import check_class, check_key
from wakeful.values.json_patch import apply

AGAIN_S = (
    2.0  # after which a stream that broke is asked for again, about; twice as long each time that it gives nothing
)
AGAIN_MAX_S = 30.0

Row = dict[str, Any]
Class = type | str


class Rows(list[Row]):
    """Some of the rows that there are; `next` is where the following page begins (`cursor=page.next`), None at the end."""

    def __init__(self, rows: Sequence[Row] = (), next: str | None = None) -> None:
        super().__init__(rows)
        self.next = next


class Looks:
    """Lists and single things, as the rows that the HTTP API gives (docs/http.md)."""

    _wire: HttpWire
    _timeout_ms: int

    async def classes(self) -> Rows:
        """The classes that the program has, with how many objects, timers and parked timers each."""
        return await self._rows("/v1/classes")

    async def objects(
        self,
        cls: Class | None = None,
        *,
        prefix: str | None = None,
        contains: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Rows:
        """Objects by name."""
        given = {"class": _name(cls), "prefix": prefix, "contains": contains, "limit": limit, "cursor": cursor}
        return await self._rows("/v1/objects", given)

    async def object(self, cls: Class, key: str, *, limit: int = 50) -> Row:
        """State, storage, timers, schedules, ledger and parked timers of one; `UnknownObject` when there is none."""
        found: Row = await self._look(object_path(cls, key), {"limit": limit})
        return found

    async def storage(
        self, cls: Class, key: str, *, prefix: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Rows:
        """What an object keeps, by key."""
        given = {"prefix": prefix, "limit": limit, "cursor": cursor}
        return await self._rows(f"{object_path(cls, key)}/storage", given)

    async def history(self, cls: Class, key: str, *, limit: int = 50, cursor: str | None = None) -> Rows:
        """The points that an object can go back to, newest first, with what each changed."""
        return await self._rows(f"{object_path(cls, key)}/history", {"limit": limit, "cursor": cursor})

    async def due(
        self,
        cls: Class | None = None,
        key: str | None = None,
        *,
        prefix: str | None = None,
        timer: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Rows:
        """What fires next."""
        given = {"class": _name(cls), "key": key, "prefix": prefix, "timer": timer, "limit": limit, "cursor": cursor}
        return await self._rows("/v1/due", given)

    async def ledger(
        self,
        cls: Class | None = None,
        key: str | None = None,
        *,
        timer: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Rows:
        """What ran, newest first, with its verdict."""
        given = {"class": _name(cls), "key": key, "timer": timer, "limit": limit, "cursor": cursor}
        return await self._rows("/v1/ledger", given)

    async def parked(
        self,
        cls: Class | None = None,
        key: str | None = None,
        *,
        prefix: str | None = None,
        error: str | None = None,
        older_than: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Rows:
        """Timers that failed for good and wait for somebody; the filters are those of `redrive` and `drop_parked`."""
        given = {"class": _name(cls), "key": key, "prefix": prefix, "error": error, "older_than": older_than}
        return await self._rows("/v1/parked", given | {"limit": limit, "cursor": cursor})

    async def redrive(
        self,
        *numbers: int,
        all: bool = False,
        cls: Class | None = None,
        key: str | None = None,
        prefix: str | None = None,
        error: str | None = None,
        older_than: str | None = None,
    ) -> Rows:
        """Set parked timers due again: those of these numbers, or all that the filters leave; a row for each with what came of it.

        `prefix` is how the keys of their objects begin, `error` what their errors say somewhere, `older_than` a length ("7d").
        """
        choice = {"all": all, "key": key, "prefix": prefix, "error": error, "older_than": older_than}
        return await self._each_parked("redrive", numbers, cls, choice)

    async def drop_parked(
        self,
        *numbers: int,
        all: bool = False,
        cls: Class | None = None,
        key: str | None = None,
        prefix: str | None = None,
        error: str | None = None,
        older_than: str | None = None,
    ) -> Rows:
        """Let go of parked timers, chosen as `redrive` does: they never run; a failed job is cancelled."""
        choice = {"all": all, "key": key, "prefix": prefix, "error": error, "older_than": older_than}
        return await self._each_parked("drop", numbers, cls, choice)

    async def restore(
        self, cls: Class, key: str, to: str | datetime, *, timers: bool = True, dry_run: bool = False
    ) -> Row:
        """Have an object be as it was at a bookmark or a time, or say what that would change; `before` is what undoes it."""
        if not isinstance(to, str | datetime):
            raise BadOption(f"to must be a bookmark or a datetime, not {to!r:.60}", code="history.bookmark")
        body = {"to": to if isinstance(to, str) else to.isoformat(), "timers": timers, "dry_run": dry_run}
        found: Row = await self._do("POST", f"{object_path(cls, key)}/history/restore", body, is_repeatable=False)
        return found

    async def reset(self, cls: Class, key: str, input: Any = None, *, force: bool = False) -> Row:
        """Have a machine that is over begin anew, as an operator; with `force` also one that is active."""
        body = {"input": input, "force": force}
        found: Row = await self._do("POST", f"{object_path(cls, key)}/machine/reset", body, is_repeatable=False)
        return found

    async def workflow(self, cls: Class, key: str, *, limit: int = 50) -> Row:
        """How a workflow stands, with its last steps."""
        found: Row = await self._look(f"{object_path(cls, key)}/workflow", {"limit": limit})
        return found

    async def workflows(
        self,
        cls: Class | None = None,
        *,
        state: str | None = None,
        prefix: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Rows:
        """Workflows by class and key, in this state."""
        given = {"class": _name(cls), "state": state, "prefix": prefix, "limit": limit, "cursor": cursor}
        return await self._rows("/v1/workflows", given)

    async def pause_workflow(self, cls: Class, key: str) -> Row:
        """Have it begin nothing more, until `resume_workflow`."""
        return await self._workflow(cls, key, "pause", {})

    async def resume_workflow(self, cls: Class, key: str) -> Row:
        """Have one go on that is paused or parked."""
        return await self._workflow(cls, key, "resume", {})

    async def cancel_workflow(self, cls: Class, key: str) -> Row:
        """End it, and have its steps undone."""
        return await self._workflow(cls, key, "cancel", {})

    async def restart_workflow(self, cls: Class, key: str) -> Row:
        """Have it begin from the top, with what it was started with."""
        return await self._workflow(cls, key, "restart", {})

    async def retry_workflow(self, cls: Class, key: str, from_step: str | None = None) -> Row:
        """Have one that failed go on from the step that failed, or from this one."""
        return await self._workflow(cls, key, "retry", {"from_step": from_step})

    async def fork_workflow(self, cls: Class, key: str, new_key: str, from_step: str | None = None) -> Row:
        """Another one under the new key, which has all that this one had before that step."""
        return await self._workflow(cls, key, "fork", {"key": new_key, "from_step": from_step})

    async def _workflow(self, cls: Class, key: str, act: str, body: dict[str, Any]) -> Row:
        found: Row = await self._do("POST", f"{object_path(cls, key)}/workflow/{act}", body, is_repeatable=False)
        return found

    async def _each_parked(self, act: str, numbers: tuple[int, ...], cls: Class | None, choice: dict[str, Any]) -> Rows:
        given = choice | {"class": _name(cls)}
        body = {"numbers": list(numbers)} | {name: value for name, value in given.items() if value is not None}
        found = await self._do("POST", f"/v1/parked/{act}", body, is_repeatable=False)
        return Rows(found["rows"])

    async def forget(self, cls: Class, key: str) -> bool:
        """Have an object forgotten, with everything of it; False: there was none. Needs the scope admin."""
        return bool(await self._forget({"class": _name(cls), "key": key}))

    async def forget_all(self, prefix: str, cls: Class | None = None) -> int:
        """Have all objects forgotten whose keys begin so, of one class or of all: a whole tenant; how many."""
        return await self._forget({"class": _name(cls), "prefix": prefix})

    async def holdings(self, cls: Class | None = None, key: str | None = None, *, prefix: str | None = None) -> Row:
        """What would be forgotten, counted: objects, rows, bytes, timers, runs, parked, answers."""
        choice = {"class": _name(cls), "key": key, "prefix": prefix, "dry_run": True}
        found: Row = (await self._do("POST", "/v1/forget", choice))["held"]
        return found

    async def _forget(self, choice: dict[str, Any]) -> int:
        return int((await self._do("POST", "/v1/forget", choice))["forgotten"])

    async def nodes(self) -> Rows:
        """The nodes: shards, lease, load."""
        return await self._rows("/v1/nodes")

    async def calls(
        self,
        cls: Class | None = None,
        key: str | None = None,
        *,
        prefix: str | None = None,
        limit: int = 50,
    ) -> Rows:
        """Calls and turns of due timers that are under way, those that have been at it for longest first."""
        return await self._rows("/v1/calls", {"class": _name(cls), "key": key, "prefix": prefix, "limit": limit})

    async def cancel_call(self, id: str) -> str:
        """Stop one of them, by its `id`: its turn is undone and its caller is told; its method. `Conflict`: it had ended."""
        found = await self._do("POST", f"/v1/calls/{segment(id)}/cancel", is_repeatable=False)
        return str(found["method"])

    async def drain(self, node: str) -> None:
        """Let the node own nothing."""
        await self._do("POST", f"/v1/nodes/{segment(node)}/drain")

    async def undrain(self, node: str) -> None:
        """Let it own shards again."""
        await self._do("POST", f"/v1/nodes/{segment(node)}/undrain")

    async def queues(self) -> Rows:
        """Queues, with what runs and waits in each, and what it holds to."""
        return await self._rows("/v1/queues")

    async def queue(self, name: str) -> Row:
        """One of them; `UnknownObject` when nothing has gone through it."""
        found: Row = await self._look(f"/v1/queues/{segment(name)}")
        return found

    async def pause_queue(self, name: str, note: str = "") -> Row:
        """Let nobody in it go until it is resumed; how it stands then."""
        found: Row = await self._do("POST", f"/v1/queues/{segment(name)}/pause", {"note": note})
        return found

    async def resume_queue(self, name: str) -> Row:
        """Let those that wait in it go again; how it stands then."""
        found: Row = await self._do("POST", f"/v1/queues/{segment(name)}/resume", {})
        return found

    async def webhooks(self) -> Rows:
        """Who is told of what happens, with the latest deliveries."""
        return await self._rows("/v1/webhooks")

    async def test_webhook(self, name: str) -> Row:
        """Send a test to that webhook; what came back."""
        found: Row = await self._do("POST", f"/v1/webhooks/{segment(name)}/test")
        return found

    async def search(self, text: str, *, limit: int = 20) -> Rows:
        """Whatever has that in its name."""
        return await self._rows("/v1/search", {"q": text, "limit": limit})

    async def audit(self, *, actor: str | None = None, limit: int = 50, cursor: str | None = None) -> Rows:
        """Who did what, newest first."""
        return await self._rows("/v1/audit", {"actor": actor, "limit": limit, "cursor": cursor})

    async def events(self, *kinds: str, since: datetime | None = None) -> AsyncIterator[Row]:
        """What happens in the deployment, as it does, without an end; of these kinds only, if any are named.

        A connection that breaks is made again, and goes on after the last event that came, as far as the server still
        has them; `{"kind": "lost", …}` says how many it has not, `count` None that it does not know.
        """
        query = {"kinds": ",".join(kinds) or None, "since": None if since is None else since.isoformat()}
        async with aclosing(self._follow("/v1/events", query)) as told:
            async for _, event in told:
                yield event

    async def published(self, cls: Class, key: str) -> AsyncIterator[Any]:
        """What a workflow publishes, from the first value on, to its end; after a broken connection it goes on where it was."""
        async with aclosing(self._follow(f"{object_path(cls, key)}/watch", {})) as told:
            async for kind, data in told:
                if kind == "problem":
                    body = msgspec.json.encode(data)
                    raise error_of(data["status"], "application/problem+json", {}, body, self._wire.url)
                if kind == "over":
                    return
                if kind == "published":
                    yield data["value"]

    async def _news(self, cls: Class, key: str) -> AsyncGenerator[Snapshot | Row]:
        """A machine's snapshots, put together of what has changed, and the events that it emits."""
        state, at = None, 0
        async with aclosing(self._follow(f"{object_path(cls, key)}/watch", {"patches": True})) as told:
            async for kind, data in told:
                if kind == "problem":
                    body = msgspec.json.encode(data)
                    raise error_of(data["status"], "application/problem+json", {}, body, self._wire.url)
                if kind == "snapshot":
                    state, at = data["snapshot"], data["to"]
                elif kind == "patch" and data["from"] == at:
                    state, at = apply(state, data["patch"]), data["to"]
                elif kind == "patch":
                    raise Unavailable(
                        f"{self._wire.url} left out what lies between {at} and {data['from']}", code="client.answer"
                    )
                else:
                    yield data
                    continue
                yield _snapshot(state)

    # how

    async def _follow(self, path: str, query: dict[str, Any]) -> AsyncGenerator[tuple[str, Row]]:
        """Kind and data of each event of a stream, also of the next one when it breaks."""
        import asyncio

        import aiohttp

        last, is_known, wait_s = None, False, AGAIN_S
        while True:
            try:
                headers = {"accept": "text/event-stream"} | ({} if last is None else {"last-event-id": last})
                async with self._wire.stream(path, query, headers) as content:
                    is_known, wait_s = True, AGAIN_S
                    async for id, kind, event in _read(content):
                        last = id or last
                        if event is not None:
                            yield kind, event
            except (aiohttp.ClientError, OSError) as error:
                if not is_known:  # it may never have been there
                    raise Unavailable(f"nobody answers at {self._wire.url}: {error}", code="client.connect") from None
            except (Unavailable, TooMany) as error:
                # A proxy says so while the server behind it is away.
                is_away = error.code == "client.gateway" and is_known
                if error.code.startswith("client.") and not is_away:
                    raise
            if last is not None:
                query = {**query, "since": None}
            await asyncio.sleep(self._wire.about(wait_s))
            wait_s = min(2 * wait_s, AGAIN_MAX_S)

    async def _look(self, path: str, query: dict[str, Any] | None = None, *, has_types: bool = False) -> Any:
        return await self._wire.ask(
            "GET", path, query=query, limit_ms=self._timeout_ms, is_repeatable=True, has_types=has_types
        )

    async def _rows(self, path: str, query: dict[str, Any] | None = None) -> Rows:
        found = await self._look(path, query)
        return Rows(found["rows"], found.get("cursor"))

    async def _do(
        self, method: str, path: str, body: Any = NOTHING, *, is_repeatable: bool = True, has_types: bool = False
    ) -> Any:
        """Something that changes what is there; by default what has the same effect however often it is done."""
        return await self._wire.ask(
            method, path, body=body, limit_ms=self._timeout_ms, is_repeatable=is_repeatable, has_types=has_types
        )


def object_path(cls: Class, key: str) -> str:
    """Where an object is."""
    name = check_class(name_of(cls))
    return f"/v1/objects/{segment(name)}/{segment(check_key(name, key))}"


def _name(cls: Class | None) -> str | None:
    return None if cls is None else name_of(cls)


async def _read(content: Any) -> AsyncIterator[tuple[str | None, str, Row | None]]:
    """The events of a stream, each with its id and its kind."""
    id: str | None = None
    kind = ""
    data: list[bytes] = []
    async for line in _lines(content):
        line = line.rstrip(b"\r")
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id":
            id = value.decode(errors="replace")
        elif name == b"event":
            kind = value.decode(errors="replace")
        elif name == b"data":
            data.append(value)
        elif not line:
            event = msgspec.json.decode(b"\n".join(data)) if data else None
            yield id, kind, event if event else None  # `gone` has nothing in it
            kind, data = "", []


async def _lines(content: Any) -> AsyncIterator[bytes]:
    """Its lines, however long: aiohttp's own stop at half a mebibyte, and a snapshot may have a whole one."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        first, *others = chunk.split(b"\n")
        parts.append(first)
        for other in others:
            yield b"".join(parts)
            parts = [other]


def _snapshot(data: Row) -> Snapshot:
    """A snapshot as the server tells it."""
    due = {id: datetime.fromisoformat(at) for id, at in data["due"].items()}
    lists = {name: tuple(data[name]) for name in ("tags", "accepts", "refuses")}
    return Snapshot(**{**data, **lists, "due": due})
