"""Layer 5. How does `wakeful dev` know what fired? It reads the ledger rows of each commit once they are on disk."""

from collections.abc import Sequence
from typing import Any

from wakeful.cli.printing import length
from wakeful.cli.saying import Say
from wakeful.store.protocol import Outcome, Store
from wakeful.values.commits import Commit
from wakeful.values.runs import Entry

# Said by this module in better words than the log's.
HUSHED = frozenset({"timer.parked"})


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
            else:
                self._failed(entry, commit)
        for parked in commit.parks:
            text = f"{parked.timer.id} {parked.timer.name} after {parked.attempts} attempts; see wakeful parked, wakeful redrive"
            self._say.event("parked", text, object=str(parked.timer.id), timer=parked.timer.name)
        if commit.unparks:
            self._say.event(
                "redriven", f"{commit.id} {commit.sets[0].name if commit.sets else ''}", object=str(commit.id)
            )

    def _ran(self, entry: Entry) -> None:
        late = entry.fired_at - entry.nominal_at
        notes = [f"{length(late)} late"] if late >= 10 else []
        notes += [f"on retry {entry.attempt}"] if entry.attempt else []
        took = entry.finished_at - entry.fired_at
        notes += [f"took {length(took)}"] if took >= 100 else []
        self._say.event("ran", f"{entry.id} {entry.name}{_in_brackets(notes)}", object=str(entry.id), timer=entry.name)

    def _failed(self, entry: Entry, commit: Commit) -> None:
        again = next((timer for timer in commit.sets if timer.name == entry.name), None)
        notes = [f"attempt {entry.attempt + 1}"]
        notes += [f"again in {length(again.due_at - commit.now)}"] if again is not None else []
        text = f"{entry.id} {entry.name}{_in_brackets(notes)}: {entry.error}"
        self._say.event("failed", text, object=str(entry.id), timer=entry.name, error=entry.error)


def _in_brackets(notes: list[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""
