"""Layer 1, pure. For how long is a node believed to live that says nothing, and what follows from that?

A short lease gives the objects of a frozen or cut-off node to others soon; a long one forgives a slow store, a paused
machine or a busy process. Every other interval between nodes is a part of it, so that there is one thing to choose.
What a look costs, and how long a store may be slow, the store knows: its rhythm is the usual one on it.
"""

from dataclasses import dataclass

from wakeful.values.errors import BadOption
from wakeful.values.times import Duration, duration_ms

LEASE_MS = 5_000
# Below it one long turn, or a disk that syncs for a second, makes living nodes suspects.
LEASE_MIN_MS = 2_000
# Above it the objects of a node that froze stand still for longer than anybody waits for an answer.
LEASE_MAX_MS = 60_000
BEAT_MS = 500  # of the links between nodes


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How long the usual lease is on a store, and how often nodes look at each other there."""

    lease_ms: int = LEASE_MS
    # How long a crash stays unnoticed where the database can tell: a round every so often, two small reads.
    round_ms: int = 300


USUAL = Rhythm()


@dataclass(frozen=True, slots=True)
class Lease:
    """How long a node is believed after it was last heard of, with all that is derived from it.

    >>> Lease(5_000).renew_ms, Lease(20_000).renew_ms
    (1500, 1500)
    """

    ms: int = LEASE_MS
    rhythm: Rhythm = USUAL

    @property
    def renew_ms(self) -> int:
        """So old it is renewed: two renewals may fail before it is over. Never later than usual, however long it is: with it
        the clock is measured, and one that runs fast for longer lets timers begin before their time.
        """
        return min(self.ms, self.rhythm.lease_ms) * 3 // 10

    @property
    def round_ms(self) -> int:
        """Between two rounds, when nobody asks for one: two of them at least in the time of a renewal."""
        return min(self.rhythm.round_ms, self.renew_ms // 2)

    @property
    def slow_ms(self) -> int:
        """A round that took so long tells of a store that is slow: others could not renew their leases either."""
        return self.ms // 5

    @property
    def settle_ms(self) -> int:
        """And for so long they are not taken for dead by it."""
        return self.ms * 3 // 5

    @property
    def forget_ms(self) -> int:
        """A node that is gone, owns nothing and can't be seen to be gone is forgotten after this."""
        return self.ms * 12

    @property
    def lock_wait_ms(self) -> int:
        """A renewal waits no longer than this for what only makes it quicker."""
        return self.ms * 2 // 5

    @property
    def known_ms(self) -> int:
        """By then whoever lives has renewed its lease, and that of others is over."""
        return self.ms + self.renew_ms

    @property
    def beats(self) -> int:
        """So many beats of silence end a link: just below the lease, since a process that is late is not dead."""
        return max(2, self.ms * 4 // 5 // BEAT_MS)

    @property
    def near_ms(self) -> int:
        """A renewal that left no more than this was close: one more of its kind, and the lease is over."""
        return self.ms // 5


def lease_of(length: Duration | None, rhythm: Rhythm = USUAL) -> Lease:
    """The lease that somebody asks for, or the usual one of the store; `BadOption` names the bounds."""
    if length is None:
        return Lease(rhythm.lease_ms, rhythm)
    ms = duration_ms(length, what="lease")
    if not LEASE_MIN_MS <= ms <= LEASE_MAX_MS:
        raise BadOption(
            f"lease={length!r}: it must be from {LEASE_MIN_MS // 1000}s to {LEASE_MAX_MS // 1000}s (usually "
            f"{rhythm.lease_ms // 1000}s): a shorter one takes nodes for dead that are only slow, a longer one leaves the "
            "objects of a dead one waiting",
            code="lease.option",
        )
    return Lease(ms, rhythm)
