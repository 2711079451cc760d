"""Layer 5. What do answers look like, in the words of JSON Schema? The tests hold every answer against this.

The schemas are made from types: of the rows that views give, and of what acts answer, which are here.
"""

import types
from typing import Annotated, Any, NotRequired, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

from wakeful.operations.forgets import Holdings
from wakeful.security.audit import PlainAudit
from wakeful.views.arguments import PlainArguments
from wakeful.views.calls import PlainCall
from wakeful.views.classes import PlainClass
from wakeful.views.due import PlainTimer
from wakeful.views.history import PlainChange, PlainPoint, PlainReturn
from wakeful.views.jobs import PlainAttempt, PlainJob, PlainJobDetail
from wakeful.views.ledger import PlainEntry, PlainKnown, PlainRun
from wakeful.views.nodes import PlainNode
from wakeful.views.objects import PlainObject, PlainObjectRow, PlainStored
from wakeful.views.parked import PlainParked
from wakeful.views.plain import Instant, OfObject
from wakeful.views.queues import PlainQueue
from wakeful.views.schedules import PlainSchedule, PlainStanding
from wakeful.views.search import PlainHit
from wakeful.views.webhooks import PlainDelivery, PlainTest, PlainWebhook
from wakeful.views.workflows import PlainStep, PlainWorkflow, PlainWorkflowRow

Schema = dict[str, Any]


class ProblemAnswer(TypedDict):
    """RFC 9457; `code` is stable and made for programs."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str
    error: NotRequired[str]
    remote_type: NotRequired[str]
    traceback: NotRequired[str]


class HealthAnswer(TypedDict):
    status: str
    reason: NotRequired[str]
    unreached: NotRequired[int]


class CallAnswer(TypedDict):
    result: Any


class HistoryAnswer(OfObject):
    schedule: str
    rows: list[PlainRun]
    cursor: str | None


class TimesAnswer(OfObject):
    schedule: str
    times: list[Instant]


class CancelAnswer(TypedDict):
    cancelled: bool


class TriggerAnswer(TypedDict):
    run_ids: list[str]


class BackfillAnswer(TypedDict):
    dry_run: bool
    rows: list[PlainKnown]


class RestoreAnswer(PlainReturn):
    dry_run: bool
    before: str | None


ResetAnswer = TypedDict("ResetAnswer", {"class": str, "key": str, "value": Any, "status": str})


class JobBatchAnswer(TypedDict):
    rows: list[PlainJob]
    then: PlainJob | None


class JobCancelAnswer(TypedDict):
    id: str
    cancelled: bool


RedriveRow = TypedDict(
    "RedriveRow",
    {"number": int, "class": str | None, "key": str | None, "timer": str | None, "ok": bool, "problem": str | None},
)


class RedriveAnswer(TypedDict):
    rows: list[RedriveRow]


class ForgetAnswer(TypedDict):
    dry_run: bool
    forgotten: int
    held: Holdings | None


class CallCancelAnswer(TypedDict):
    id: str
    method: str


class DrainAnswer(TypedDict):
    node: str
    is_draining: bool


# By their names in the document; those that have none there are written out where they stand.
NAMES: dict[Any, str] = {
    ProblemAnswer: "Problem",
    PlainClass: "Class",
    PlainObjectRow: "ObjectRow",
    PlainObject: "Object",
    PlainStored: "Stored",
    PlainTimer: "Timer",
    PlainEntry: "Entry",
    PlainSchedule: "Schedule",
    PlainRun: "Run",
    PlainStanding: "Standing",
    HistoryAnswer: "History",
    TimesAnswer: "Times",
    CancelAnswer: "Cancelled",
    TriggerAnswer: "Triggered",
    BackfillAnswer: "Backfilled",
    PlainPoint: "Point",
    PlainChange: "Change",
    RestoreAnswer: "Restored",
    PlainArguments: "Arguments",
    ResetAnswer: "MachineReset",
    PlainWorkflow: "Workflow",
    PlainWorkflowRow: "WorkflowRow",
    PlainStep: "WorkflowStep",
    PlainJob: "Job",
    PlainJobDetail: "JobDetail",
    PlainAttempt: "Attempt",
    JobBatchAnswer: "JobBatch",
    JobCancelAnswer: "JobCancelled",
    PlainParked: "Parked",
    PlainQueue: "Queue",
    RedriveAnswer: "Redriven",
    PlainNode: "Node",
    ForgetAnswer: "Forgotten",
    Holdings: "Holdings",
    DrainAnswer: "Draining",
    PlainWebhook: "Webhook",
    PlainDelivery: "Delivery",
    PlainTest: "WebhookTest",
    PlainCall: "Call",
    CallCancelAnswer: "CallCancelled",
    PlainHit: "Hit",
    PlainAudit: "Audit",
    HealthAnswer: "Health",
    CallAnswer: "Result",
}
_KINDS: dict[Any, Schema] = {
    Any: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def schema_of(hint: Any) -> Schema:
    """What values of that type look like."""
    if hint in NAMES:
        return ref(NAMES[hint])
    if hint in _KINDS:
        return dict(_KINDS[hint])
    if is_typeddict(hint):
        return _fields(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return schema_of(parts[0]) | dict(parts[1].extra_json_schema)
    if origin is NotRequired:
        return schema_of(parts[0])
    if origin is list:
        return {"type": "array", "items": schema_of(parts[0])}
    if origin is dict:
        return {"type": "object"}
    assert origin in (Union, types.UnionType), hint
    assert parts[1:] == (type(None),), hint
    schema, null = schema_of(parts[0]), {"type": "null"}
    return schema | {"type": [schema["type"], "null"]} if "type" in schema else {"anyOf": [schema, null]}


def _fields(kind: Any) -> Schema:
    """An object that has all that is required; more may come with a later version."""
    hints = get_type_hints(kind, include_extras=True)
    required = [name for name, hint in hints.items() if get_origin(hint) is not NotRequired]
    return {
        "type": "object",
        "properties": {name: schema_of(hint) for name, hint in hints.items()},
        "required": required,
    }


def _page(row: str, **more: Any) -> Schema:
    """Rows, and where the next page begins."""
    fields = {"rows": {"type": "array", "items": ref(row)}, "cursor": schema_of(str | None)}
    fields |= {name: schema_of(hint) for name, hint in more.items()}
    return {"type": "object", "properties": fields, "required": list(fields)}


SCHEMAS: dict[str, Schema] = {name: _fields(kind) for kind, name in NAMES.items()} | {
    "Svg": {"type": "string"},
    "EventStream": {"type": "string", "description": "Frames with id, event (the kind) and data (JSON)."},
    "ClassPage": _page("Class"),
    "ObjectPage": _page("ObjectRow"),
    "StoragePage": _page("Stored"),
    "TimerPage": _page("Timer"),
    "EntryPage": _page("Entry"),
    "PointPage": _page("Point"),
    "SchedulePage": _page("Schedule"),
    "ParkedPage": _page("Parked"),
    "JobPage": _page("Job"),
    "QueuePage": _page("Queue"),
    "WorkflowPage": _page("WorkflowRow"),
    "NodePage": _page("Node", unowned=list[int], lost=dict[str, list[int]]),
    "WebhookPage": _page("Webhook"),
    "CallPage": _page("Call", mute=list[str]),
    "HitPage": _page("Hit"),
    "AuditPage": _page("Audit"),
}
SCHEMAS["Problem"]["description"] = ProblemAnswer.__doc__
