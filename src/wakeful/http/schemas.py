"""Layer 5. What do answers look like, in the words of JSON Schema? The tests hold every answer against this."""

from typing import Any

from wakeful.jobs.job import STATES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}
INSTANT: Schema = {"type": "string", "format": "date-time"}
ANY: Schema = {}


def none_or(schema: Schema) -> Schema:
    return (
        {"anyOf": [schema, {"type": "null"}]} if "type" not in schema else schema | {"type": [schema["type"], "null"]}
    )


def thing(**fields: Schema) -> Schema:
    """An object that has all of these; more may come with a later version."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def page(row: str, **more: Schema) -> Schema:
    return thing(rows=many(ref(row)), cursor=none_or(TEXT), **more)


OBJECT = {"class": TEXT, "key": TEXT}
TIMER = OBJECT | {
    "timer": TEXT,
    "words": TEXT,
    "schedule": none_or(TEXT),
    "kind": none_or(TEXT),
    "job": none_or(TEXT),
    "due_at": INSTANT,
    "nominal_at": INSTANT,
    "attempt": WHOLE,
    "crashes": WHOLE,
    "is_running": TRUTH,
    "run_id": TEXT,
    "held_by": none_or(TEXT),
}
VERDICT: Schema = {"type": "string"}
SCHEDULE = OBJECT | {
    "schedule": TEXT,
    "spec": TEXT,
    "words": TEXT,
    "state": TEXT,
    "note": TEXT,
    "paused_until": none_or(INSTANT),
    "waits_for": none_or(TEXT),
    "handler": TEXT,
    "is_declared": TRUTH,
    "version": WHOLE,
    "next_at": none_or(INSTANT),
    "tags": many(TEXT),
    "metadata": ANY,
    "catch_up": TEXT,
    "depends_on": many(TEXT),
    "last": none_or(thing(nominal_at=INSTANT, verdict=VERDICT)),
    "counters": {"type": "object"},
}
RUN: Schema = thing(
    nominal_at=INSTANT,
    local=TEXT,
    fired_at=INSTANT,
    finished_at=none_or(INSTANT),
    lateness_ms=WHOLE,
    attempt=WHOLE,
    verdict=VERDICT,
    why=TEXT,
    covers=WHOLE,
    first_at=none_or(INSTANT),
    missed=WHOLE,
    is_backfill=TRUTH,
    error=none_or(TEXT),
    run_id=TEXT,
)
PARKED = OBJECT | {
    "number": WHOLE,
    "timer": TEXT,
    "words": TEXT,
    "schedule": none_or(TEXT),
    "nominal_at": INSTANT,
    "parked_at": INSTANT,
    "attempts": WHOLE,
    "reason": TEXT,
    "error": TEXT,
    "traceback": none_or(TEXT),
    "run_id": TEXT,
}

SCHEMAS: dict[str, Schema] = {
    "Problem": {
        "type": "object",
        "description": "RFC 9457; `code` is stable and made for programs.",
        "properties": {
            "type": TEXT,
            "title": TEXT,
            "status": WHOLE,
            "detail": TEXT,
            "code": TEXT,
            "instance": TEXT,
            "error": TEXT,
            "remote_type": TEXT,
            "traceback": TEXT,
        },
        "required": ["type", "title", "status", "detail", "code", "instance"],
    },
    "Class": thing(
        **{"class": TEXT},
        is_reserved=TRUTH,
        objects=none_or(WHOLE),
        timers=none_or(WHOLE),
        parked=none_or(WHOLE),
        is_known=none_or(TRUTH),
        methods=none_or(many(thing(name=TEXT, is_reader=TRUTH))),
    ),
    "ObjectRow": thing(
        **OBJECT,
        rows=WHOLE,
        bytes=WHOLE,
        created_at=INSTANT,
        active_at=INSTANT,
        next=none_or(thing(timer=TEXT, due_at=INSTANT)),
    ),
    "Object": thing(
        **OBJECT,
        created_at=INSTANT,
        active_at=INSTANT,
        rows=WHOLE,
        bytes=WHOLE,
        timers=many(ref("Timer")),
        timers_are_cut=TRUTH,
        parked=many(ref("Parked")),
        ledger=many(ref("Entry")),
        ledger_is_cut=TRUTH,
        state=ANY,
        storage={"type": "object"},
        storage_is_cut=TRUTH,
        machine=none_or({"type": "object"}),
        schedules=many(ref("Schedule")),
        schedules_are_cut=TRUTH,
    ),
    "Stored": thing(key=TEXT, value=ANY, bytes=WHOLE),
    "Timer": thing(**TIMER),
    "Entry": thing(
        **OBJECT,
        number=WHOLE,
        timer=TEXT,
        words=TEXT,
        schedule=none_or(TEXT),
        verdict=VERDICT,
        covers=WHOLE,
        nominal_at=INSTANT,
        fired_at=INSTANT,
        finished_at=INSTANT,
        lateness_ms=WHOLE,
        attempt=WHOLE,
        error=none_or(TEXT),
        run_id=TEXT,
        node=TEXT,
    ),
    "Schedule": thing(**SCHEDULE),
    "Run": RUN,
    "Standing": thing(**OBJECT, schedule=TEXT, state=TEXT, zone=TEXT, verdicts=many(ref("Run"))),
    "History": thing(**OBJECT, schedule=TEXT, rows=many(ref("Run")), cursor=none_or(TEXT)),
    "Times": thing(**OBJECT, schedule=TEXT, times=many(INSTANT)),
    "Cancelled": thing(cancelled=TRUTH),
    "Triggered": thing(run_ids=many(TEXT)),
    "Backfilled": thing(
        dry_run=TRUTH, rows=many(thing(nominal_at=INSTANT, local=TEXT, verdict=none_or(VERDICT), why=TEXT))
    ),
    "Job": thing(
        id=TEXT,
        **OBJECT,
        method=TEXT,
        state={"type": "string", "enum": list(STATES)},
        due_at=INSTANT,
        created_at=none_or(INSTANT),
        job_key=none_or(TEXT),
        attempt=WHOLE,
        priority=WHOLE,
        tags=many(TEXT),
        metadata=none_or({"type": "object"}),
        depends_on=many(TEXT),
        batch=none_or({"type": "object"}),
        result=ANY,
        left_out=WHOLE,
        error=none_or(TEXT),
        run_id=none_or(TEXT),
    ),
    "JobBatch": thing(rows=many(ref("Job")), then={"anyOf": [ref("Job"), {"type": "null"}]}),
    "JobCancelled": thing(id=TEXT, cancelled=TRUTH),
    "Parked": thing(**PARKED),
    "Redriven": thing(
        rows=many(
            thing(
                number=WHOLE,
                **{"class": none_or(TEXT), "key": none_or(TEXT)},
                timer=none_or(TEXT),
                ok=TRUTH,
                problem=none_or(TEXT),
            )
        )
    ),
    "Node": thing(
        node=TEXT,
        state=TEXT,
        store=TEXT,
        address=TEXT,
        cluster=TEXT,
        version=WHOLE,
        about=TEXT,
        joined_at=INSTANT,
        lease_until=INSTANT,
        lease_ms=WHOLE,
        lease_length_ms=WHOLE,
        is_draining=TRUTH,
        is_here=none_or(TRUTH),
        shards=many(WHOLE),
        status=none_or({"type": "object"}),
    ),
    "Draining": thing(node=TEXT, is_draining=TRUTH),
    "Hit": thing(kind=TEXT, title=TEXT),
    "Audit": thing(
        number=WHOLE,
        at=INSTANT,
        kind=TEXT,
        actor=none_or(TEXT),
        act=none_or(TEXT),
        target=none_or(TEXT),
        detail={"type": "object"},
        outcome=none_or(TEXT),
        error=none_or(TEXT),
        count=WHOLE,
        ended_at=none_or(INSTANT),
    ),
    "Health": {
        "type": "object",
        "properties": {"status": TEXT, "reason": TEXT, "unreached": WHOLE},
        "required": ["status"],
    },
    "Result": thing(result=ANY),
    "Svg": TEXT,
    "EventStream": {"type": "string", "description": "Frames with id, event (the kind) and data (JSON)."},
    "ClassPage": page("Class"),
    "ObjectPage": page("ObjectRow"),
    "StoragePage": page("Stored"),
    "TimerPage": page("Timer"),
    "EntryPage": page("Entry"),
    "SchedulePage": page("Schedule"),
    "ParkedPage": page("Parked"),
    "JobPage": page("Job"),
    "NodePage": page("Node", unowned=many(WHOLE), lost={"type": "object"}),
    "HitPage": page("Hit"),
    "AuditPage": page("Audit"),
}
