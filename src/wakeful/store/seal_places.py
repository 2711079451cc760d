"""Layer 2, pure. Which parts of what goes into a store are sealed, and to which place does each belong?

Sealed: values, payloads of timers, remembered answers and their fingerprints, errors and tracebacks. Everything that a
store sorts, finds or fences by stays readable: classes, keys, names, times, counts.
"""

from msgspec.structs import replace

from wakeful.values.commits import Commit, Loaded, Remembered, Slot
from wakeful.values.errors import NoKey, Undecodable
from wakeful.values.ids import ObjectId
from wakeful.values.seals import FOREIGN, MAGIC, KeyRing, open_text, seal_text
from wakeful.values.timers import Entry, Parked, Timer


def about_row(id: ObjectId, slot: Slot) -> bytes:
    return f"row\0{id.cls}\0{id.key}\0{slot[0]}\0{slot[1]}".encode("utf-8", "surrogatepass")


def about_timer(id: ObjectId, name: str) -> bytes:
    return f"timer\0{id.cls}\0{id.key}\0{name}".encode()


def about_answer(id: ObjectId, key: str, part: str) -> bytes:
    return f"{part}\0{id.cls}\0{id.key}\0{key}".encode()


def about_text(id: ObjectId, name: str, run_id: str, part: str) -> bytes:
    return f"{part}\0{id.cls}\0{id.key}\0{run_id}\0{name}".encode()


class Sealing:
    """Seals what goes in and opens what comes out, with one ring of keys."""

    def __init__(self, ring: KeyRing) -> None:
        self.ring = ring
        self.is_whole = False  # everything in the store is sealed, so that what is not was put there by somebody else

    # bytes

    def seal(self, data: bytes, about: bytes) -> bytes:
        """Sealed; one that did not open on its way out goes back as it was."""
        return data if data[: len(MAGIC)] == MAGIC else self.ring.seal(data, about)

    def open(self, data: bytes, about: bytes) -> bytes:
        """Opened; one that does not open stays as it is, and whoever decodes it is told.

        Raising here would take the other rows of the page with it, and one bad row must not stop a node.
        """
        if data[: len(MAGIC)] == MAGIC:
            try:
                return self.ring.open(data, about)
            except (NoKey, Undecodable):
                return data
        return FOREIGN if self.is_whole else data

    # going in

    def commit(self, commit: Commit) -> Commit:
        """The same step with nothing readable in it."""
        written = commit.puts or commit.sets or commit.sends or commit.entries or commit.parks or commit.records
        if not written and commit.remember is None:
            return commit  # there is nothing to hide in it: a start note, a clear
        id, seal = commit.id, self.seal
        return Commit(
            id=id,
            shard=commit.shard,
            epoch=commit.epoch,
            now=commit.now,
            wipe=commit.wipe,
            puts={slot: seal(data, about_row(id, slot)) for slot, data in commit.puts.items()},
            deletes=commit.deletes,
            sets=[self.timer(timer) for timer in commit.sets] if commit.sets else commit.sets,
            clears=commit.clears,
            starts=commit.starts,
            sends=[self.timer(timer) for timer in commit.sends] if commit.sends else commit.sends,
            entries=[self.entry(entry) for entry in commit.entries] if commit.entries else commit.entries,
            parks=[self.parked(parked) for parked in commit.parks] if commit.parks else commit.parks,
            unparks=commit.unparks,
            remember=None if commit.remember is None else self.answer(id, commit.remember),
            records=[self.answer(id, one) for one in commit.records] if commit.records else commit.records,
        )

    def timer(self, timer: Timer) -> Timer:
        if timer.payload is None:
            return timer
        return replace(timer, payload=self.seal(timer.payload, about_timer(timer.id, timer.name)))

    def entry(self, entry: Entry) -> Entry:
        if entry.error is None:
            return entry
        about = about_text(entry.id, entry.name, entry.run_id, "error")
        return replace(entry, error=seal_text(self.ring, entry.error, about))

    def parked(self, parked: Parked) -> Parked:
        timer, run_id = parked.timer, parked.run_id
        return replace(
            parked,
            timer=self.timer(timer),
            error=seal_text(self.ring, parked.error, about_text(timer.id, timer.name, run_id, "parked")),
            traceback=seal_text(self.ring, parked.traceback, about_text(timer.id, timer.name, run_id, "traceback")),
        )

    def answer(self, id: ObjectId, answer: Remembered) -> Remembered:
        seal = self.seal
        return Remembered(
            answer.key,
            seal(answer.fingerprint, about_answer(id, answer.key, "fingerprint")),
            seal(answer.answer, about_answer(id, answer.key, "answer")),
            answer.expires_at,
        )

    # coming out

    def opened_rows(self, id: ObjectId, rows: dict[Slot, bytes]) -> dict[Slot, bytes]:
        return {slot: self.open(data, about_row(id, slot)) for slot, data in rows.items()}

    def opened_loaded(self, id: ObjectId, loaded: Loaded) -> Loaded:
        alarm = None if loaded.alarm is None else self.opened_timer(loaded.alarm)
        return Loaded(loaded.info, alarm, self.opened_rows(id, loaded.rows), loaded.complete)

    def opened_timer(self, timer: Timer) -> Timer:
        if timer.payload is None:
            return timer
        return replace(timer, payload=self.open(timer.payload, about_timer(timer.id, timer.name)))

    def opened_entry(self, entry: Entry) -> Entry:
        if entry.error is None:
            return entry
        return replace(
            entry, error=open_text(self.ring, entry.error, about_text(entry.id, entry.name, entry.run_id, "error"))
        )

    def opened_parked(self, parked: Parked) -> Parked:
        timer, run_id = parked.timer, parked.run_id
        return replace(
            parked,
            timer=self.opened_timer(timer),
            error=open_text(self.ring, parked.error, about_text(timer.id, timer.name, run_id, "parked")),
            traceback=open_text(self.ring, parked.traceback, about_text(timer.id, timer.name, run_id, "traceback")),
        )

    def opened_answer(self, id: ObjectId, answer: Remembered) -> Remembered:
        return Remembered(
            answer.key,
            self.open(answer.fingerprint, about_answer(id, answer.key, "fingerprint")),
            self.open(answer.answer, about_answer(id, answer.key, "answer")),
            answer.expires_at,
        )
