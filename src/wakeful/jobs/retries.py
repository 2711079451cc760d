"""Layer 4. How is a retry policy kept, and what does it say when an attempt has failed?"""

import asyncio
import inspect
import sys
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wakeful.jobs.job import Job
from wakeful.policy.retry import Retry, RetryPolicy
from wakeful.runtime.calls import Call, Method
from wakeful.runtime.turn import CURRENT, Turn
from wakeful.values.errors import BadHandler, BadOption, DeadlineExceeded
from wakeful.values.times import LATEST_MS, from_datetime

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime
    from wakeful.runtime.registry import Registry

DEADLINE_MS = 60_000  # what a policy function is given: its object waits for it


def kept_retry(retry: object, cls: type, what: str, registry: "Registry") -> Retry | str | None:
    """A policy in the form in which it is kept: data, or the name of a function that can be found again."""
    if retry is None:
        return None
    if isinstance(retry, RetryPolicy):
        return retry.kept
    if isinstance(retry, Retry):
        return retry
    name = retry if isinstance(retry, str) else _method_name(retry, cls)
    if name is not None:
        if not callable(inspect.getattr_static(cls, name, None)):
            raise BadHandler(f"{what}: {cls.__name__} has no method {name!r} to be its retry policy", code="job.retry")
        return name
    if inspect.isfunction(retry):
        return _function_name(retry, what, registry)
    raise BadOption(
        f"{what}: retry must be a RetryPolicy(…) or a function (job, error) -> datetime | None, not {retry!r}",
        code="job.retry",
    )


def _method_name(retry: object, cls: type) -> str | None:
    """The name of a method of the target's class, given by a stub, bound or not."""
    if isinstance(retry, Method):
        return retry.name
    if inspect.ismethod(retry):
        return retry.__name__ if isinstance(retry.__self__, cls) else None
    if inspect.isfunction(retry) and inspect.getattr_static(cls, retry.__name__, None) is retry:
        return retry.__name__
    return None


def _function_name(function: Any, what: str, registry: "Registry") -> str:
    if function.__name__ == "<lambda>" or "<locals>" in function.__qualname__:
        kind = "a lambda" if function.__name__ == "<lambda>" else f"{function.__name__}, defined inside a function,"
        raise BadHandler(
            f"{what}: {kind} can't be a retry policy, because it can't be found again after a restart; "
            "give a function of a module, or a method of the class",
            code="job.retry",
        )
    name = f"{function.__module__}:{function.__qualname__}"
    if _in_module(function.__module__, function.__qualname__, registry) is not function:
        raise BadHandler(
            f"{what}: the retry policy {name} would not be found after a restart, or on another node; "
            f"import it in a module that has a class of the app, or make it a method of the class",
            code="job.retry",
        )
    return name


async def ask(name: str, activation: "ObjectRuntime", job: Job, error: BaseException) -> int | None:
    """When the function of that name wants the next attempt; None: never. Raises what it raises."""
    node = activation.node
    function = _find(name, activation)
    now = node.clock.now()
    call = Call("retry", (), {}, deadline_at=now + DEADLINE_MS, request_key=None, chain=(activation.id,))
    call.task = asyncio.current_task()
    token = CURRENT.set(Turn(activation, call.chain, call.deadline_at, is_reader=True))  # it may look, not write
    node.deadlines.add(call)
    try:
        answer = function(job, error)
        if inspect.isawaitable(answer):
            answer = await answer
    except asyncio.CancelledError:
        call.absorb()
        if not call.is_expired or (call.task is not None and call.task.cancelling()):
            raise
        raise DeadlineExceeded(f"the retry policy {name} took longer than {DEADLINE_MS} ms") from None
    finally:
        call.absorb()
        node.deadlines.remove(call)
        CURRENT.reset(token)
    if answer is None:
        return None
    if not isinstance(answer, datetime):
        raise BadOption(f"the retry policy {name} must return a datetime or None, not {answer!r}", code="job.retry")
    return min(max(now, from_datetime(answer)), LATEST_MS)


def _find(name: str, activation: "ObjectRuntime") -> Callable[..., Any]:
    """The function of that name: of the object, or of a module that a known class lives in."""
    module, _, path = name.rpartition(":")
    if not module:
        function = getattr(activation.instance, name, None)
    else:
        function = _in_module(module, path, activation.node.registry)
    if not callable(function):
        raise BadHandler(
            f"the retry policy {name} can't be found here; import it where the class is, then redrive the job",
            code="job.retry",
        )
    return function  # type: ignore[no-any-return]


def _in_module(module: str, path: str, registry: "Registry") -> Any:
    """Never imports: a stored name must not be able to load code."""
    homes = {registry.by_name(known).cls.__module__ for known in registry.names()}
    # A program that is started as a script calls its own module __main__, and the same file imported does not.
    for home in [module] if module in homes else sorted(homes & {"__main__"}) + sorted(homes):
        found: Any = sys.modules.get(home)
        for part in path.split("."):
            found = getattr(found, part, None)
        if inspect.isfunction(found) and (home == module or "__main__" in (home, module)):
            return found
    return _find_imported(module, path, [vars(sys.modules[home]) for home in homes if home in sys.modules])


def _find_imported(module: str, path: str, spaces: list[dict[str, Any]]) -> Any:
    """A function of another module, if the module of a known class has imported that, or the function from it."""
    there = sys.modules.get(module)
    function: Any = there
    for part in path.split("."):
        function = getattr(function, part, None)
    if there is None or not inspect.isfunction(function):
        return None
    # `import shop.policies` leaves only `shop` in sight.
    sights = {id(function), id(there), id(sys.modules.get(module.partition(".")[0]))}
    return function if any(id(one) in sights for space in spaces for one in space.values()) else None
