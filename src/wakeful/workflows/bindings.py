"""Layer 4. From a class with a body to something that can run: is it sense?

Everything is looked at once, when the class is registered.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from wakeful.policy.queue_terms import Queue
from wakeful.policy.retry import Retry, RetryPolicy
from wakeful.values.codec import decode, encode
from wakeful.values.errors import BadHandler, BadInput, BadOption, LimitExceeded


class BoundWorkflow:
    """A workflow's class, ready to run."""

    def __init__(self, name: str, cls: type, others: Mapping[str, "BoundWorkflow"]) -> None:
        self.name = name
        self.cls = cls
        self.version = _version(name, cls)
        self.retry = _retry(name, cls)
        self.queue = _queue(name, cls)
        self._others = others
        body = inspect.getattr_static(cls, "run", None)
        if not inspect.iscoroutinefunction(body) or getattr(body, "__wakeful_unwritten__", False):
            raise BadHandler(f"{name} needs its body: `async def run(self, step, …)`", code="workflow.run")
        parameters = list(inspect.signature(body).parameters.values())
        places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if len(parameters) < 2 or parameters[1].kind not in places:
            raise BadHandler(f"{name}.run takes (self, step) and then what it is started with", code="workflow.run")
        if any(one.name == "queue" for one in parameters):
            raise BadHandler(
                f"{name}.run: `queue` is the option of start(…, queue=Queue(…)); call that argument something else",
                code="workflow.run",
            )
        if getattr(cls, "history", None) is not None:
            raise BadOption(
                f"{name}.history: a workflow can't go back to a point in time while others wait for it; fork it from a step",
                code="workflow.history",
            )
        body.__wakeful_internal__ = True  # nobody calls it: it is started
        self._signature = inspect.Signature(parameters[2:])

    def sibling(self, name: str) -> "BoundWorkflow":
        """Another workflow of the program."""
        found = self._others.get(name)
        if found is None:
            raise BadOption(f"{name} is no Workflow, so it can't be started as one", code="workflow.class")
        return found

    def encode_input(self, args: tuple[Any, ...], kwargs: dict[str, Any], bytes_max: int) -> bytes:
        """What `run` is to be called with, as it is kept; `BadInput` when it does not take that."""
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadInput(f"{self.name}.run{self._signature}: {error}", code="workflow.input") from None
        data = encode([list(args), dict(sorted(kwargs.items()))])
        if len(data) > bytes_max:
            raise LimitExceeded(
                f"what {self.name} is started with has {len(data)} bytes, {len(data) - bytes_max} more than the limit of "
                f"{bytes_max}; keep large data in storage, or in a file elsewhere, and pass its name",
                code="limit.arguments",
            )
        return data

    def is_same_input(self, one: bytes, other: bytes) -> bool:
        """Whether `run` gets the same from both: what is given by place in one may be given by name in the other."""
        return one == other or self._arguments(one) == self._arguments(other)

    def _arguments(self, data: bytes) -> object:
        """Which argument has which value; what this version of `run` does not take is like nothing but itself."""
        args, kwargs = decode(data)
        try:
            named = self._signature.bind(*args, **kwargs).arguments
        except TypeError:
            return data
        return encode(dict(sorted(named.items())))


def _version(name: str, cls: type) -> int:
    version = getattr(cls, "version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise BadOption(f"{name}.version must be a whole number from 1, not {version!r}", code="workflow.version")
    return version


def _queue(name: str, cls: type) -> Queue | None:
    queue = getattr(cls, "queue", None)
    if queue is not None and not isinstance(queue, Queue):
        raise BadOption(f"{name}.queue must be a Queue(…), not {queue!r}", code="queue.option")
    return queue


def _retry(name: str, cls: type) -> Retry:
    retry = getattr(cls, "step_retry", None)
    if retry is None:
        return Retry()
    if not isinstance(retry, RetryPolicy):
        raise BadOption(f"{name}.step_retry must be a RetryPolicy(…), not {retry!r}", code="workflow.retry")
    return retry.kept
