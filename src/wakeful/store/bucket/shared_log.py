"""Layer 2. The one log of a prefix: how does a record get in, and what have others put there?

Slots are filled in order, each by a create: of all nodes that want the next one, one has it, and whoever has not reads
what is there before it tries the slot behind it. So each record is written by somebody who knew everything before it.

Slots that a snapshot has long covered are removed, and a node that stood still could create one anew, or read what such a
node left there. So: what is removed was there for `KEPT_S` at least, by the storage's clock, and a manifest that is never
removed says up to where (`floor`). Who has not proven within `PROOF_S` of its own clock that no snapshot had its next slot
looks at the newest manifest after what it did, and believes in it only above the floor.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from wakeful.store.bucket.courtesy import BURST, Courtesy
from wakeful.store.bucket.keys import slot_key
from wakeful.store.bucket.records import Record, Statement, of_statements, pack, unpack
from wakeful.store.bucket.snapshots import newest_snapshot
from wakeful.store.bucket.storage import Patient
from wakeful.values.errors import OutcomeUnknown, StoreDown, StoreError

WINDOW = 16  # slots that are read at once, by who is far behind: twice as many each time, since requests cost
NEAR = BURST + 1  # slots that are read at once by who has just lost one
BATCH = 256  # records in memory
VALUES_MAX = 250_000  # in these: twenty thousand jobs, and ten megabytes
PROOF_S = 15.0  # against `snapshots.KEPT_S`: two clocks that go wrong by the factor of a hundred would still do


class FellBehind(StoreDown):
    """What this node should read next is gone: it begins anew from a snapshot."""

    default_code = "store.lag"


class SharedLog:
    """What one node knows of the log, and its way of writing to it. `seconds` is a clock that is never set.

    The node has applied everything up to `slot`; `proven_at` is a moment at which no snapshot went further than that.
    """

    def __init__(
        self, storage: Patient, writer: str, slot: int, *, seconds: Callable[[], float], proven_at: float, known: int
    ) -> None:
        self._storage = storage
        self._seconds = seconds
        self._known = known  # a snapshot that is there
        self._count = 0
        self.writer = writer
        self.slot = slot
        self.proven_at = proven_at
        self.waited = 0  # slots that others had, since the last one of ours
        self.bytes = 0  # of all records since
        self.courtesy = Courtesy()
        self._rival: tuple[int, bytes] | None = None  # what took the slot that we wanted last

    def append(self, statements: Sequence[Statement]) -> bool:
        """Durable in the next slot on True; False: that is somebody else's, and nothing is written."""
        self._count += 1
        return self.put(of_statements(self.writer, self._count, self.waited, statements))

    def put(self, record: Record) -> bool:
        """As `append`; no other record of this writer has its count."""
        slot, data, began = self.slot + 1, pack(record), self._seconds()
        there = self._storage.create_or_get(slot_key(slot), data)
        is_in = there == data
        took_s = self._seconds() - began
        self._check_place(slot, is_in)
        if not is_in:
            self.waited += 1
            self._rival = (slot, there)
            return False
        self.courtesy.note_trip(took_s)
        self.courtesy.note_own()
        self.slot, self.proven_at, self.waited = slot, began, 0
        self.bytes += len(data)
        return True

    def read(self) -> tuple[list[tuple[int, Record]], bool]:
        """What comes after our slot, and whether that was all. Apply it, and `advance`.

        What took the slot that was wanted is known already.
        """
        slots: list[tuple[int, Record]] = []
        count, values, is_end = 1, 0, False
        rival, self._rival = self._rival, None
        if rival is not None and rival[0] == self.slot + 1:
            self.bytes += len(rival[1])
            slots.append((rival[0], unpack(rival[1], slot_key(rival[0]))))
            count = NEAR
        while not is_end and len(slots) < BATCH and values < VALUES_MAX:
            began = self._seconds()
            first = self.slot + 1 + len(slots)
            keys = [slot_key(slot) for slot in range(first, first + count)]
            for slot, key, data in zip(
                range(first, first + count), keys, self._storage.each(self._storage.get, keys), strict=True
            ):
                if data is None:
                    is_end = True
                    break
                record = unpack(data, key)
                self.bytes += len(data)
                slots.append((slot, record))
                values += sum(len(some) for _, some in record.rows)
                if values >= VALUES_MAX:
                    break
            count = min(WINDOW, 2 * count)
        self._check_place(self.slot + 1, is_in=False)
        if is_end:
            self.proven_at = began
        return slots, is_end

    def advance(self, found: Sequence[tuple[int, Record]]) -> None:
        """These are applied."""
        now = self._seconds()
        for slot, record in found:
            self.slot = slot
            if record.writer != self.writer:
                self.courtesy.note_other(record.writer, record.waited, now)

    def gap_s(self) -> float:
        """For how long to let others go first."""
        return self.courtesy.gap_s(self._seconds())

    def _check_place(self, slot: int, is_in: bool) -> None:
        """Pass when that slot, which was written or read just now, was none that had been removed."""
        if self._seconds() - self.proven_at <= PROOF_S:
            return
        place, began = self._storage.storage.place, self._seconds()
        try:
            snapshot = newest_snapshot(self._storage, self._known)
        except (StoreDown, StoreError) as error:
            if is_in:
                raise OutcomeUnknown(f"whether slot {slot} of {place} counts can't be told: {error}") from None
            raise
        if snapshot is not None:
            self._known = snapshot.number
            if snapshot.manifest.slot < slot:
                self.proven_at = began
            if snapshot.manifest.floor < slot:
                return
        if not is_in:
            raise FellBehind(f"this node stood still while others wrote to {place}; its local copy is made anew")
        with suppress(StoreDown):
            self._storage.delete([slot_key(slot)])  # nobody reads it: all that is there is in a snapshot
        raise OutcomeUnknown(f"this node stood still while others wrote to {place}: slot {slot} had long been filled")
