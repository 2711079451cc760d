"""Forgetting, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.teeth.broken import swapped
from wakeful.jobs.runs import JobRuns
from wakeful.machines.feature import MachineFeature
from wakeful.operations import forgets
from wakeful.runtime import activation, erasure, hibernation, timer_runs
from wakeful.schedules.feature import ScheduleFeature
from wakeful.store.memory import MemoryStore
from wakeful.values.ids import ObjectId


async def _nothing(*_: Any, **__: Any) -> None: ...


def _with_left(name: str, is_of: Callable[[Any, Any, ObjectId], bool]) -> Any:
    """The store leaves that table as it was."""

    def make(erase: Any) -> Any:
        async def broken(self: MemoryStore, node: str, id: ObjectId, epoch: int, **rest: Any) -> bool:
            table = getattr(self.disk, name)
            left = {key: row for key, row in table.items() if is_of(key, row, id)}
            is_done: bool = await erase(self, node, id, epoch, **rest)
            table.update(left)
            return is_done

        return broken

    return swapped(MemoryStore, "erase", make)


def the_ledger_is_left() -> Any:
    """What ran is still on record, with errors that say what they were about."""
    return _with_left("entries", lambda _, entry, target: entry.id == target)


def remembered_answers_are_left() -> Any:
    """A call of the new one is answered with what the old one said."""
    return _with_left("remembered", lambda slot, _, target: slot[0] == target)


def timers_are_left() -> Any:
    """Only the rows go: what is due fires in the new one, and what waits for a failed job waits for ever."""

    async def broken(_turn: Any) -> int:
        return erasure.CLEARED

    return swapped(erasure, "_clear", lambda _: broken)


def who_waits_for_its_jobs_is_not_told() -> Any:
    """They are gone, and those that depend on them wait for ever."""
    return swapped(JobRuns, "on_forgotten", lambda _: _nothing)


def machines_erase_nothing() -> Any:
    """A feature that was left out: children go on under a key that nobody has any more."""
    return swapped(MachineFeature, "erase", lambda _: _nothing)


def schedules_erase_nothing() -> Any:
    """A feature that was left out: other objects still name the one that is forgotten."""
    return swapped(ScheduleFeature, "erase", lambda _: _nothing)


def what_is_half_gone_is_met() -> Any:
    """Whoever comes after a crash finds what was not erased yet."""

    @contextmanager
    def both() -> Iterator[None]:
        with ExitStack() as stack:
            for module in (activation, hibernation, timer_runs):
                stack.enter_context(swapped(module, "resume", lambda _: _nothing))
            yield

    return both()


def the_audit_log_names_it() -> Any:
    """Rows of what operators did to it stay as they were."""
    return swapped(forgets, "_redact", lambda _: _nothing)
