"""Layer 5. What does somebody on the other side of HTTP get to know of an error?

A problem of RFC 9457: a status, a title, one line of detail and a code that never changes. Which status an error has
is said by one table, in which the most special class decides; a few codes have one of their own.
"""

import logging
import re
import traceback
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from wakeful.runtime.lock_watch import remedy, words
from wakeful.values import errors
from wakeful.values.errors import TooMany, TurnFailed, WakefulError, message_of

if TYPE_CHECKING:
    from wakeful.store.protocol import TableLock

log = logging.getLogger("wakeful.http")

MEDIA = b"application/problem+json"
TYPE = "urn:wakeful:problem:"
# The object's own code raised: it was reached and gave this answer. Not 500, which is kept for faults of Wakeful.
STOPPING = "node.stopping"
FAILED = 424

STATUS: dict[type[BaseException], int] = {
    errors.WakefulError: 500,
    errors.BadInput: 422,
    errors.BadName: 400,
    errors.BadTime: 422,
    errors.BadValue: 422,
    errors.BadOption: 422,
    errors.BadSpec: 422,
    errors.BadChart: 422,
    errors.BadHandler: 422,
    errors.LimitExceeded: 422,
    errors.QuotaExceeded: 429,
    errors.UnknownObject: 404,
    errors.UnknownParked: 404,
    errors.UnknownSchedule: 404,
    errors.UnknownPoint: 404,
    errors.UnknownJob: 404,
    errors.UnknownClass: 404,
    errors.UnknownMethod: 404,
    errors.NoAlarmHandler: 422,
    errors.CallFailed: FAILED,
    errors.TurnFailed: FAILED,
    errors.DeadlineExceeded: 504,
    errors.CallCancelled: 409,
    errors.Reentrancy: FAILED,
    errors.ReadOnly: FAILED,
    errors.BadSql: FAILED,  # of the object's code, not of whoever called it
    errors.ConstraintFailed: FAILED,
    errors.TurnOver: FAILED,
    errors.MigrationFailed: FAILED,
    errors.JobFailed: FAILED,
    errors.StepFailed: FAILED,
    errors.NoRetry: FAILED,
    errors.WorkflowFailed: FAILED,
    errors.JobCancelled: 409,
    errors.WorkflowCancelled: 409,
    errors.KeyTaken: 409,
    errors.Conflict: 409,
    errors.Denied: 403,
    errors.NoToken: 401,
    errors.BadToken: 401,
    errors.WrongScope: 403,
    errors.WrongTenant: 403,
    errors.TooMany: 429,
    errors.Unavailable: 503,
    errors.StoreDown: 503,
    errors.SlotMoved: 503,
    errors.OutcomeUnknown: 503,
    errors.LinkLost: 503,
    errors.WrongNode: 503,
    errors.ObjectTooNew: 503,
    errors.NotRunning: 503,
    errors.ClusterError: 503,
    errors.NoSecret: 503,
    errors.WrongSecret: 503,
    errors.WrongCluster: 503,
    errors.WrongLease: 503,
    errors.WrongVersion: 503,
    errors.WrongCertificate: 503,
    errors.BadAddress: 503,
    errors.AddressInUse: 503,
    errors.Unreachable: 503,
    errors.StoreError: 503,
    errors.BadUrl: 503,
    errors.MissingExtra: 501,
    errors.FileOwned: 503,
    errors.NotADatabase: 503,
    errors.SchemaTooNew: 503,
    errors.SchemaTooOld: 503,
    errors.Undecodable: FAILED,
    errors.Unfit: FAILED,
    errors.NoKey: 503,
}

# They name the store, its host and its user, which are in the log and for nobody who calls.
_OF_STORES = (errors.StoreDown, errors.OutcomeUnknown, errors.StoreError)
# And these where nodes are, or a store that stood in the way.
_PLACES = re.compile(r"\b(?:postgres(?:ql)?://|(?:s3|az|gs)://|bucket:|sqlite:|unix:|tcp:)[^\s,;)]+")
BY_CODE = {
    "cursor": 400,
    "limit.arguments": 413,
    "limit.answer": FAILED,  # the request was in order
    "events.kind": 400,
    "request.key.form": 400,
}


class Problem(Exception):
    """Something about the request itself, before anything of Wakeful's was asked."""

    def __init__(self, status: int, code: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers


SAID_MAX = 10_000  # characters of a message that are looked at: it may quote what was sent, a megabyte of it


class Raised(Exception):
    """What the object's own code raised, kept apart from what may go wrong on the way."""

    def __init__(self, error: Exception) -> None:
        super().__init__(message_of(error))
        self.error = error


class Told(NamedTuple):
    """An error as it goes out."""

    status: int
    body: dict[str, Any]
    headers: list[tuple[bytes, bytes]]


def problem_of(
    error: BaseException, instance: str, *, is_operator: bool = False, lock: "TableLock | None" = None
) -> Told:
    """The problem that stands for the error; tracebacks are for operators only, and where the store is for nobody.

    With the lock that somebody holds on a table: that is why a store does not answer, and operators hear who it is.
    """
    trace: str | None = None
    extra: dict[str, Any] = {}
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(error, Problem):
        status, code, detail = error.status, error.code, error.detail
        headers = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in error.headers.items()]
    elif isinstance(error, TurnFailed):
        status, code, detail = status_of(error), error.code, error.message
        extra, trace = {"error": "TurnFailed", "remote_type": error.remote_type}, error.remote_traceback
    elif isinstance(error, WakefulError):
        status, code, detail = status_of(error), error.code, _without_places(error)
        extra = {"error": type(error).__name__}
        if error.is_raised:
            detail = f"the object's code raised {type(error).__name__}: {detail}"
        if lock is not None and isinstance(error, errors.StoreDown):
            code = "store.locked"
            detail = f"{words(lock)}; {remedy(lock)}" if is_operator else "a table of the store is locked; try again"
    elif isinstance(error, Raised):
        raised = error.error
        status, code, detail = FAILED, TurnFailed.default_code, f"{type(raised).__name__}: {error}"
        extra = {"error": "TurnFailed", "remote_type": f"{type(raised).__module__}.{type(raised).__qualname__}"}
        trace = "".join(traceback.format_exception(raised)) if is_operator else None
    else:
        log.error("a request failed by a fault of ours: %s", instance, exc_info=error, extra={"code": "http.bug"})
        status, code, detail = 500, "http.bug", "this is a fault of Wakeful's; its log says more"
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="wakeful"'))
    if isinstance(error, TooMany) and status != FAILED:
        headers.append((b"retry-after", str(max(1, round(error.retry_after_s + 0.5))).encode()))
    elif status == 503:
        headers.append((b"retry-after", b"1"))
    body = {
        "type": TYPE + code,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _one_line(detail),
        "code": code,
        "instance": instance,
        **extra,
    }
    if is_operator and trace:
        body["traceback"] = trace
    return Told(status, body, headers)


def bare_answer(status: int, code: str, detail: str) -> bytes:
    """A whole answer, for somebody who is refused before there is a request; the connection ends with it."""
    body = bare_body(status, code, detail)
    lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode())]
    lines += [name + b": " + value for name, value in problem_of(Problem(status, code, detail), "").headers]
    lines += [b"content-type: " + MEDIA, b"content-length: %d" % len(body), b"connection: close", b"", body]
    return b"\r\n".join(lines)


def bare_body(status: int, code: str, detail: str) -> bytes:
    """What is in it: a problem of no instance, since nothing was asked for yet."""
    body = problem_of(Problem(status, code, detail), "").body
    del body["instance"]
    return msgspec.json.encode(body)


def _without_places(error: WakefulError) -> str:
    """What it says, without the places of this machine and of others; those are in the log."""
    is_of_store = isinstance(error, _OF_STORES) and error.code != STOPPING  # what a stop cut off is no store's doing
    if is_of_store and not isinstance(error, errors.Undecodable):
        # Of an outage the node has said it, once and not for every call.
        level = logging.INFO if isinstance(error, errors.Unavailable) else logging.WARNING
        log.log(level, "the store could not be used for a request: %s", error, extra={"code": error.code})
        if isinstance(error, errors.OutcomeUnknown):
            return "the store did not answer; whether it was done is unknown: ask again with the same Idempotency-Key"
        return "the store can't be reached now; try again"
    message = error.message[:SAID_MAX]
    said = _PLACES.sub("a place that the log names", message)
    if said != message:
        log.info("a request failed: %s", error, extra={"code": error.code})
    return said


def status_of(error: WakefulError) -> int:
    """By its code, else by the most special class of it that the table knows."""
    if error.is_raised:
        return FAILED
    found = BY_CODE.get(error.code)
    if found is not None:
        return found
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def _one_line(text: str) -> str:
    """No line breaks, no half characters, not endless: whatever an exception may say."""
    line = " ".join(text[:SAID_MAX].split())
    return line.encode(errors="replace").decode()[:2_000]
