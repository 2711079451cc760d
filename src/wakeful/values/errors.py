"""Layer 0. Everything that can go wrong, as one tree.

WakefulError
├── BadInput                    the call itself was wrong; nothing was done
│   ├── BadName                 a class name, key or method name that can't be one
│   ├── BadTime                 a naive, NaN, infinite, zero, past-the-limit or wrongly typed time
│   ├── BadValue                a value that can't be stored or sent (says which part)
│   ├── BadOption               an option or a combination of options that makes no sense
│   ├── BadSpec                 a cron text, interval, phrase, zone or calendar that can't be one (says which part)
│   ├── BadChart                a statechart that can't be one, or a snapshot of another (says where in the chart)
│   ├── BadSql                  a statement that SQLite does not understand, or that is refused (says why)
│   ├── ConstraintFailed        a statement against a UNIQUE, NOT NULL, CHECK or FOREIGN KEY of its table
│   ├── BadHandler              a lambda, a foreign function or an unknown method given as a handler
│   ├── LimitExceeded           a named limit, and by how much it was passed
│   │   └── QuotaExceeded       a tenant's quota, named
│   ├── UnknownObject           there is no such object (looking never makes one)
│   ├── UnknownParked           nothing is parked under that number
│   ├── UnknownSchedule         the object has no schedule of that name (says which it has)
│   ├── UnknownPoint            the object can't be as it was then: from when on it can (says when)
│   ├── UnknownJob              no job of that id, or it ended so long ago that nothing is kept of it
│   ├── UnknownClass            no class of that name is registered here
│   ├── UnknownMethod           the class has no such method, or not for callers outside
│   └── NoAlarmHandler          set_alarm on a class without `async def alarm`
├── CallFailed                  the call was made and did not succeed
│   ├── TurnFailed              the object's code raised where its error type can't be had (remote text attached)
│   ├── DeadlineExceeded        it took longer than its deadline; the turn was rolled back
│   ├── CallCancelled           an operator stopped it; the turn was rolled back
│   ├── Reentrancy              a cycle of calls (A → B → A), with the chain
│   ├── ReadOnly                a @reader tried to write
│   ├── TurnOver                storage used when no turn of the object is running
│   ├── MigrationFailed         a migration of the object raised; nothing of it was kept (says which)
│   ├── JobFailed               the job that was waited for failed for good, and is parked
│   ├── JobCancelled            the job that was waited for was cancelled, or stopped itself
│   ├── StepFailed              a step of a workflow failed for good (says with what)
│   ├── NoRetry                 raised by a step's function: it is not tried again
│   ├── WorkflowFailed          the workflow that was waited for failed (says with what)
│   ├── WorkflowCancelled       the workflow that was waited for was cancelled
│   └── KeyTaken                a request key used again for another call, or a job's key for another job
├── Conflict                    an operator's action that the present state does not allow
├── Denied                      who asks may not; nothing was done
│   ├── NoToken                 a token is needed and none came
│   ├── BadToken                a token that is unknown, revoked or expired
│   ├── WrongScope              the token is not for this kind of thing (says which scope is)
│   ├── WrongTenant             the token is bound to another tenant
│   └── TooMany                 more requests than the limit allows; try again later
├── Unavailable                 ours, not yours: store or node can't answer now; try again
│   ├── StoreDown               the store can't be reached or can't write
│   ├── OutcomeUnknown          connection or disk broke while committing; retry with a request key
│   ├── LinkLost                the connection to another node is gone (says whether the call had been sent)
│   │   └── WrongNode           another node than expected answers at that address; nothing was sent
│   ├── SlotMoved               the object is on its way from one server of its class to another; nothing was begun
│   ├── ObjectTooNew            a newer program has migrated the object; nothing was touched
│   └── NotRunning              the app or node is not started, or stopping
├── ClusterError                this node and the others can't be one cluster as they are
│   ├── NoSecret                reachable from other machines, but without a cluster secret
│   ├── WrongSecret             the other side has another cluster secret, or none
│   ├── WrongCluster            the other side is in a cluster of another name
│   ├── WrongLease              the others are believed for another time after they were last heard of
│   ├── WrongVersion            the other side speaks no version of the protocol that this one knows
│   ├── WrongCertificate        a TLS certificate, key or authority that can't be used, or is not trusted
│   ├── BadAddress              not an address, or none that others can use
│   ├── AddressInUse            something else listens there
│   └── Unreachable             the address that others are given does not lead to this node
└── StoreError                  the store is there and can't be used as it is
    ├── BadUrl                  not a store URL
    ├── MissingExtra            an optional dependency is not installed
    ├── FileOwned               another process owns the SQLite file, or the bucket's prefix (names it)
    ├── NotADatabase            the file is something else
    ├── SchemaTooNew            made by a newer Wakeful
    ├── SchemaTooOld            needs `wakeful migrate`
    ├── NoKey                   values are sealed, and their key is not here (says which)
    └── Undecodable             stored bytes that can't become a value again
        └── Unfit               a stored state whose types are not those of its class any more (says which field)

BaseException
└── Fenced                      this node lost the object's shard; user code must not catch it

>>> from wakeful import errors
>>> issubclass(errors.StoreDown, errors.Unavailable), issubclass(errors.BadName, errors.BadInput)
(True, True)
"""

from collections.abc import Sequence
from typing import Any, ClassVar


def _unpickle(cls: type["WakefulError"], args: tuple[Any, ...]) -> "WakefulError":
    return cls.__new__(cls, *args)


class WakefulError(Exception):
    """Root of all errors; `code` is stable and made for programs, the message for people.

    >>> from wakeful import WakefulError, cron
    >>> try:
    ...     cron("61 * * * *")
    ... except WakefulError as error:
    ...     print(error.code)
    spec.field
    """

    code: str = "error"
    default_code: ClassVar[str] = "error"
    is_raised: bool = False  # by the code of an object: its answer, and who asks again runs that code again
    is_foreign: bool = False  # it came from the server of another program

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, which would call the class with nothing but the message."""
        return _unpickle, (type(self), self.args), self.__dict__


def message_of(error: BaseException) -> str:
    """What it says, without its code; nothing when even that fails."""
    try:
        return error.message if isinstance(error, WakefulError) else str(error)
    except Exception:
        return ""


class BadInput(WakefulError):
    default_code = "input"


class BadName(BadInput, ValueError):
    default_code = "name"


class BadTime(BadInput, ValueError):
    default_code = "time"


class BadValue(BadInput, TypeError):
    default_code = "value"


class BadOption(BadInput, ValueError):
    default_code = "option"


class BadSpec(BadInput, ValueError):
    default_code = "spec"


class BadChart(BadInput, ValueError):
    default_code = "chart"


class BadSql(BadInput, ValueError):
    default_code = "sql"


class ConstraintFailed(BadInput, ValueError):
    default_code = "sql.constraint"


class BadHandler(BadInput, TypeError):
    default_code = "handler"


class LimitExceeded(BadInput, ValueError):
    default_code = "limit"


class QuotaExceeded(LimitExceeded):
    default_code = "quota"


class UnknownObject(BadInput, LookupError):
    default_code = "object.unknown"


class UnknownParked(BadInput, LookupError):
    default_code = "parked.unknown"


class UnknownSchedule(BadInput, LookupError):
    default_code = "schedule.unknown"


class UnknownPoint(BadInput, LookupError):
    default_code = "history.unknown"


class UnknownJob(BadInput, LookupError):
    default_code = "job.unknown"


class UnknownClass(BadInput, LookupError):
    default_code = "class.unknown"


class UnknownMethod(BadInput, AttributeError):
    default_code = "method.unknown"


class NoAlarmHandler(BadInput, TypeError):
    default_code = "alarm.handler"


class CallFailed(WakefulError):
    default_code = "call"


class TurnFailed(CallFailed):
    """The object's code raised; `remote_type` and `remote_traceback` say what and where."""

    default_code = "turn.failed"

    def __init__(self, message: str, *, remote_type: str, remote_traceback: str, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.remote_type = remote_type
        self.remote_traceback = remote_traceback


class DeadlineExceeded(CallFailed, TimeoutError):
    default_code = "call.deadline"


class CallCancelled(CallFailed):
    default_code = "call.cancelled"


class Reentrancy(CallFailed):
    default_code = "call.cycle"


class ReadOnly(CallFailed):
    default_code = "turn.reader"


class TurnOver(CallFailed):
    default_code = "turn.over"


class MigrationFailed(CallFailed):
    default_code = "migration.failed"


class JobFailed(CallFailed):
    default_code = "job.failed"


class JobCancelled(CallFailed):
    default_code = "job.cancelled"


class StepFailed(CallFailed):
    """A step failed for good: `kind` is the name of the error's type, `said` its message, `remote_code` its code if it had one.

    The same in the body's first run and in every later one, so `except` can't name the type itself: ask `is_a(Declined)`.
    """

    default_code = "workflow.step"

    def __init__(
        self,
        message: str = "",
        *,
        kind: str = "",
        said: str = "",
        kinds: tuple[str, ...] = (),
        remote_code: str | None = None,
        trace: str = "",
        code: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.kind = kind
        self.said = said
        self.kinds = kinds
        self.remote_code = remote_code
        self.trace = trace

    def is_a(self, kind: type[BaseException]) -> bool:
        """Whether the error was one of this type."""
        return f"{kind.__module__}.{kind.__qualname__}" in self.kinds


class NoRetry(CallFailed):
    default_code = "workflow.final"


class WorkflowFailed(CallFailed):
    default_code = "workflow.failed"


class WorkflowCancelled(CallFailed):
    default_code = "workflow.cancelled"


class KeyTaken(CallFailed):
    default_code = "request.key"


class Conflict(WakefulError):
    default_code = "conflict"


class Denied(WakefulError):
    default_code = "denied"


class NoToken(Denied):
    default_code = "denied.no_token"


class BadToken(Denied):
    default_code = "denied.token"


class WrongScope(Denied):
    default_code = "denied.scope"


class WrongTenant(Denied):
    default_code = "denied.tenant"


class TooMany(Denied):
    """More than the limit allows; `retry_after_s` says when to try again."""

    default_code = "denied.rate"

    def __init__(self, message: str = "", *, retry_after_s: float = 1.0, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after_s = retry_after_s


class Unavailable(WakefulError):
    """The store or the object can't be had now: nothing is wrong with the call, try it again.

    >>> from wakeful import App, DurableObject, Unavailable
    >>> app = App()
    >>> @app.object
    ... class Counter(DurableObject):
    ...     async def add(self) -> None:
    ...         await self.storage.put("total", 1)
    >>> async with app.world() as world:
    ...     world.faults.is_down = True
    ...     try:
    ...         await app.get(Counter, "a", deadline="1s").add()
    ...     except Unavailable as error:
    ...         print(error.code)
    ...     world.faults.is_down = False
    store.down
    """

    default_code = "unavailable"


class StoreDown(Unavailable):
    default_code = "store.down"


class SlotMoved(Unavailable):
    """The object's slot is on its way from one server of its class to another, or has just arrived: nothing was begun.

    `slots` are those that were not where they were looked for.
    """

    default_code = "slot.moved"

    def __init__(self, message: str = "", *, slots: Sequence[int] = (), code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.slots = tuple(slots)


class OutcomeUnknown(Unavailable):
    default_code = "commit.unknown"


class LinkLost(Unavailable):
    """The connection to another node is gone; `was_sent` tells whether the call may have reached it."""

    default_code = "link.lost"

    def __init__(self, message: str = "", *, was_sent: bool = True, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.was_sent = was_sent


class WrongNode(LinkLost):
    default_code = "link.node"

    def __init__(self, message: str = "", *, was_sent: bool = False, code: str | None = None) -> None:
        super().__init__(message, was_sent=was_sent, code=code)


class ObjectTooNew(Unavailable):
    default_code = "object.newer"


class NotRunning(Unavailable):
    default_code = "node.stopped"


class ClusterError(WakefulError):
    default_code = "cluster"


class NoSecret(ClusterError):
    default_code = "cluster.no_secret"


class WrongSecret(ClusterError):
    default_code = "cluster.secret"


class WrongCluster(ClusterError):
    default_code = "cluster.name"


class WrongLease(ClusterError):
    default_code = "cluster.lease"


class WrongVersion(ClusterError):
    default_code = "cluster.version"


class WrongCertificate(ClusterError):
    default_code = "cluster.certificate"


class BadAddress(ClusterError, ValueError):
    default_code = "address"


class AddressInUse(ClusterError):
    default_code = "address.in_use"


class Unreachable(ClusterError):
    default_code = "address.unreachable"


class StoreError(WakefulError):
    default_code = "store"


class BadUrl(StoreError, ValueError):
    default_code = "store.url"


class MissingExtra(StoreError, ImportError):
    default_code = "store.extra"


class FileOwned(StoreError):
    default_code = "store.owned"


class NotADatabase(StoreError):
    default_code = "store.file"


class SchemaTooNew(StoreError):
    default_code = "store.newer"


class SchemaTooOld(StoreError):
    default_code = "store.older"


class NoKey(StoreError):
    default_code = "store.key"


class Undecodable(StoreError, ValueError):
    default_code = "store.value"


class Unfit(Undecodable):
    """What is stored under a field is of another type than its class says; `path`, `stored` and `wanted` name them."""

    default_code = "state.fit"

    def __init__(
        self, message: str = "", *, path: str = "", stored: str = "", wanted: str = "", code: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.path = path
        self.stored = stored
        self.wanted = wanted


class Fenced(BaseException):
    """This node no longer owns the shard it tried to commit to; derives from BaseException so that `except Exception` in user code can't swallow it."""

    code = "shard.fenced"

    def __init__(self, shard: int, epoch: int) -> None:
        super().__init__(f"shard {shard} is no longer owned at epoch {epoch}; its objects wake elsewhere [{self.code}]")
        self.shard = shard
        self.epoch = epoch
