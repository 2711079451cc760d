"""Layer 5. How does `wakeful dev` know what fired? It reads the ledger rows of each commit once they are on disk."""

from collections.abc import Sequence
from typing import Any

from wakeful.cli.output import length
from wakeful.cli.terminal_log import Say
from wakeful.store.protocol import Outcome, Store
from wakeful.values.commits import Commit
from wakeful.values.runs import Entry
from wakeful.views.timer_names import name_words, schedule_named

# Said by this module in better words than the log's.
HUSHED = frozenset({"timer.failed", "timer.parked"})


class TellingStore:
    """A store that says a line for every run, failure, parking and redrive that it made durable."""

    def __init__(self, inner: Store, say: Say) -> None:
        self._inner = inner
        self._say = say

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        outcomes = await self._inner.commit(node, commits)
        for commit, outcome in zip(commits, outcomes, strict=True):
            if outcome is None and (commit.entries or commit.unparks):
                self._tell(commit)
        return outcomes

    def _tell(self, commit: Commit) -> None:
        for entry in commit.entries:
            if entry.verdict == "run":
                self._ran(entry)
            elif entry.verdict == "failed":
                self._failed(entry, commit)
            else:
                self._left_out(entry)
        for parked in commit.parks:
            name = name_words(parked.timer.name)
            text = f"{parked.timer.id} {name} after {parked.attempts} attempts; see wakeful parked, wakeful redrive"
            self._say.event("parked", text, object=str(parked.timer.id), timer=parked.timer.name)
        if commit.unparks:
            self._say.event(
                "redriven",
                f"{commit.id} {name_words(commit.sets[0].name) if commit.sets else ''}",
                object=str(commit.id),
            )

    def _ran(self, entry: Entry) -> None:
        late = entry.fired_at - entry.nominal_at
        notes = [f"{length(late)} late"] if late >= 10 else []
        notes += [f"on retry {entry.attempt}"] if entry.attempt else []
        took = entry.finished_at - entry.fired_at
        notes += [f"took {length(took)}"] if took >= 100 else []
        notes += [f"for {entry.missed} missed"] if entry.missed > 1 else []
        text = f"{entry.id} {name_words(entry.name)}{_in_brackets(notes)}"
        self._say.event("ran", text, object=str(entry.id), timer=entry.name)

    def _left_out(self, entry: Entry) -> None:
        """An occurrence that did not run; `wakeful why` says why."""
        late = entry.fired_at - entry.nominal_at
        notes = [f"{length(late)} late"] if late >= 1_000 else []
        notes += [f"{entry.covers:,} of them"] if entry.covers > 1 else []
        text = f"{entry.id} {name_words(entry.name)}{_in_brackets(notes)}"
        self._say.event(entry.verdict, text, object=str(entry.id), timer=entry.name, covers=entry.covers)

    def _failed(self, entry: Entry, commit: Commit) -> None:
        # A schedule's next occurrence is set in the same commit; the one that is tried again has an attempt behind it.
        names = (entry.name, f"run:{schedule_named(entry.name)}@")
        again = next((t for t in commit.sets if t.name.startswith(names) and t.attempt == entry.attempt + 1), None)
        notes = [f"attempt {entry.attempt + 1}"]
        notes += [f"again in {length(again.due_at - commit.now)}"] if again is not None else []
        text = f"{entry.id} {name_words(entry.name)}{_in_brackets(notes)}: {entry.error}"
        self._say.event("failed", text, object=str(entry.id), timer=entry.name, error=entry.error)


def _in_brackets(notes: list[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""
