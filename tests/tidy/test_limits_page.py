"""The page of limits has every limit, with the value that the code has."""

import importlib
import re
from dataclasses import fields

import pytest

from tests.tidy import tidy_source as source
from wakeful import Limits

PAGE = source.ROOT / "docs" / "limits.md"
# What the row begins with, and where its value is in the code.
ROWS = {
    "pauses that are over": "schedules.steps.PAUSES_MAX",
    "name": "schedules.options.NAME_BYTES_MAX",
    "`tags`, `depends_on`": "schedules.options.TAGS_MAX",
    "`priority`": "schedules.options.PRIORITY_MAX",
    "`max_catch_up` (100 unless set), runs queued": "policy.plan.RUNS_MAX",
    "`parallel`": "policy.plan.PARALLEL_MAX",
    "occurrences judged in one turn": "policy.plan.JUDGED_MAX",
    "verdicts with a ledger row of their own": "policy.plan.SINGLE_MAX",
    "`backfill`": "schedules.records.BACKFILL_MAX",
    "`next(name, n)`": "schedules.schedules.NEXT_MAX",
    "`sharded(key, count)`": "schedules.tenants.SHARDS_MAX",
    "tasks of a `Dag`": "schedules.dag.TASKS_MAX",
    "members of a set": "values.packed.ALIKE_MAX",
    "what a body over HTTP weighs": "values.weights.WEIGHT_MAX",
    "text of a length": "values.times.TEXT_MAX",
    "cron text": "specs.cron_parse.TEXT_MAX",
    "phrase": "specs.phrases.PHRASE_MAX",
    "crons that one phrase stands for": "specs.recurrence._CRONS_MAX",
    "text of a whole spec": "specs.spec.TEXT_MAX",
    "combinations within combinations": "specs.combine.DEPTH_MAX",
    "candidates that `within`": "specs.combine.STEPS_MAX",
    "candidates refused in a row when a spec is made": "specs.combine.FIRST_STEPS_MAX",
    "specs of one `any_of`": "specs.combine.PARTS_MAX",
    "parentheses in the text": "specs.text.GROUPS_MAX",
    "steps of an INTERVAL until": "specs.rrule_walls.STEPS_MAX",
    "steps of INTERVAL while": "specs.rrule.COUNT_STEPS_MAX",
    "rules with COUNT": "specs.combine.COUNTS_MAX",
    "dates of `holidays`": "specs.calendars.DATES_MAX",
    "`rrule`: COUNT": "specs.rrule_parts.COUNT_MAX",
    "`key`": "jobs.ids.KEY_BYTES_MAX",
    "`tags` |": "jobs.job_request.TAGS_MAX",
    "`depends_on`": "jobs.job_request.DEPENDS_MAX",
    "name of a `Queue`": "policy.queue_terms.NAME_BYTES_MAX",
    "`key` of a `Queue`": "policy.queue_terms.KEY_BYTES_MAX",
    "`concurrency`, and jobs in a rate": "policy.queue_terms.COUNT_MAX",
    "let go in one turn of a queue": "queues.timers.ADMITS_MAX",
    "result in a list": "jobs.queries.LISTED_RESULT_MAX",
    "states of a chart": "statechart.state_tree.STATES_MAX",
    "states within states": "statechart.fields.DEPTH_MAX",
    "microsteps until a chart rests": "statechart.chart.MICROSTEPS_MAX",
}
# Bounds of caches and of what is told: nobody can meet them.
INSIDE = {"_BUCKETS_MAX", "_PIECES_MAX", "YEARS_MAX", "_LISTED_MAX", "_TIMES_MAX", "_TOLD_MAX"}
INSIDE |= {"_ALIASES_MAX", "KEPT_MAX"}  # of charts: names that stand for names, and what is worked out once
INSIDE |= {"MARKS_MAX"}  # of the starts that a queue's rate remembers: past it they are counted together
INSIDE |= {"BACKFILL_COUNTED_MAX", "GROWTH_MAX"}  # of what an error says; of a number, past which there are none
INSIDE |= {
    "TENANTS_MAX",
    "READS_MAX",
    "PARKED_MAX",
    "TRIES_MAX",
    "ERROR_CHARS_MAX",
}  # of jobs: of what is told, and of our own reads
# On the page under other words, in other units, or beside another constant.
ELSEWHERE = {"STORAGE_KEY_BYTES_MAX", "VALUE_BYTES_MAX", "WINDOW_MAX_MS", "LENGTH_MIN_MS", "INTERVAL_MAX"}
ELSEWHERE |= {"PERIOD_MAX_MS"}  # of queues, in days
ELSEWHERE |= {"TAG_CHARS_MAX", "LEASE_MIN_MS", "LEASE_MAX_MS"}
ELSEWHERE |= {"ALARM_RETRIES_MAX", "CRASHES_MAX", "PLATFORM_BACKOFF_MAX_MS", "_START_MIN", "SHARDS"}
_MAX = re.compile(r"^(_?[A-Z][A-Z_]*_(?:MAX|MIN)(?:_MS)?) *=", re.MULTILINE)


def row(page: str, begins: str) -> str:
    return next((line for line in page.splitlines() if line.startswith(f"| {begins}")), "")


def wrong(page: str, begins: str, path: str) -> str | None:
    module, _, name = path.rpartition(".")
    value = getattr(importlib.import_module(f"wakeful.{module}"), name)
    cells = row(page, begins).split(" | ")
    return None if len(cells) > 1 and f"{value:,}" in cells[1] else f"{begins}: the code says {value:,}"


@pytest.mark.parametrize("begins", ROWS)
def test_the_page_has_the_value_of_the_code(begins: str) -> None:
    assert wrong(PAGE.read_text(encoding="utf-8"), begins, ROWS[begins]) is None


def test_every_option_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [field.name for field in fields(Limits) if f"`{field.name}`" not in page] == []


def test_every_bound_of_schedules_and_jobs_is_known_here() -> None:
    known = INSIDE | ELSEWHERE | {path.rpartition(".")[2] for path in ROWS.values()}
    found = [
        f"{module}: {name} is not on the page, or not in this test"
        for module, text in source.modules()
        if module.startswith(
            ("wakeful.policy", "wakeful.specs", "wakeful.statechart", "wakeful.schedules", "wakeful.jobs")
        )
        for name in _MAX.findall(text)
        if name not in known
    ]
    assert found == []


def test_the_check_can_fail() -> None:
    assert wrong("| phrase | 300 characters | why |", "phrase", ROWS["phrase"])
    assert wrong("", "phrase", ROWS["phrase"])
    assert wrong("| phrase | 200 characters | why |", "phrase", ROWS["phrase"]) is None
