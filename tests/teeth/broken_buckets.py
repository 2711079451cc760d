"""The bucket store, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

from typing import Any
from zlib import decompress

from msgspec import json
from msgspec.structs import replace

from tests.teeth.broken import swapped
from wakeful.runtime.arrivals import Tidings
from wakeful.runtime.membership import Membership, Sightings
from wakeful.store.bucket import bootstrap, shared_log, snapshots
from wakeful.store.bucket import store as bucket_store
from wakeful.store.bucket.courtesy import Courtesy
from wakeful.store.bucket.keys import SNAPSHOTS, number_of, slot_key, snapshot_key
from wakeful.store.bucket.records import of_statements, pack, unpack
from wakeful.store.bucket.shared_log import SharedLog
from wakeful.store.bucket.snapshots import Snapshots
from wakeful.store.bucket.storage import Patient, Unsure
from wakeful.store.bucket.store import BucketStore
from wakeful.store.bucket.writer import BucketWriter
from wakeful.store.sqlite.owner import FileOwnership
from wakeful.store.sqlite.store import SqliteStore
from wakeful.values.errors import StoreDown


def no_floor_is_looked_at() -> Any:
    """Who stood still believes in a slot that had been filled and removed."""
    return swapped(SharedLog, "_check_place", lambda _: lambda self, slot, is_in: None)


def asked_often_enough() -> Any:
    """A create of which nobody heard, and which is not there after many looks, is said not to have been done."""

    def make(create_or_get: Any) -> Any:
        def broken(self: Patient, key: str, data: bytes) -> Any:
            try:
                if self.storage.create(key, data):
                    return data
            except Unsure:
                for _ in range(12):
                    there = self.get(key)
                    if there is not None:
                        return there
                raise StoreDown("it was not done") from None
            return create_or_get(self, key, data)

        return broken

    return swapped(Patient, "create_or_get", make)


def leases_end_by_the_clock_on_the_wall() -> Any:
    """When a node was last seen to renew its lease is taken from a clock that can be set."""

    def make(_: Any) -> Any:
        def broken(self: Sightings, rows: Any, now: int) -> Any:
            self._ticks = lambda: now * 1_000_000
            return judge(self, rows, now)

        return broken

    judge = Sightings.judge
    return swapped(Sightings, "judge", make)


def long_dead_by_its_own_clock() -> Any:
    """A node that starts believes at once that all those died long ago whose clocks are far behind its own."""
    return swapped(Membership, "_await_strays", lambda _: _await_nobody)


async def _await_nobody(self: Membership) -> None:
    """They had their time."""


def a_death_is_told_to_nobody() -> Any:
    """Who has the local file of a node that died keeps that for itself."""
    return swapped(bucket_store, "_END_LEASE", lambda statement: statement.replace("-lease_until", "lease_until"))


def whoever_closes_has_left() -> Any:
    """A node that was stopped while the bucket was away is taken to have released what it had."""

    def make(release: Any) -> Any:
        def broken(self: FileOwnership) -> None:
            self.tell_node("")
            release(self)

        return broken

    return swapped(FileOwnership, "release", make)


def proven_when_the_answer_came() -> Any:
    """That no snapshot had gone further is taken to be known from when the answer was heard, not from when it was asked for."""

    def make(put: Any) -> Any:
        def broken(self: SharedLog, record: Any) -> bool:
            is_in: bool = put(self, record)
            if is_in:
                self.proven_at = self._seconds()
            return is_in

        return broken

    return swapped(SharedLog, "put", make)


def clocks_go_at_one_rate() -> Any:
    """What was proven is believed for as long as slots are kept: by the node's clock, and not by the storage's."""

    def make(check: Any) -> Any:
        def broken(self: SharedLog, slot: int, is_in: bool) -> None:
            if self._seconds() - self.proven_at > 0.97 * snapshots.KEPT_S:
                check(self, slot, is_in)

        return broken

    return swapped(SharedLog, "_check_place", make)


def lists_are_believed() -> Any:
    """The newest snapshot is looked for in a list."""

    def make(_: Any) -> Any:
        def broken(storage: Patient, known: int = 0) -> Any:
            for key in reversed(storage.keys(SNAPSHOTS)):
                manifest = snapshots.read_manifest(storage, number_of(key))
                if manifest is not None:
                    return snapshots.StoredSnapshot(number_of(key), manifest)
            return None

        return broken

    return swapped(shared_log, "newest_snapshot", make)


def a_young_slot_is_removed() -> Any:
    """What a snapshot covers goes at once, also from under those who have just looked."""

    def make(_: Any) -> Any:
        def broken(self: Snapshots, last: Any) -> int:
            return 0 if last is None else last.manifest.slot  # type: ignore[no-any-return]

        return broken

    return swapped(Snapshots, "_floor", make)


def acknowledged_out_of_order() -> Any:
    """Two requests are under way at once, and the second is acknowledged although nobody has heard of the first."""

    def make(put: Any) -> Any:
        def broken(self: SharedLog, record: Any) -> bool:
            if record.count % 5:
                return put(self, record)  # type: ignore[no-any-return]
            self.slot += 1
            try:
                is_in: bool = put(self, record)
            finally:
                self.slot -= 1
            if is_in:
                self._storage.create(slot_key(self.slot), pack(of_statements(self.writer, -record.count, 0, [])))
                self.slot += 1
            return is_in

        return broken

    return swapped(SharedLog, "put", make)


def a_blind_retry_of_a_create() -> Any:
    """A create whose answer was lost is tried again, and what is there then is taken for somebody else's."""

    def make(_: Any) -> Any:
        def broken(self: Patient, key: str, data: bytes) -> bytes:
            if self._try(lambda: self.storage.create(key, data)):
                return data
            there = self.get(key)
            assert there is not None
            return pack(replace(unpack(there, key), writer="?")) if there.startswith(b"WKL2") else there + b" "

        return broken

    return swapped(Patient, "create_or_get", make)


def equal_bodies() -> Any:
    """Two writers give the same bytes, so that both find their own."""

    def make(of_statements: Any) -> Any:
        return lambda writer, count, waited, statements: of_statements("", 0, 0, [])

    return swapped(shared_log, "of_statements", make)


def no_second_check_after_a_lost_race() -> Any:
    """Who lost the slot tries the next one with what it had decided before it knew who won."""

    def make(_: Any) -> Any:
        def broken(self: BucketWriter) -> Any:
            assert self._recorder is not None
            statements = self._recorder.statements
            while not self.log.append(statements):
                self._move()
                self._recorder.db.execute("BEGIN IMMEDIATE")
                for sql, parameters in statements:
                    self._recorder.db.execute(sql, parameters)
            self._recorder.db.execute("UPDATE bucket SET slot = ?", (self.log.slot,))
            self._recorder.db.execute("COMMIT")
            return None

        return broken

    return swapped(BucketWriter, "_publish", make)


def nobody_looks_before_it_says_no() -> Any:
    """A group that wrote nothing is answered by what the local file had."""

    def make(_: Any) -> Any:
        def broken(self: BucketWriter) -> None:
            assert self._recorder is not None
            self._recorder.db.execute("COMMIT")

        return broken

    return swapped(BucketWriter, "_confirm", make)


def nobody_is_asked_to_look() -> Any:
    """What a node wrote for another is left to that one's next look."""

    def make(_: Any) -> Any:
        async def broken(self: Tidings, hints: Any) -> None:
            await self._env.store.tell(hints)

        return broken

    return swapped(Tidings, "tell", make)


def rounds_wait_to_be_asked() -> Any:
    """A round goes by what is in the local file: whoever wrote will have asked to have the rest read."""

    def make(nodes: Any) -> Any:
        async def broken(self: BucketStore) -> Any:
            rows = await SqliteStore.nodes(self)
            if len(rows) < 3:  # before everybody is there it looks, else there is no cluster that could be late
                return await nodes(self)
            self._has_looked = True
            return rows

        return broken

    return swapped(BucketStore, "nodes", make)


def each_hint_is_a_request() -> Any:
    """Whoever is being asked to look is asked beside that, as often as there is something new."""

    def make(tell: Any) -> Any:
        async def broken(self: Tidings, hints: Any) -> None:
            for hint in hints:
                self._asking = {}
                await tell(self, [hint])

        return broken

    return swapped(Tidings, "tell", make)


def everybody_is_asked_to_look() -> Any:
    """Whoever owns the shard."""
    return swapped(Tidings, "tell", lambda tell: lambda self, hints: tell(self, []))


def the_quickest_takes_it_all() -> Any:
    """Nobody leaves a gap."""
    return swapped(Courtesy, "gap_s", lambda _: lambda self, now_s: 0.0)


def a_gap_is_taken_for_the_end() -> Any:
    """Whether there is something behind what seems to be the end is not looked at."""
    return swapped(bootstrap, "_check_whole", lambda _: lambda storage, snapshot, log: None)


def strangers_are_slots() -> Any:
    """Whatever lies about in the prefix is taken for Wakeful's own."""
    return swapped(bootstrap, "is_ours", lambda _: lambda key: True)


def bombs_are_unpacked() -> Any:
    """A chunk becomes as large as it says."""
    return swapped(snapshots, "inflate", lambda _: lambda data, most: decompress(data))


def the_manifest_comes_first() -> Any:
    """A snapshot is announced before its chunks are there."""

    def make(send: Any) -> Any:
        def broken(self: Snapshots, copy: str, position: Any) -> Any:
            real = self._put
            late: list[Any] = []
            self._put = lambda *chunk: late.append(chunk) or len(chunk[2])  # type: ignore[method-assign,func-returns-value]
            try:
                made = send(self, copy, position)
            finally:
                self._put = real  # type: ignore[method-assign]
            for chunk in late:
                real(*chunk)
            return made

        return broken

    return swapped(Snapshots, "_send", make)


def chunks_of_others_are_trusted() -> Any:
    """What this node sent once is not sent again, although somebody else's snapshot has come since, and let it go."""

    def make(send: Any) -> Any:
        def broken(self: Snapshots, copy: str, position: Any) -> Any:
            last = snapshots.newest_snapshot(self._storage, self.number)
            if last is not None:
                self._own = self.number = last.number
            return send(self, copy, position)

        return broken

    return swapped(Snapshots, "_send", make)


def an_old_copy_becomes_the_newest_snapshot() -> Any:
    """A node that stood still makes the next snapshot of what it had, from which on slots are gone already."""

    def make(send: Any) -> Any:
        def broken(self: Snapshots, copy: str, position: Any) -> Any:
            last = snapshots.newest_snapshot(self._storage, self.number)
            slot = position.slot if last is None else max(position.slot, last.manifest.slot)
            made = send(self, copy, position._replace(slot=slot))
            if made is not None and slot != position.slot:
                manifest = replace(made.manifest, slot=position.slot)
                self._storage.put(snapshot_key(made.number), json.encode(manifest))
            return made

        return broken

    return swapped(Snapshots, "_send", make)


def the_file_is_ahead() -> Any:
    """The local file is committed before the bucket has it."""

    def make(_: Any) -> Any:
        def broken(self: BucketWriter) -> None:
            assert self._recorder is not None
            self._recorder.db.execute("COMMIT")
            try:
                self.log.append(self._recorder.statements)
            except BaseException as error:
                raise self._break(error) from None

        return broken

    return swapped(BucketWriter, "_publish", make)
