"""Layer 4. What is a job to the people who schedule it, and to the code that it runs?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal

from msgspec import Struct, field

from wakeful.jobs.ids import target_of
from wakeful.policy.queue_terms import Queue
from wakeful.values.errors import BadOption
from wakeful.values.ids import ObjectId
from wakeful.values.timers import HandlerAnswer
from wakeful.values.times import Duration, duration_ms

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R")  # what the method returns, for `wait`; without it, anything

State = Literal["scheduled", "waiting", "running", "done", "failed", "cancelled"]
STATES: tuple[State, ...] = ("scheduled", "waiting", "running", "done", "failed", "cancelled")
ENDED = frozenset({"done", "failed", "cancelled"})


class Job(Struct, Generic[R], frozen=True):
    """One call that is owed, as it stood when it was looked at.

    >>> from wakeful import App, DurableObject
    >>> app = App()
    >>> @app.object
    ... class Order(DurableObject):
    ...     async def charge(self, amount: int) -> str:
    ...         return f"charged {amount}"
    >>> async with app.world() as world:
    ...     job = await app.jobs.schedule(app.get(Order, "17").charge, 40, after="10m", key="charge")
    ...     print(job.state, job.target)
    ...     await world.advance(minutes=10)
    ...     job = await app.jobs.get(job.id)
    ...     print(job.state, job.result, job.attempt)
    scheduled Order/17
    done charged 40 1
    """

    id: str
    key: str | None  # the caller's own, unique per target
    name: str  # the method
    due_at: datetime
    state: State
    attempt: int = 0  # attempts begun so far, the running one included; starts again after `Again`
    metadata: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()
    priority: int = 0
    created_at: datetime | None = None  # None when only the ledger still knows of it
    result: Any = None
    error: str | None = None  # of the last attempt, or why it was cancelled
    run_id: str | None = None  # of the attempt that runs, or ran last: new for each, the same when one is redelivered
    depends_on: tuple[str, ...] = ()  # ids of those it still waits for
    batch: dict[str, int] | None = None  # of a completion job: how many of its batch are "done", "failed", "cancelled"
    left_out: int = 0  # bytes of a result that a list leaves out because it is large; `get` has it
    queue: str | None = None  # that it goes through; it is "waiting" there from when it is due until it may run
    queue_key: str | None = None  # and as whose

    @property
    def target(self) -> ObjectId:
        """The object that it calls."""
        return target_of(self.id)

    @property
    def dequeue_count(self) -> int:
        """What Orleans calls the attempt."""
        return self.attempt


class JobSpec(Struct, frozen=True):
    """One job of many, for `schedule_many` and `batch`.

    >>> from wakeful import App, DurableObject, JobSpec
    >>> app = App()
    >>> @app.object
    ... class Mail(DurableObject):
    ...     async def send(self, text: str) -> str:
    ...         return f"{text} to {self.ctx.key}"
    >>> async with app.world() as world:
    ...     specs = [JobSpec(app.get(Mail, name).send, ["hi"], after="5s") for name in ("ann", "bob")]
    ...     jobs = await app.jobs.schedule_many(specs)
    ...     print(await app.jobs.wait(jobs[1].id))
    hi to bob
    """

    method: Any
    args: list[Any] | tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None
    after: Duration | None = None
    key: str | None = None
    metadata: Mapping[str, Any] | None = None
    tags: Sequence[str] = ()
    retry: Any = None
    priority: int = 0
    depends_on: Sequence["Job | str"] = ()
    queue: Queue | None = None

    def check_given(self) -> None:
        """`BadOption` for arguments that Python would take apart: a text is no list of letters."""
        if not isinstance(self.args, list | tuple):
            remedy = "those by name go into kwargs=…" if isinstance(self.args, Mapping) else "one alone is (value,)"  # type: ignore[unreachable]
            raise BadOption(f"args must be a list or tuple, not {self.args!r}; {remedy}", code="job.args")
        if not isinstance(self.kwargs, Mapping):
            raise BadOption(f"kwargs must be a dict, not {self.kwargs!r}", code="job.args")


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs that were scheduled together, and the one that runs when all of them have ended."""

    then: Job
    jobs: list[Job]

    @property
    def id(self) -> str:
        return self.then.id


@dataclass(frozen=True, slots=True)
class Again(HandlerAnswer):
    """Returned by a job: run me once more, that much later. No failure; attempts start again.

    >>> from wakeful import Again, App, DurableObject
    >>> app = App()
    >>> @app.object
    ... class Poll(DurableObject):
    ...     async def look(self) -> Again | str:
    ...         seen = await self.storage.get("seen", 0) + 1
    ...         await self.storage.put("seen", seen)
    ...         return "there" if seen == 3 else Again(after="1m")
    >>> async with app.world() as world:
    ...     job = await app.jobs.schedule(app.get(Poll, "mail").look)
    ...     await world.advance(minutes=5)
    ...     print((await app.jobs.get(job.id)).result)
    there
    """

    after: Duration

    def __post_init__(self) -> None:
        if duration_ms(self.after, what="Again(after=…)") < 1:
            raise BadOption(
                f"Again(after={self.after!r}): give a time of a millisecond or more, or the job would never rest",
                code="job.again",
            )


@dataclass(frozen=True, slots=True)
class Stop(HandlerAnswer):
    """Returned by a job: it is over for good and did not do what it was for. What it wrote is kept.

    >>> from wakeful import App, DurableObject, Stop
    >>> app = App()
    >>> @app.object
    ... class Order(DurableObject):
    ...     async def charge(self) -> Stop:
    ...         return Stop("the card was stolen")  # not tried again, and not parked
    >>> async with app.world() as world:
    ...     job = await app.jobs.schedule(app.get(Order, "17").charge)
    ...     await world.advance("1s")
    ...     job = await app.jobs.get(job.id)
    ...     print(job.state, "/", job.error)
    cancelled / the card was stolen
    """

    reason: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise BadOption(f"Stop(reason) must be text, not {self.reason!r}", code="job.stop")


class Page(list[Job]):
    """Some of the jobs there are; `next` is where the following page begins (`after=page.next`), None at the end."""

    def __init__(self, jobs: Sequence[Job] = (), next: str | None = None) -> None:
        super().__init__(jobs)
        self.next = next
