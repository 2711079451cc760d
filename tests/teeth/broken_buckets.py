"""The bucket store, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

from typing import Any

from tests.teeth.broken import swapped
from wakeful.store.bucket import log, owners, recovery, snapshots
from wakeful.store.bucket.keys import log_key
from wakeful.store.bucket.log import SessionLog
from wakeful.store.bucket.snapshots import Snapshots
from wakeful.store.bucket.storage import Patient, newest
from wakeful.store.bucket.writer import BucketWriter


def no_seal() -> Any:
    """Who takes over reads to the end, and leaves the former owner's log open."""

    def make(seal: Any) -> Any:
        def broken(storage: Patient, session: int, after: int, by: str) -> int:
            return newest(lambda slot: log._is_record(storage.get(log_key(session, slot))), after) + 1

        return broken

    return swapped(log, "seal", make)


def a_trimmed_seal() -> Any:
    """What is left of a session when a newer one has a snapshot goes as a whole."""
    return swapped(snapshots, "_after_seal", lambda _: lambda storage, keys: keys)


def acknowledged_out_of_order() -> Any:
    """Two requests are under way at once, and the second is acknowledged although nobody has heard of the first."""

    def make(append: Any) -> Any:
        def broken(self: SessionLog, statements: Any) -> None:
            self.slot += 1
            append(self, statements)
            self.slot -= 1
            if not self._storage.create(log_key(self.session, self.slot), log.pack([])):
                raise log.SealedLog("sealed")
            self.slot += 1

        return broken

    return swapped(SessionLog, "append", make)


def a_blind_retry_of_a_create() -> Any:
    """A create whose answer was lost is tried again, and what is there then is taken for somebody else's."""

    def make(_: Any) -> Any:
        def broken(self: Patient, key: str, data: bytes) -> bool:
            return self._try(lambda: self.storage.create(key, data))

        return broken

    return swapped(Patient, "create", make)


def equal_bodies() -> Any:
    """Two who want to be the next owner write the same bytes, so both find their own."""

    def make(take: Any) -> Any:
        def broken(storage: Patient, token: str, **more: Any) -> Any:
            return take(storage, "owner", **more)

        return broken

    return swapped(owners, "take", make)


def a_gap_is_taken_for_the_end() -> Any:
    """Whether a newer snapshot has covered what seems to be missing is not looked at."""

    def make(find: Any) -> Any:
        known: dict[tuple[int, int], Any] = {}

        def broken(storage: Patient, until: int) -> Any:
            asked = (id(storage), until)
            if asked not in known:
                known[asked] = (storage, find(storage, until))  # held, so that no other gets its id
            return known[asked][1]

        return broken

    return swapped(recovery, "newest_snapshot", make)


def a_late_owner_believes_what_it_read() -> Any:
    """It does not look whether somebody came after it, who has removed what it was to read."""
    return swapped(recovery, "_check_owner", lambda _: lambda storage, session: None)


def the_manifest_comes_first() -> Any:
    """A snapshot is announced before its chunks are there."""

    def make(send: Any) -> Any:
        def broken(self: Snapshots, copy: str, position: Any) -> None:
            real = self._put
            late: list[Any] = []
            self._put = lambda chunk: late.append(chunk) or len(chunk[1])  # type: ignore[method-assign,func-returns-value]
            try:
                send(self, copy, position)
            finally:
                self._put = real  # type: ignore[method-assign]
            for chunk in late:
                real(chunk)

        return broken

    return swapped(Snapshots, "_send", make)


def the_log_is_cut_before_the_snapshot() -> Any:
    """What the next snapshot is to cover is removed before it is there."""

    def make(send: Any) -> Any:
        def broken(self: Snapshots, copy: str, position: Any) -> None:
            self._storage.delete([log_key(self._session, slot) for slot in range(1, position.slot + 1)])
            send(self, copy, position)

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
