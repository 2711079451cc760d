"""Layer 4. How does a plain function run on the whole deployment's clock, once per occurrence?

Each is a reserved object, whose key is the function's name: what makes an object's schedule run exactly once
makes the function's. There is no leader.
"""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from wakeful.runtime.registry import is_rewritten
from wakeful.schedules.declarations import Declared
from wakeful.schedules.handlers import check_arguments, with_run
from wakeful.schedules.options import check_schedule_name, parse_options, parse_spec_options
from wakeful.specs.spec import Spec
from wakeful.values.errors import BadHandler, BadOption, DeadlineExceeded, Unavailable
from wakeful.values.ids import ObjectId, check_key
from wakeful.values.timers import Run

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.runtime.object_runtime import NodeRuntime

log = logging.getLogger("wakeful.schedules")

START_MS = 2_000  # what the start of a node waits for each of its functions
START_AGAIN_MS = 5_000
CLASS = "wakeful.Function"
Plain = Callable[..., Coroutine[Any, Any, Any]]


class Functions:
    """The functions that an app runs by the clock, and the class of the objects that stand for them."""

    def __init__(self) -> None:
        self._functions: dict[str, Plain] = {}
        self._declared: dict[str, Declared] = {}
        self.cls = _class_for(self)

    def add(self, spec: Any, function: Any, **options: Any) -> Any:
        """Run this function at the times of the spec; the function itself, unchanged."""
        if not inspect.iscoroutinefunction(function) or function.__name__ == "<lambda>":
            raise BadHandler(
                f"{function!r} can't be scheduled on the app; give an `async def` function", code="handler.type"
            )
        check_arguments(function, (), {}, what="function on the app's clock", is_method=False)
        key = check_key(CLASS, str(options.pop("name", function.__name__)))
        name = check_schedule_name(key)
        if key in self._functions and not is_rewritten(self._functions[key], function):
            raise BadOption(
                f"{name!r} is on the app's clock already; give the second schedule name='…'", code="schedule.twice"
            )
        asked: Spec = parse_spec_options(spec, options)
        self._declared[key] = {name: (asked, parse_options(asked, "run", (), {}, options))}
        self._functions[key] = function
        return function

    def names(self) -> list[str]:
        return sorted(self._functions)

    def has(self, key: str) -> bool:
        return key in self._functions

    def declared_as(self, key: str) -> Declared:
        return self._declared.get(key, {})

    async def call(self, key: str, run: Run) -> Any:
        function = self._functions[key]
        args, kwargs = with_run(function, (), {}, run, is_method=False)
        return await function(*args, **kwargs)


async def start_function(node: "NodeRuntime", name: str) -> None:
    """See to it that the function has its schedule; in the background when that can't be just now.

    Its object may be owned by a node of an older program, which does not know it, until the roll-out is over.
    """
    try:
        await _start(node, name)
    except (Unavailable, DeadlineExceeded) as error:
        log.warning("function %s waits to be put on the clock: %s", name, error, extra={"code": "function.waiting"})
        node.keep(asyncio.get_running_loop().create_task(_start_later(node, name)))


async def _start(node: "NodeRuntime", name: str) -> None:
    await node.send(ObjectId(CLASS, name), "start", (), {}, deadline_ms=START_MS)


async def _start_later(node: "NodeRuntime", name: str) -> None:
    while not node.is_dead:
        await node.clock.sleep(START_AGAIN_MS)
        with contextlib.suppress(Unavailable, DeadlineExceeded):
            await _start(node, name)
            return


def _class_for(functions: Functions) -> type:
    class Function:
        """Stands for one function of the app; not for callers."""

        def __init__(self, ctx: "Context") -> None:
            self._ctx = ctx

        __init__.__wakeful_own__ = True  # type: ignore[attr-defined]

        async def run(self, run: Run) -> Any:
            return await functions.call(self._ctx.key, run)

        run.__wakeful_internal__ = True  # type: ignore[attr-defined]

        async def start(self) -> None:
            """Does nothing but wake the object, which makes it have its schedule."""

        __wakeful_has_key__ = staticmethod(functions.has)

    return Function
