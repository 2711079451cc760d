"""Machines, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

import asyncio
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from tests.teeth.broken import swapped
from wakeful import machine
from wakeful.machines import bindings, mail, records, steps, timers, watchers
from wakeful.machines.carrier import Carrier
from wakeful.machines.mail import Mail
from wakeful.machines.records import ROW, save
from wakeful.machines.timers import Doings, Runs
from wakeful.machines.watch import Watch
from wakeful.machines.watchers import Watchers
from wakeful.runtime.activation import Activation
from wakeful.runtime.registry import ObjectClass
from wakeful.runtime.sideline import Sideline
from wakeful.runtime.timer_runs import TimerRuns
from wakeful.statechart.effects import Cancel
from wakeful.values.commits import Commit
from wakeful.values.errors import Unavailable


def the_snapshot_in_a_commit_of_its_own() -> Any:
    """Timers and ledger first, then how the machine stands."""

    def make(submit: Any) -> Any:
        def broken(self: Activation, commit: Commit) -> int:
            if ROW not in commit.puts or not (commit.sets or commit.clears):
                return int(submit(self, commit))
            puts = {ROW: commit.puts[ROW]}
            alone = Commit(id=commit.id, shard=commit.shard, epoch=commit.epoch, now=commit.now, puts=puts)

            def follow() -> None:
                with suppress(Unavailable):
                    submit(self, alone)

            asyncio.get_running_loop().call_later(0.001, follow)
            return int(submit(self, replace(commit, puts={s: data for s, data in commit.puts.items() if s != ROW})))

        return broken

    return swapped(Activation, "submit", make)


def delays_outlive_their_state() -> Any:
    """Leaving a state does not clear its timers; they are only not listened to."""

    def make(carry: Any) -> Any:
        def broken(self: Carrier, effects: Any) -> None:
            carry(self, [effect for effect in effects if not isinstance(effect, Cancel)])

        return broken

    return swapped(Carrier, "carry", make)


def an_invoked_method_is_forgotten_once_it_has_begun() -> Any:
    """Its timer goes when it begins, not when it has answered."""

    def make(run: Any) -> Any:
        async def broken(self: Runs, turn: Any, bound: Any, timer: Any) -> Any:
            ran = await run(self, turn, bound, timer)
            turn.timers.setdefault(timer.name, None)
            return ran

        return broken

    return swapped(Runs, "run", make)


def an_answer_is_applied_without_asking_whose_it_is() -> Any:
    """Whatever comes back is for the actor of that id that there is now."""

    def make(apply: Any) -> Any:
        async def broken(feature: Any, turn: Any, id: str, number: int, **answer: Any) -> Any:
            kept = await steps.present(feature, turn, feature.bound_of(turn.activation.id.cls))
            if kept is not None:
                kept.running = {**kept.running, id: number}
                save(turn, kept)
            return await apply(feature, turn, id, number, **answer)

        return broken

    return swapped(timers, "end_actor", make)


def the_rest_of_the_actions_is_dropped() -> Any:
    """Of the actions of a step the first one runs."""

    def make(run: Any) -> Any:
        async def broken(self: Doings, turn: Any, bound: Any, timer: Any) -> Any:
            ran = await run(self, turn, bound, timer)
            turn.timers[timer.name] = None
            return ran

        return broken

    return swapped(Doings, "run", make)


def an_event_leaves_no_row_in_the_ledger_when_nothing_changed() -> Any:
    """Rows are for what is remarkable."""

    def make(note: Any) -> Any:
        def broken(turn: Any, name: str, fired_at: int, **more: Any) -> None:
            if len(turn.timers) > 0:
                note(turn, name, fired_at, **more)

        return broken

    return swapped(machine, "note", make)


def a_start_that_was_taken_back_happens() -> Any:
    """A stop finds nobody, and that is that."""
    return swapped(mail, "set_gone", lambda set_gone: lambda turn, number: None)


def a_child_is_whoever_has_its_key() -> Any:
    """A start finds a child there, and leaves it at that."""

    def make(start: Any) -> Any:
        async def broken(self: Mail, turn: Any, bound: Any, parent: Any, input: Any) -> Any:
            if await mail.load(turn) is not None:
                return False
            return await start(self, turn, bound, parent, input)

        return broken

    return swapped(Mail, "_start", make)


def restarted_delays_begin_when_somebody_looks() -> Any:
    """Their length is counted from the moment at which the object wakes."""

    def make(resume: Any) -> Any:
        async def broken(feature: Any, turn: Any, bound: Any, kept: Any) -> None:
            ownership, shard = turn.activation.node.ownership, turn.activation.shard
            before = ownership.taken_at[shard]
            ownership.taken_at[shard] = turn.activation.node.clock.now()
            try:
                await resume(feature, turn, bound, kept)
            finally:
                ownership.taken_at[shard] = before

        return broken

    return swapped(steps, "resume", make)


def down_time_is_forgotten() -> Any:
    """A delay is moved in what the machine shows, and its timer stays."""
    return swapped(steps, "set_delays", lambda set_delays: lambda turn, kept: None)


def watchers_are_told_at_once() -> Any:
    """What they see may be undone yet."""

    def make(changed: Any) -> Any:
        def broken(self: Watchers, turn: Any, bound: Any, kept: Any, events: Any) -> None:
            log = turn.activation.watched
            if log is not None:
                log.add(events, watchers.snapshot_of(bound, kept))

        return broken

    return swapped(Watchers, "note_step", make)


def a_deadly_method_waits_for_a_person() -> Any:
    """Its timer is parked, and the chart waits for an answer that never comes."""

    def make(failed: Any) -> Any:
        async def broken(self: Runs, activation: Any, turn: Any, failure: Any) -> Any:
            return await timers.Owner.failed(self, activation, turn, failure)

        return broken

    return swapped(Runs, "failed", make)


def work_beside_turns_begins_again_whatever_runs() -> Any:
    """The store was away, the timer is read again, and the method runs twice at once."""
    return swapped(Sideline, "seq_of", lambda seq_of: lambda self, target, name: None)


def those_beside_a_killer_are_blamed() -> Any:
    """A method that was running when a process died is no suspect any more once it has begun again."""

    def make(_: Any) -> Any:
        async def broken(self: TimerRuns, tried: Any) -> None:
            self._end_try(tried)

        return broken

    return swapped(TimerRuns, "_try_beside", make)


def a_delayed_message_is_for_whoever_has_the_id() -> Any:
    """What is pending knows the id of an actor, and not which start of it was meant."""

    def make(fire: Any) -> Any:
        def broken(chart: Any, snapshot: Any, id: str, now: int = 0) -> Any:
            pending = [{**one, "start": None} for one in snapshot.get("pending") or ()]
            return fire(chart, {**snapshot, "pending": pending}, id, now)

        return broken

    return swapped(timers, "fire", make)


def a_reset_leaves_the_delays_of_the_life_before() -> Any:
    """What it started before goes on: its timers and actors are still there."""
    return swapped(machine, "clear", lambda clear: lambda feature, turn, bound, kept: None)


def callers_outside_reset_by_the_name_of_the_method() -> Any:
    """Whoever may call may wipe machines, and no row says so."""
    return swapped(ObjectClass, "check_outside", lambda check: ObjectClass.check_method)


def a_watch_trusts_the_end_it_knew() -> Any:
    """It does not look whether the machine has begun anew."""

    def make(look: Any) -> Any:
        async def broken(self: Watch, until_s: Any) -> Any:
            return self.snapshot

        return broken

    return swapped(Watch, "_look", make)


def a_callback_begins_once() -> Any:
    """Like what must not run twice: after a crash it is an error."""

    def make(run: Any) -> Any:
        async def broken(self: Runs, turn: Any, bound: Any, timer: Any) -> bool:
            callbacks, bound.callbacks = bound.callbacks, set()
            try:
                return bool(await run(self, turn, bound, timer))
            finally:
                bound.callbacks = callbacks

        return broken

    return swapped(Runs, "run", make)


def a_stop_waits_for_callbacks() -> Any:
    """As for what comes to an end."""

    def make(begin: Any) -> Any:
        def broken(self: Sideline, timer: Any, work: Any, *, is_endless: bool = False) -> None:
            begin(self, timer, work)

        return broken

    return swapped(Sideline, "begin", make)


def actions_do_not_know_who_sent_the_event() -> Any:
    """Whoever it was, it came from outside."""
    return swapped(records.Sender, "pack", lambda pack: lambda self: ["outside", "", None, None])


def branches_that_nothing_reaches_are_taken_as_they_are() -> Any:
    """What JSON.stringify left of a machine is a chart like any other."""
    return swapped(bindings, "refuse_losses", lambda refuse: lambda config: None)


def a_child_machine_that_arrives_begins_from_its_start() -> Any:
    """Its parent comes as it was, and it does not."""

    def make(init: Any) -> Any:
        def broken(self: Carrier, *args: Any, arriving: Any = None, **options: Any) -> None:
            init(self, *args, **options)

        return broken

    return swapped(Carrier, "__init__", make)
