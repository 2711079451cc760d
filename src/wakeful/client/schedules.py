"""Layer 5. How does another process work with the schedules of an object? The same operations as in `app.schedules`."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Unpack, cast

from wakeful.client.jobs import waits
from wakeful.client.looks import Looks, object_path
from wakeful.client.wire import segment
from wakeful.runtime.calls import Method
from wakeful.schedules.handlers import method_name
from wakeful.schedules.options import (
    AddOptions,
    Handler,
    ScheduleOptions,
    check_schedule_name,
    parse_spec_options,
    plain_spec,
)
from wakeful.schedules.records import Found, Names, Runs, Schedule, Times
from wakeful.schedules.signatures import type_add
from wakeful.specs.build import BUILD_OPTIONS
from wakeful.values.errors import BadHandler, BadOption
from wakeful.values.ids import ObjectId
from wakeful.values.times import duration_ms

PAGE = 500
_LENGTHS = ("catch_up_window", "grace", "jitter")  # options that are lengths of time


class ClientSchedules:
    """`client.schedules(Class, key)`."""

    def __init__(self, client: Looks, cls: type | str, target: ObjectId, new_key: Callable[[], str]) -> None:
        self._client = client
        self._cls = cls
        self._target = target
        self._new_key = new_key
        self._path = f"{object_path(target.cls, target.key)}/schedules"

    @type_add
    async def add(
        self, /, spec: Any, handler: Handler, *args: Any, name: str | None = None, **options: Unpack[AddOptions]
    ) -> Schedule:
        """Have a method of the object run at the times of the spec, with these arguments; `kwargs={…}` for named ones."""
        given = cast("dict[str, Any]", options)
        method, kwargs = self._method_name(handler), given.pop("kwargs", None) or {}
        body = self._spec_body(spec, given) | {"handler": method, "args": list(args), "kwargs": kwargs}
        if name is None:
            name = f"{method}-{self._new_key()}"
            body["is_named"] = False
        return self._schedule_in(await self._client._do("PUT", self._of(name), body, has_types=True))

    async def get(self, name: str) -> Schedule:
        """One as it stands; `UnknownSchedule` when there is none of that name."""
        return self._schedule_in(await self._client._look(self._of(name), has_types=True))

    async def list(self, *, tag: str | None = None, state: str | None = None) -> Found:
        """All of them in the order of their names."""
        schedules: Found = []
        cursor = None
        while True:
            given = {"tag": tag, "state": state, "limit": PAGE, "cursor": cursor}
            page = (await self._client._look(self._path, given, has_types=True))["result"]
            schedules += page["rows"]
            cursor = page["cursor"]
            if cursor is None:
                return schedules

    async def pause(
        self, name: str | None = None, *, tag: str | None = None, note: str = "", until: datetime | None = None
    ) -> int:
        """No occurrence runs until `resume` or the end time; how many schedules that holds.

        Of those with a tag one after the other, here and in `resume`, `trigger` and `cancel`.
        """
        names = await self._choose(name, tag)
        for one in names:
            await self._client._do("POST", f"{self._of(one)}/pause", {"note": note, "until": until})
        return len(names)

    async def resume(self, name: str | None = None, *, tag: str | None = None) -> int:
        """Occurrences run again from now on; how many schedules were paused."""
        count = 0
        for one in await self._choose(name, tag):
            count += (await self.get(one)).state == "paused"
            await self._client._do("POST", f"{self._of(one)}/resume")
        return count

    async def trigger(self, name: str | None = None, *, tag: str | None = None) -> Names:
        """Run it now, beside its own times; the ids of the runs to come. Not sent again when the answer is lost."""
        ids: Names = []
        for one in await self._choose(name, tag):
            found = await self._client._do("POST", f"{self._of(one)}/trigger", is_repeatable=False)
            ids += found["run_ids"]
        return ids

    async def cancel(self, name: str | None = None, *, tag: str | None = None) -> bool:
        """It never runs again; False when there is none of that name."""
        is_any = False
        for one in await self._choose(name, tag):
            found = await self._client._do("DELETE", self._of(one), is_repeatable=False)
            is_any = is_any or bool(found["cancelled"])
        return is_any

    async def reschedule(self, /, name: str, spec: Any, **options: Unpack[ScheduleOptions]) -> Schedule:
        """Give it another spec, as a new version; everything else stays, but for options named here."""
        given = cast("dict[str, Any]", options)
        parse_spec_options(spec, dict(given))
        asked = plain_spec(spec, given)  # the object knows what it had, and so what stays
        own = {one: None for one in BUILD_OPTIONS if one in given and given[one] is None}
        body = self._body(asked.text, given) | own
        return self._schedule_in(await self._client._do("POST", f"{self._of(name)}/reschedule", body, has_types=True))

    async def backfill(self, name: str, start: datetime, end: datetime, *, dry_run: bool = False) -> Times:
        """Run the occurrences of that stretch; with `dry_run` only list them."""
        body = {"start": start, "end": end, "dry_run": dry_run}
        found = await self._client._do("POST", f"{self._of(name)}/backfill", body, is_repeatable=dry_run)
        return [datetime.fromisoformat(row["nominal_at"]) for row in found["rows"]]

    async def history(self, name: str, limit: int = 100) -> Runs:
        """Its latest runs, newest first."""
        found = await self._client._look(f"{self._of(name)}/history", {"limit": limit}, has_types=True)
        runs: Runs = found["result"]
        return runs

    async def next(self, name: str, n: int = 10) -> Times:
        """Its next n times."""
        found = await self._client._look(f"{self._of(name)}/next", {"limit": n})
        return [datetime.fromisoformat(text) for text in found["times"]]

    # how

    def _of(self, name: str) -> str:
        return f"{self._path}/{segment(check_schedule_name(name))}"

    async def _choose(self, name: str | None, tag: str | None) -> Names:
        if (name is None) == (tag is None):
            raise BadOption("which schedules? give a name, or tag='…'", code="schedule.which")
        return [name] if name is not None else [one.name for one in await self.list(tag=tag)]

    def _method_name(self, handler: Any, what: str = "handler") -> str:
        """The name of the method: that of a stub, or of the class where there is one."""
        if isinstance(handler, str | Method) or isinstance(self._cls, type):
            owner = self._cls if isinstance(self._cls, type) else object
            return method_name(owner, self._target, handler, what=what)
        raise BadHandler(f"{handler!r} can't be a {what} here; give a method's name", code="handler.type")

    def _spec_body(self, spec: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Times and options as the server reads them; what is wrong with the spec is said here."""
        return self._body(parse_spec_options(spec, options).text, options)

    def _body(self, text: str, options: dict[str, Any]) -> dict[str, Any]:
        for name, value in options.items():
            if name in _LENGTHS and value is not None:
                options[name] = duration_ms(value, what=name) / 1000
            elif name in ("tags", "depends_on"):
                options[name] = [getattr(one, "name", one) for one in value]
        if options.get("retry") is not None:
            options["retry"] = waits(options["retry"])
        if options.get("on_missed") is not None:
            options["on_missed"] = self._method_name(options["on_missed"], what="on_missed")
        return {name: value for name, value in options.items() if value is not None} | {"spec": text}

    def _schedule_in(self, found: Any) -> Schedule:
        answer: Schedule = found["result"]
        return answer
