"""Layer 4. What do type checkers know of scheduling a method? The types of its arguments, and of its result.

A signature can't have both the arguments of a method (`ParamSpec`) and options between them, so there is one form for each
number of arguments by place. What goes by name, and how many there have to be, is seen where the job is made.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Concatenate, Protocol, TypeVar, overload

from wakeful.jobs.job import Job
from wakeful.policy.queue_terms import Queue
from wakeful.policy.retry import RetryPolicy
from wakeful.values.times import Duration

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
Meta = Mapping[str, Any]
Jobs = Sequence[Job[Any] | str]
Made = Coroutine[Any, Any, Job[R]]


# fmt: off
class ScheduleJob(Protocol):
    """`jobs.schedule`, where it is awaited."""

    @overload
    def __call__(self, method: Callable[..., Awaitable[R]], /, *, at: datetime | None = ..., after: Duration | None = ...,
                 key: str | None = ..., metadata: Meta | None = ..., tags: Sequence[str] = ..., retry: RetryPolicy | None = ...,
                 priority: int = ..., depends_on: Jobs = ..., replace: bool = ..., queue: Queue | None = ..., **kwargs: Any) -> Made[R]: ...
    @overload
    def __call__(self, method: Callable[Concatenate[A, ...], Awaitable[R]], a: A, /, *, at: datetime | None = ..., after: Duration | None = ...,
                 key: str | None = ..., metadata: Meta | None = ..., tags: Sequence[str] = ..., retry: RetryPolicy | None = ...,
                 priority: int = ..., depends_on: Jobs = ..., replace: bool = ..., queue: Queue | None = ..., **kwargs: Any) -> Made[R]: ...
    @overload
    def __call__(self, method: Callable[Concatenate[A, B, ...], Awaitable[R]], a: A, b: B, /, *, at: datetime | None = ...,
                 after: Duration | None = ..., key: str | None = ..., metadata: Meta | None = ..., tags: Sequence[str] = ...,
                 retry: RetryPolicy | None = ..., priority: int = ..., depends_on: Jobs = ..., replace: bool = ..., queue: Queue | None = ..., **kwargs: Any) -> Made[R]: ...
    @overload
    def __call__(self, method: Callable[Concatenate[A, B, C, ...], Awaitable[R]], a: A, b: B, c: C, /, *, at: datetime | None = ...,
                 after: Duration | None = ..., key: str | None = ..., metadata: Meta | None = ..., tags: Sequence[str] = ...,
                 retry: RetryPolicy | None = ..., priority: int = ..., depends_on: Jobs = ..., replace: bool = ..., queue: Queue | None = ..., **kwargs: Any) -> Made[R]: ...
    @overload
    def __call__(self, method: Callable[Concatenate[A, B, C, D, ...], Awaitable[R]], a: A, b: B, c: C, d: D, /, *args: Any,
                 at: datetime | None = ..., after: Duration | None = ..., key: str | None = ..., metadata: Meta | None = ...,
                 tags: Sequence[str] = ..., retry: RetryPolicy | None = ..., priority: int = ..., depends_on: Jobs = ...,
                 replace: bool = ..., queue: Queue | None = ..., **kwargs: Any) -> Made[R]: ...

class ScheduleJobBlocking(Protocol):
    """`jobs.schedule`, where it blocks."""

    @overload
    def __call__(self, method: Callable[..., R], /, *, at: datetime | None = ..., after: Duration | None = ...,
                 key: str | None = ..., metadata: Meta | None = ..., tags: Sequence[str] = ..., retry: RetryPolicy | None = ...,
                 priority: int = ..., depends_on: Jobs = ..., replace: bool = ..., queue: Queue | None = ..., **kwargs: Any) -> Job[R]: ...
    @overload
    def __call__(self, method: Callable[Concatenate[A, ...], R], a: A, /, *, at: datetime | None = ..., after: Duration | None = ...,
                 key: str | None = ..., metadata: Meta | None = ..., tags: Sequence[str] = ..., retry: RetryPolicy | None = ...,
                 priority: int = ..., depends_on: Jobs = ..., replace: bool = ..., queue: Queue | None = ..., **kwargs: Any) -> Job[R]: ...
    @overload
    def __call__(self, method: Callable[Concatenate[A, B, ...], R], a: A, b: B, /, *, at: datetime | None = ...,
                 after: Duration | None = ..., key: str | None = ..., metadata: Meta | None = ..., tags: Sequence[str] = ...,
                 retry: RetryPolicy | None = ..., priority: int = ..., depends_on: Jobs = ..., replace: bool = ..., queue: Queue | None = ..., **kwargs: Any) -> Job[R]: ...
    @overload
    def __call__(self, method: Callable[Concatenate[A, B, C, ...], R], a: A, b: B, c: C, /, *, at: datetime | None = ...,
                 after: Duration | None = ..., key: str | None = ..., metadata: Meta | None = ..., tags: Sequence[str] = ...,
                 retry: RetryPolicy | None = ..., priority: int = ..., depends_on: Jobs = ..., replace: bool = ..., queue: Queue | None = ..., **kwargs: Any) -> Job[R]: ...
    @overload
    def __call__(self, method: Callable[Concatenate[A, B, C, D, ...], R], a: A, b: B, c: C, d: D, /, *args: Any,
                 at: datetime | None = ..., after: Duration | None = ..., key: str | None = ..., metadata: Meta | None = ...,
                 tags: Sequence[str] = ..., retry: RetryPolicy | None = ..., priority: int = ..., depends_on: Jobs = ...,
                 replace: bool = ..., queue: Queue | None = ..., **kwargs: Any) -> Job[R]: ...
# fmt: on


def type_schedule(schedule: Callable[..., Made[Any]]) -> ScheduleJob:
    """The same function, as checkers are to see it."""
    return schedule
