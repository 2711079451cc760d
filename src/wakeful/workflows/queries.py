"""Layer 4. Which workflows are there, and how do they stand?"""

import json
from collections.abc import AsyncGenerator, Container, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, Protocol

from wakeful.runtime.object_runtime import NodeRuntime
from wakeful.store.protocol import Query
from wakeful.values.errors import BadOption, NotRunning
from wakeful.values.ids import RESERVED, ObjectId
from wakeful.workflows.records import ROW, WorkflowRecord, read_record
from wakeful.workflows.status import STATES, WorkflowStatus, state_of, status_of

LIMIT_MAX = 10_000
CHUNK = 500  # objects that are read at once
BREATH = 50  # of them, before others go on


class WorkflowRow(NamedTuple):
    """A workflow of a list."""

    id: ObjectId
    status: WorkflowStatus


class WorkflowPage(list[WorkflowRow]):
    """Some of the workflows there are; `next` is where the following page begins (`after=page.next`), None at the end."""

    def __init__(self, rows: Sequence[WorkflowRow] = (), next: str | None = None) -> None:
        super().__init__(rows)
        self.next = next


class WorkflowFilter(NamedTuple):
    """Which are wanted."""

    cls: str | None = None
    state: str | None = None
    key_prefix: str | None = None
    classes: Container[str] | None = None  # that are workflows, where the program says so

    def check(self) -> None:
        if self.state is not None and self.state not in STATES:
            raise BadOption(f"state must be one of {', '.join(STATES)}, not {self.state!r:.60}", code="workflow.list")

    def may_have(self, cls: str) -> bool:
        """Objects of that class can be workflows."""
        return not cls.startswith(RESERVED) if self.classes is None else cls in self.classes


class WorkflowHome(Protocol):
    """The program whose workflows these are."""

    @property
    def node(self) -> NodeRuntime | None: ...


class Workflows:
    """`app.workflows`: those that there are.

    >>> from wakeful import App, Step, Workflow
    >>> app = App()
    >>> @app.object
    ... class Nap(Workflow):
    ...     async def run(self, step: Step) -> None:
    ...         await step.sleep("a while", "3d")
    >>> async with app.world() as world:
    ...     await world.get(Nap, "ann").start()
    ...     await world.settle()
    ...     for row in await app.workflows.list(state="sleeping"):
    ...         print(row.id, row.status.wake_at)
    Nap/ann 2026-01-04 00:00:00+00:00
    """

    __slots__ = ("_classes", "_home")

    def __init__(self, home: WorkflowHome, classes: Container[str]) -> None:
        self._home = home
        self._classes = classes

    async def list(
        self,
        *,
        cls: type | str | None = None,
        state: str | None = None,
        key_prefix: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> WorkflowPage:
        """By class and key, those in this state; `after=page.next` gives the following page. Nobody is woken."""
        node = self._home.node
        if node is None:
            raise NotRunning("app.workflows.list: the app is not running; call it inside `async with app.run(…)`")
        name = cls if isinstance(cls, str) or cls is None else node.registry.of_class(cls).name
        wanted = WorkflowFilter(name, state, key_prefix, self._classes)
        return await list_workflows(node, wanted, limit=limit, after=after)


async def list_workflows(
    node: Any, wanted: WorkflowFilter, *, limit: int, after: str | None, looks_max: int | None = None
) -> WorkflowPage:
    """The wanted ones by class and key, store by store. A page that has looked at so many objects ends there."""
    wanted.check()
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise BadOption(f"limit must be a whole number from 1 to {LIMIT_MAX}, not {limit!r}", code="workflow.list")
    page: list[WorkflowRow] = []
    first, begin = _parse_cursor(after, len(node.all_homes))
    last, looked = after, 0
    for index, home in enumerate(node.all_homes[first:], first):
        async with aclosing(_walk(home, wanted, begin if index == first else None)) as rows:
            async for id, record in rows:
                if len(page) == limit or looked == looks_max:
                    return WorkflowPage(page, last)
                last, looked = json.dumps([index, *id]), looked + 1
                if record is not None:
                    page.append(WorkflowRow(id, status_of(record)))
    return WorkflowPage(page)


async def _walk(
    node: Any, wanted: WorkflowFilter, begin: tuple[str, str] | None
) -> AsyncGenerator[tuple[ObjectId, WorkflowRecord | None], None]:
    """Every object that was looked at, with its record if that is wanted."""
    after: tuple[object, ...] | None = begin
    while True:
        query = Query(cls=wanted.cls, key_prefix=wanted.key_prefix, limit=CHUNK, after=after)
        infos = await node.reading(node.store.find_objects(query))
        for number, info in enumerate(infos):
            if number % BREATH == BREATH - 1:
                await node.clock.sleep(0)
            yield info.id, await _read(node, wanted, info.id)
        if len(infos) < CHUNK:
            return
        after = (infos[-1].id.cls, infos[-1].id.key)


async def _read(node: Any, wanted: WorkflowFilter, id: ObjectId) -> WorkflowRecord | None:
    if not wanted.may_have(id.cls):
        return None
    data = (await node.reading(node.store.read(id, ROW[0], [ROW[1]]))).get(ROW[1])
    record = None if data is None else read_record(data)
    fits = record is not None and wanted.state in (None, state_of(record))
    return record if fits else None


def _parse_cursor(after: str | None, stores: int) -> tuple[int, tuple[str, str] | None]:
    if after is None:
        return 0, None
    try:
        index, cls, key = json.loads(after)
    except (ValueError, TypeError):
        index, cls, key = -1, None, None
    is_place = type(index) is int and 0 <= index < stores and isinstance(cls, str) and isinstance(key, str)
    if not is_place or "\0" in f"{cls}{key}" or not f"{cls}{key}".isprintable():
        raise BadOption(f"after={after!r:.80} is not where a page ended; begin without it", code="workflow.list")
    return index, (cls, key)
