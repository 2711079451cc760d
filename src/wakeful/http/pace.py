"""Layer 5. How do requests share an event loop with timers and with each other, however many come?

Each pass of the loop must be short, because a due timer waits for a few of them. So requests begin a few to a pass, and
no more of them are young at once than one commit may answer in a pass: when a group of turns is on disk, all who waited
for it go on together. A request that has been under way for longer waits for something else, and does not count. How
many that is, is measured: when passes get long there are fewer, when they are short more again.

Those that have to wait begin asker by asker, so that nobody waits behind all of another's. And while others are about, few
of one are fresh: what has begun is in the way of everybody, whoever is next.
"""

import asyncio
import time
from collections import OrderedDict

from wakeful.policy.shares import Asker, Rounds, Shares, Verdict
from wakeful.security.crowd import Crowding

PASS_S = 0.003  # of work in one pass: a due timer waits for seven of them and more, and should start within 50 ms
STARTS_MAX = 16  # requests that begin in one pass
YOUNG_MAX = 96  # that may go on together
SPARE = 0.5  # how many more, beyond that, of those who have none
CROWD_MAX = 4  # fresh ones of one house while others are about
SHARE_MIN = 0.125  # of all of these, however long passes are: something goes on
YOUNG_S = 0.1
FRESH_MIN_S = (
    0.01  # and twice what those take that are soon answered: one that takes longer waits, and is in nobody's way
)
ABOUT_S = 2.0  # somebody who asked within that time may well ask again
WAITING_MAX = 4_096

HEALTH = "health"  # a house of its own, in whose way nobody is: it asks for next to nothing


class Begun:
    """A request that is under way."""

    __slots__ = ("at_s", "house")

    def __init__(self, house: str, at_s: float) -> None:
        self.house = house
        self.at_s = at_s


class Admission:
    """Lets requests begin, of each asker in the order in which they come."""

    def __init__(
        self,
        crowding: Crowding,
        starts_max: int = STARTS_MAX,
        *,
        young_max: int = YOUNG_MAX,
        crowd_max: int = CROWD_MAX,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._crowding = crowding
        self._starts_max = starts_max
        self._young_max = young_max
        self._crowd_max = crowd_max
        self._places = Shares(waiting_max)
        self._share = 1.0  # how much of these bounds is in force
        self._used_s = 0.0  # what the loop's thread had worked when the last pass began
        self._left = starts_max
        self._waiting: Rounds[tuple[Asker, asyncio.Future[Begun]]] = Rounds()
        self._is_held = False  # all who wait do so because enough of their own house is fresh
        self._young: dict[int, int] = {}  # requests under way, by the tenth of a second in which they began
        self._houses: dict[str, dict[Begun, None]] = {}  # the same by house, the latest at the end
        self._about: OrderedDict[str, float] = OrderedDict()  # when each house asked last, the latest at the end
        self._typical_s = FRESH_MIN_S / 2  # what those take that are soon answered
        self._is_counting = False
        self._look: asyncio.TimerHandle | None = None

    def take(self, asker: Asker) -> Begun | asyncio.Future[Begun]:
        """Begin at once, or when the future says so; `ended` wants what it is. `TooMany` or `Unavailable` when too many wait."""
        loop = asyncio.get_running_loop()
        if not self._is_counting:
            self._count()
        now_s = loop.time()
        self._note_seen(asker.house, now_s)
        may = self._may(asker.house, now_s)
        if may and self._left > 0 and (self._is_held or not self._waiting):
            self._left -= 1
            return self._begin(asker.house, now_s)
        verdict = self._places.take(asker)
        if verdict is not Verdict.TAKEN:
            raise self._crowding.refusal(verdict, "requests that wait", self._places, asker)
        self._is_held = (self._is_held or not self._waiting) and not may
        future: asyncio.Future[Begun] = loop.create_future()
        self._waiting.add(asker, (asker, future))
        return future

    async def turn(self, future: asyncio.Future[Begun]) -> Begun:
        """When the future that `take` gave says so; one who gives up meanwhile leaves nothing behind."""
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.end(future.result())
            raise

    def end(self, begun: Begun) -> None:
        """It is answered."""
        at_s, house, young = begun.at_s, begun.house, self._young
        mark = int(at_s / YOUNG_S)
        if mark in young:
            young[mark] -= 1
        others = self._houses[house]
        del others[begun]
        if not others:
            del self._houses[house]
        took_s = asyncio.get_running_loop().time() - at_s
        if took_s < YOUNG_S:
            self._typical_s += (took_s - self._typical_s) / 16
        if self._waiting:
            self._is_held = False
            if not self._is_counting:
                self._count()

    @property
    def is_at_rest(self) -> bool:
        """Nothing of it is left in the loop."""
        return not self._is_counting and self._look is None

    @property
    def is_full(self) -> bool:
        """Nobody at all could wait."""
        return self._places.is_full

    def _begin(self, house: str, now_s: float) -> Begun:
        mark = int(now_s / YOUNG_S)
        self._young[mark] = self._young.get(mark, 0) + 1
        begun = Begun(house, now_s)
        self._houses.setdefault(house, {})[begun] = None
        return begun

    def _count(self) -> None:
        """Look at every pass from the next one on."""
        self._is_counting = True
        self._used_s = time.thread_time()
        asyncio.get_running_loop().call_soon(self._next_pass)

    def _room(self, now_s: float) -> int:
        """How many more may be young now."""
        now = int(now_s / YOUNG_S)
        if len(self._young) > 2:
            self._young = {mark: count for mark, count in self._young.items() if mark >= now - 1}
        return int(self._young_max * self._share) - self._young.get(now, 0) - self._young.get(now - 1, 0)

    def _may(self, house: str, now_s: float) -> bool:
        """Whether one more of this house may begin, as far as those go that have."""
        room = self._room(now_s)
        begun = self._houses.get(house)
        if not begun:
            return room > -int(self._young_max * self._share * SPARE)
        if room <= 0:
            return False
        if not self._are_others_about(house, now_s):
            return True
        left, since_s = max(1, int(self._crowd_max * self._share)), now_s - max(FRESH_MIN_S, 2 * self._typical_s)
        for one in reversed(begun):
            if one.at_s <= since_s:
                return True
            left -= 1
            if not left:
                return False
        return True

    def _note_seen(self, house: str, now_s: float) -> None:
        about = self._about
        if about and next(reversed(about)) == house:  # as it mostly is
            about[house] = now_s
            return
        about[house] = now_s
        about.move_to_end(house)
        while now_s - next(iter(about.values())) > ABOUT_S:
            about.popitem(last=False)

    def _are_others_about(self, house: str, now_s: float) -> bool:
        for other, at_s in reversed(self._about.items()):
            if now_s - at_s > ABOUT_S:
                return False
            if other not in (house, HEALTH):
                return True
        return False

    def _next_pass(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._measure()
        starts = max(1, int(self._starts_max * self._share))
        was_used, self._left = self._left < starts, starts
        while self._waiting and self._left:
            house = next((one for one in self._waiting if self._may(one, now_s)), None)
            if house is None:
                self._is_held = self._room(now_s) > 0
                break
            asker, future = self._waiting.next(house)
            self._places.give(asker)
            if not future.done():
                future.set_result(self._begin(house, now_s))
                self._left -= 1
        if self._waiting and self._left == starts:
            # Until one ends, or those that are under way are young no more.
            self._is_counting = False
            if self._look is None:
                self._look = loop.call_later(self._patience_s(now_s), self._grown)
            return
        self._is_counting = bool(self._waiting) or self._left < starts or was_used
        if self._is_counting:
            loop.call_soon(self._next_pass)

    def _patience_s(self, now_s: float) -> float:
        """When to look again though none has ended."""
        return FRESH_MIN_S if self._room(now_s) > 0 else YOUNG_S

    def _measure(self) -> None:
        """Fewer after a long pass, by and by more after short ones. By the thread's own time: others' is not ours to save."""
        used_s = time.thread_time()
        length_s, self._used_s = used_s - self._used_s, used_s
        if length_s > PASS_S:
            self._share = max(SHARE_MIN, self._share * (0.7 if length_s < 2 * PASS_S else 0.5))
        else:
            self._share = min(1.0, self._share + 0.03)

    def _grown(self) -> None:
        self._look = None
        if self._waiting and not self._is_counting:
            self._count()
