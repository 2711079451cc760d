"""Layer 4. How does code outside an object work with its schedules?"""

from datetime import datetime
from typing import Any

from wakeful.runtime.calls import Router
from wakeful.schedules.handlers import method_name
from wakeful.schedules.options import check_schedule_name, parse_spec_options, plain_spec
from wakeful.schedules.records import Found, Names, Runs, Schedule, Times
from wakeful.schedules.signatures import type_add
from wakeful.schedules.tenants import Sharded
from wakeful.values.errors import LimitExceeded
from wakeful.values.ids import ObjectId

PAGE = 500  # schedules per answer, which has a limit in bytes


class ObjectSchedules:
    """`Schedules` of another object: each operation is a turn of that object, wherever it lives."""

    __slots__ = ("_cls", "_router", "_target")

    def __init__(self, router: Router, cls: type, target: ObjectId) -> None:
        self._router = router
        self._cls = cls
        self._target = target

    @type_add
    async def add(self, spec: Any, handler: Any, *args: Any, name: str | None = None, **options: Any) -> Schedule:
        asked = parse_spec_options(spec, options)
        method = method_name(self._cls, self._target, handler)
        self._name_missed(options)
        return await self._send("add", asked.text, method, *args, name=name, **options)  # type: ignore[no-any-return]

    async def get(self, name: str) -> Schedule:
        return await self._send("get", name)  # type: ignore[no-any-return]

    async def list(self, *, tag: str | None = None, state: str | None = None) -> Found:
        """All of them in the order of their names, page by page: each page is as of when it was read."""
        schedules: Found = []
        size = PAGE
        while True:
            after = schedules[-1].name if schedules else None
            try:
                page: Found = await self._send("list", tag=tag, state=state, after=after, limit=size)
            except LimitExceeded:  # large metadata
                if size == 1:
                    raise
                size //= 2
                continue
            schedules += page
            if len(page) < size:
                return schedules

    async def pause(
        self, name: str | None = None, *, tag: str | None = None, note: str = "", until: datetime | None = None
    ) -> int:
        return await self._send("pause", name, tag=tag, note=note, until=until)  # type: ignore[no-any-return]

    async def resume(self, name: str | None = None, *, tag: str | None = None) -> int:
        return await self._send("resume", name, tag=tag)  # type: ignore[no-any-return]

    async def trigger(self, name: str | None = None, *, tag: str | None = None) -> Names:
        return await self._send("trigger", name, tag=tag)  # type: ignore[no-any-return]

    async def cancel(self, name: str | None = None, *, tag: str | None = None) -> bool:
        return await self._send("cancel", name, tag=tag)  # type: ignore[no-any-return]

    async def reschedule(self, name: str, spec: Any, **options: Any) -> Schedule:
        parse_spec_options(spec, dict(options))  # what is wrong with it is said here
        asked = plain_spec(spec, options)  # the object knows what it had, and so what stays
        self._name_missed(options)
        return await self._send("reschedule", name, asked.text, **options)  # type: ignore[no-any-return]

    async def backfill(self, name: str, start: datetime, end: datetime, *, dry_run: bool = False) -> Times:
        return await self._send("backfill", name, start, end, dry_run=dry_run)  # type: ignore[no-any-return]

    async def history(self, name: str, limit: int = 100) -> Runs:
        return await self._send("history", name, limit)  # type: ignore[no-any-return]

    async def next(self, name: str, n: int = 10) -> Times:
        return await self._send("next", name, n)  # type: ignore[no-any-return]

    def _name_missed(self, options: dict[str, Any]) -> None:
        """A method can't be sent, its name can."""
        if options.get("on_missed") is not None:
            options["on_missed"] = method_name(self._cls, self._target, options["on_missed"], what="on_missed")

    async def _send(self, operation: str, /, *args: Any, **kwargs: Any) -> Any:
        return await self._router.send(
            self._target, f"schedules.{operation}", args, kwargs, deadline_ms=None, request_key=None
        )


class ShardedSchedules:
    """One view over the schedules that a tenant has spread over several objects by name."""

    __slots__ = ("_by_key", "_sharded")

    def __init__(self, router: Router, cls: type, name: str, sharded: Sharded) -> None:
        self._sharded = sharded
        self._by_key = {key: ObjectSchedules(router, cls, ObjectId(name, key)) for key in sharded.keys}

    def of(self, name: str) -> ObjectSchedules:
        """The object that has, or would have, the schedule of this name."""
        return self._by_key[self._sharded.key_for(check_schedule_name(name))]

    async def add(self, spec: Any, handler: Any, *args: Any, name: str, **options: Any) -> Schedule:
        return await self.of(name).add(spec, handler, *args, name=name, **options)

    async def get(self, name: str) -> Schedule:
        return await self.of(name).get(name)

    async def list(self, *, tag: str | None = None, state: str | None = None) -> Found:
        """Of all the objects, in the order of their names."""
        schedules = [one for each in self._by_key.values() for one in await each.list(tag=tag, state=state)]
        return sorted(schedules, key=lambda schedule: schedule.name)

    async def pause(
        self, name: str | None = None, *, tag: str | None = None, note: str = "", until: datetime | None = None
    ) -> int:
        return sum([await each.pause(name, tag=tag, note=note, until=until) for each in self._choose(name)])

    async def resume(self, name: str | None = None, *, tag: str | None = None) -> int:
        return sum([await each.resume(name, tag=tag) for each in self._choose(name)])

    async def trigger(self, name: str | None = None, *, tag: str | None = None) -> Names:
        return [id for each in self._choose(name) for id in await each.trigger(name, tag=tag)]

    async def cancel(self, name: str | None = None, *, tag: str | None = None) -> bool:
        return any([await each.cancel(name, tag=tag) for each in self._choose(name)])

    async def reschedule(self, name: str, spec: Any, **options: Any) -> Schedule:
        return await self.of(name).reschedule(name, spec, **options)

    async def backfill(self, name: str, start: datetime, end: datetime, *, dry_run: bool = False) -> Times:
        return await self.of(name).backfill(name, start, end, dry_run=dry_run)

    async def history(self, name: str, limit: int = 100) -> Runs:
        return await self.of(name).history(name, limit)

    async def next(self, name: str, n: int = 10) -> Times:
        return await self.of(name).next(name, n)

    def _choose(self, name: str | None) -> "Objects":
        return list(self._by_key.values()) if name is None else [self.of(name)]


Objects = list[ObjectSchedules]
