"""Workflows, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

import asyncio
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from tests.teeth.broken import swapped
from wakeful.runtime.activation import Activation
from wakeful.runtime.sideline import Sideline
from wakeful.values.commits import Commit
from wakeful.values.errors import Unavailable
from wakeful.workflows import acts, rehearsal, settlement, tickets, watch
from wakeful.workflows.body import WorkflowBody
from wakeful.workflows.records import STEPS, StepRow


def a_result_in_a_commit_of_its_own() -> Any:
    """How the workflow stands first, then what its steps came to."""

    def make(submit: Any) -> Any:
        def broken(self: Activation, commit: Commit) -> int:
            steps = {slot: data for slot, data in commit.puts.items() if slot[1].startswith(STEPS)}
            if not steps:
                return int(submit(self, commit))
            alone = Commit(id=commit.id, shard=commit.shard, epoch=commit.epoch, now=commit.now, puts=steps)

            def follow() -> None:
                with suppress(Unavailable):
                    submit(self, alone)

            asyncio.get_running_loop().call_later(0.001, follow)
            rest = {slot: data for slot, data in commit.puts.items() if slot not in steps}
            return int(submit(self, replace(commit, puts=rest)))

        return broken

    return swapped(Activation, "submit", make)


def the_second_of_two_equal_names_answers_the_first() -> Any:
    """A step is known by its name alone, and the last that had it is it."""

    def make(known: Any) -> Any:
        def broken(self: WorkflowBody, ordinal: int, kind: str, name: str, count: int) -> StepRow | None:
            row: StepRow | None = known(self, ordinal, kind, name, count)
            same = [
                one for one in self._rows.values() if (one.kind, one.name) == (kind, name) and one.value is not None
            ]
            if row is not None and row.value is not None and same:
                row.value = same[-1].value
            return row

        return broken

    return swapped(WorkflowBody, "_known", make)


def an_event_that_came_early_is_lost() -> Any:
    """Nobody waits for it, so it is nothing."""
    return swapped(acts, "keep_event", lambda _: lambda *_args: None)


def what_undoes_a_step_runs_twice() -> Any:
    """Each undo is asked for once more."""

    def make(undo: Any) -> Any:
        async def broken(self: WorkflowBody) -> None:
            self.undos = [op for op in self.undos for _ in range(2)]
            await undo(self)

        return broken

    return swapped(WorkflowBody, "_undo", make)


def what_undoes_runs_first_to_last() -> Any:
    """In the order in which it was done."""

    def make(undo: Any) -> Any:
        async def broken(self: WorkflowBody) -> None:
            self.undos.reverse()
            await undo(self)

        return broken

    return swapped(WorkflowBody, "_undo", make)


def results_are_handed_over_in_the_order_of_asking() -> Any:
    """A body that runs again is handed what it had as it asked for it, not as it came."""

    def make(init: Any) -> Any:
        def broken(self: WorkflowBody, *args: Any) -> None:
            init(self, *args)
            self._todo.sort(key=lambda row: row.ordinal)

        return broken

    return swapped(WorkflowBody, "__init__", make)


def changed_code_is_not_looked_at() -> Any:
    """What the body asks for is taken for what its record has."""
    return swapped(WorkflowBody, "stop", lambda _: lambda self, why: None)


def a_body_does_not_begin_where_one_that_was_dropped_still_ends() -> Any:
    """The timer is under way, so there is nothing to begin."""
    return swapped(Sideline, "stop", lambda _: lambda self, *_timer: None)


def a_wait_that_was_left_keeps_its_event() -> Any:
    """An event that ended a wait which the body has given up is gone with it."""
    return swapped(settlement, "give_back", lambda _: lambda turn, record, row: None)


def a_retry_forgets_only_the_step_that_failed() -> Any:
    """What the failure led to stays in the record."""

    def broken(rows: list[StepRow], by: Any) -> list[StepRow]:
        gone = set(by)
        return [row for row in rows if row.ordinal not in gone]

    return swapped(acts, "cut", lambda _: broken)


def a_workflow_that_ends_keeps_its_place() -> Any:
    """Nothing is said to its queue."""
    return swapped(tickets, "leave", lambda _: lambda turn, record: None)


def a_queue_is_asked_after_the_commit() -> Any:
    """It lies down first, and asks its queue once that is on disk: killed between the two it waits for ever."""

    async def ask(activation: Any, sends: Any) -> None:
        with suppress(Unavailable):
            await activation.settle()
            await activation.node.add_timers(sends)

    def make(join: Any) -> Any:
        def broken(turn: Any, record: Any) -> None:
            before = list(turn.sends)
            join(turn, record)
            late, turn.sends = [one for one in turn.sends if one not in before], before
            activation = turn.activation
            turn.then = [*turn.then, lambda: activation.node.keep(asyncio.ensure_future(ask(activation, late)))]

        return broken

    return swapped(tickets, "join", make)


def a_watcher_goes_on_behind_the_next() -> Any:
    """What was published while it was not looking is passed over."""

    def make(look: Any) -> Any:
        async def broken(ctx: Any, run: int | None, since: int) -> Any:
            return await look(ctx, run, since + 2 if since else 0)

        return broken

    return swapped(watch, "look", make)


def a_second_run_is_not_asked_with_what() -> Any:
    """Names of steps alone are compared."""
    return swapped(rehearsal, "_is_same", lambda _: lambda one, other: True)


def one_commit_takes_everything() -> Any:
    """However much it is."""
    return swapped(settlement.Settlement, "_has_room", lambda _: lambda self, size: True)
