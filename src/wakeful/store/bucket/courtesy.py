"""Layer 2, pure. Whose turn is it to write, when several nodes want the next slot?

Who has just written is always quicker than who has to read that first, and would be so for ever. So a node that knows of
others leaves a gap after a while; and after a few slots of its own while others say in their records that they had to wait.
"""

COMPANY_S = 15.0  # others that wrote within that time are there: each renews its lease more often
RUN_MAX = 16  # slots in a row, with company of which nobody is known to wait
ALONE_MAX = 64  # and with nobody: who has just come can't be heard before it has had a slot
BURST = 4  # while others wait: each slot behind the first takes one trip, to change hands takes two or three
POLITE_SLOTS = 12  # for so many slots of one's own after somebody said that it had waited
GAP_TRIPS = 2.5  # what a loser needs: to hear that it lost, to read the slot, to reach the next one


class Courtesy:
    """One node's manners. Times are seconds of a clock that is never set."""

    def __init__(self) -> None:
        self._met: dict[str, float] = {}  # others, and when they were last heard of
        self._waiting: dict[str, int] = {}  # those that had to wait, and for how many more slots of ours it is heeded
        self._run = 0
        self._trip_s = 0.0  # of a request, on average

    def note_trip(self, took_s: float) -> None:
        self._trip_s += (took_s - self._trip_s) / 4 if self._trip_s else took_s

    def note_own(self) -> None:
        """A slot is ours."""
        self._run += 1
        self._waiting = {writer: left - 1 for writer, left in self._waiting.items() if left > 1}

    def note_other(self, writer: str, waited: int, now_s: float) -> None:
        """A slot is somebody else's, who was too late for so many before it."""
        self._run = 0
        self._met[writer] = now_s
        if waited:
            self._waiting[writer] = POLITE_SLOTS

    def gap_s(self, now_s: float) -> float:
        """For how long to leave the next slot to others: long enough for each that is waiting to have one."""
        self._met = {writer: at for writer, at in self._met.items() if now_s - at <= COMPANY_S}
        waiting = sum(writer in self._met for writer in self._waiting)
        if self._run < (BURST if waiting else RUN_MAX if self._met else ALONE_MAX):
            return 0.0
        self._run = 0
        return GAP_TRIPS * max(1, waiting) * self._trip_s
