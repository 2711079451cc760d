"""Layer 4. Would the body of a workflow take the same way once more? `wakeful dev` asks, and says where two runs part.

A clock or dice in a body can't be seen from outside: it shows when the body runs again, perhaps in three weeks. So here
it runs again at once, beside the real one and without doing anything, and what both ask for is compared.
"""

import copy
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wakeful.values.codec import encode
from wakeful.values.errors import BadInput
from wakeful.workflows.body import Op, WorkflowBody

if TYPE_CHECKING:
    from wakeful.workflows.records import StepRow, WorkflowRecord

STEPS_MAX = 300  # of longer bodies nobody asks: each look runs all of them
SHOWN_CHARS = 80
log = logging.getLogger("wakeful.workflow")


def find_parting(
    body: WorkflowBody, record: "WorkflowRecord", main: Callable[[WorkflowBody], Any], steps_max: int
) -> str | None:
    """Where a second run of the body parts from this one, in words; None: it does not."""
    rows: list[StepRow] = [copy.copy(op.row) for op in body.ops.values() if not op.is_new]
    known = replace(record, patches=[*record.patches, *body.new_patches])
    second = WorkflowBody(body.id, known, rows, main, steps_max)
    try:
        second.begin()
        while second.problem is None and second.next_recorded() is not None:
            second.go_on()
        second.check_whole()
        return _compare(body, second)
    finally:
        second.end()


def _compare(first: WorkflowBody, second: WorkflowBody) -> str | None:
    for ordinal, op in first.ops.items():
        other = second.ops.get(ordinal)
        what = f"{op.row.kind} {op.row.label!r} (step {ordinal + 1})"
        if other is None or (other.row.kind, other.row.label) != (op.row.kind, op.row.label):
            asks = "for nothing" if other is None else f"for {other.row.kind} {other.row.label!r}"
            return f"where it asked for {what}, it asks {asks}"
        if other.row.after != op.row.after:
            return f"it asks for {what} at another moment"
        if not _is_same(_asked_with(op), _asked_with(other)):
            return f"{what} is given {_words(_asked_with(op))} and then {_words(_asked_with(other))}"
    if len(second.ops) > len(first.ops):
        more = second.ops[len(first.ops)].row
        return f"it asks for {more.kind} {more.label!r} (step {len(first.ops) + 1}), which it did not before"
    if second.problem is not None:
        return second.problem.message
    if first.is_done != second.is_done:
        return "it ends in one run and not in the other"
    if first.is_done and not _is_same(_end(first), _end(second)):
        return f"it ends with {_words(_end(first))} and then with {_words(_end(second))}"
    return None


def _asked_with(op: Op) -> Any:
    """What the step was asked for with."""
    return [list(op.args), dict(sorted(op.kwargs.items()))] if op.is_function else op.payload


def _end(body: WorkflowBody) -> Any:
    how, what = body.outcome()
    return [how, f"{type(what).__name__}: {what}" if isinstance(what, BaseException) else what]


def _is_same(one: Any, other: Any) -> bool:
    """As far as it can be known: of what can't be encoded two that look alike are."""
    try:
        return encode(one) == encode(other)
    except BadInput:
        return type(one) is type(other)


def _words(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


class Rehearsals:
    """Warns of each place once."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    def check(
        self, body: WorkflowBody, record: "WorkflowRecord", main: Callable[[WorkflowBody], Any], steps_max: int
    ) -> None:
        """Run it once more, and say where it parts."""
        if record.cancelled or body.problem is not None or len(body.ops) > STEPS_MAX:
            return
        where = find_parting(body, record, main, steps_max)
        if where is None or (body.id.cls, where[:SHOWN_CHARS]) in self._said:
            return
        self._said.add((body.id.cls, where[:SHOWN_CHARS]))
        words = (
            "%s: its body was run once more, and took another way: %s; what reads the clock, dice or anything outside "
            "belongs into a step, or use step.now(), step.random(), step.uuid()"
        )
        log.warning(words, body.id, where, extra={"code": "workflow.parted"})
