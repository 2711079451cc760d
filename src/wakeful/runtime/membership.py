"""Layer 3. Who else is there, and who should own what? Asked in rounds, by every node for itself, without a leader.

A round renews the lease, looks at nodes and owners, gives up what was taken, claims what is free and falls to this
node, and hands over what falls to others. Clocks and sessions only decide who tries; the epoch decides who succeeds.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from wakeful.policy.lease import LEASE_MAX_MS, Lease, lease_of
from wakeful.policy.limits import claimable, shards_allowed
from wakeful.policy.placement import place
from wakeful.runtime.contacts import check_back, check_there
from wakeful.runtime.deployment_clock import FollowedClock
from wakeful.runtime.standstill import Standstill
from wakeful.store.protocol import NodeRow, ShardRow
from wakeful.transport.protocol import VERSION, VERSION_OLDEST
from wakeful.values.errors import BadOption, StoreDown, Unavailable, WrongCluster, WrongLease, WrongVersion
from wakeful.values.ids import SHARDS
from wakeful.values.times import Handle

if TYPE_CHECKING:
    from wakeful.runtime.node import Node


# How close do renewals come to the end of the lease, and how long does the store take for one?
#
# A lease that is nearly over at every other renewal is too short for its store or its machine, and nobody sees that
# before it lapses. So the worst of each minute is kept, for an hour.

KEPT_MS = 3_600_000
PART_MS = 60_000  # of which the worst is kept: an hour is sixty-one small rows


class _Part(NamedTuple):
    """The worst of a minute."""

    began_at: int
    slack_ms: int | None  # None: nothing was renewed in it, only entered
    trip_us: int


class Renewals:
    """What was left of the lease each time it was renewed; below zero: for how long it had been over."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._parts: deque[_Part] = deque(maxlen=KEPT_MS // PART_MS + 1)
        self.count = 0

    def add(self, lease_until: int, now: int, *, trip_us: int) -> None:
        """It was renewed by now, which took the store so long; `lease_until` is when it would have been over, 0 at first."""
        slack_ms = lease_until - now if lease_until else None
        self.count += 1
        last = self._parts[-1] if self._parts else None
        if last is not None and 0 <= now - last.began_at < PART_MS:
            slacks = [one for one in (last.slack_ms, slack_ms) if one is not None]
            self._parts[-1] = _Part(last.began_at, min(slacks, default=None), max(last.trip_us, trip_us))
        else:
            self._parts.append(_Part(now, slack_ms, trip_us))

    def failed(self, now: int, *, trip_us: int) -> None:
        """It was tried for so long, in vain: the store was slow, and not this process."""
        self.add(0, now, trip_us=trip_us)
        self.count -= 1

    def slack_ms(self, lease_until: int, now: int, within_ms: int = KEPT_MS) -> int:
        """The least that was left of it within that time; one that is waited for now counts, once it is late."""
        slacks = [part.slack_ms for part in self._within(now, within_ms) if part.slack_ms is not None]
        if lease_until and lease_until - now < self._lease.ms - self._lease.renew_ms:
            slacks.append(lease_until - now)
        return min(slacks, default=self._lease.ms)

    def summary(self, lease_until: int, now: int) -> dict[str, Any]:
        """For people, of the last hour."""
        trips = [part.trip_us for part in self._within(now, KEPT_MS)]
        return {
            "lease_ms": self._lease.ms,
            "slack_ms": self.slack_ms(lease_until, now),
            "near_ms": self._lease.near_ms,
            "trip_us": max(trips, default=0),
            "renewals": self.count,
        }

    def _within(self, now: int, within_ms: int) -> list[_Part]:
        # A minute that began before may reach into it. A clock that was set back leaves minutes of the future.
        return [part for part in self._parts if now - part.began_at < within_ms + PART_MS]


# Until when is a node believed, where no clock is everybody's?
#
# A row says when the lease is over by the clock of the machine that wrote it, which may be wrong by minutes. On a store
# that keeps time all follow its clock, and the row can be taken at its word. On any other, what counts is when this
# process saw the row change, by a clock of its own that nobody can set.

# A lease that was over for longer when this node first looked is not that of a clock which is a little wrong: its node
# died long ago, or one of the two clocks is wrong by more, which half a lease without a renewal will show.
STRAY_MS = 60_000
# Two clocks of one machine differ by less, but for one that was set.
GRAIN_MS = 100


class _Sighting:
    """The lease as the row says it, and when that was new here."""

    def __init__(self, said: int, at_ms: int) -> None:
        self.said = said
        self.at_ms = at_ms
        self.until = 0


class Sightings:
    """When each node was seen to renew its lease. `ticks` are nanoseconds of a clock that only goes on."""

    def __init__(self, ticks: Callable[[], int]) -> None:
        self._ticks = ticks
        self._seen: dict[str, _Sighting] = {}
        self._has_looked = False
        self.strays: set[str] = set()  # nodes that seemed to have died long ago, and were not seen to live since

    def behind_ms(self, row: NodeRow, now: int) -> int:
        """About how far the clock of a node is behind this one's, by the row of it that was read last."""
        return now + row.lease_ms - self._seen[row.node].said

    def judge(self, rows: Sequence[NodeRow], now: int) -> list[NodeRow]:
        """The rows as they were read just now, each with the end of its lease by this node's clock."""
        ticks_ms = self._ticks() // 1_000_000
        seen: dict[str, _Sighting] = {}
        judged = []
        for row in rows:
            sighting = self._seen.get(row.node)
            if sighting is None:  # it may have been renewed a moment ago
                is_gone = not self._has_looked and row.lease_until + STRAY_MS < now  # who came since then lives
                if is_gone:
                    self.strays.add(row.node)
                sighting = _Sighting(row.lease_until, ticks_ms - row.lease_ms if is_gone else ticks_ms)
            elif sighting.said != row.lease_until:
                sighting = _Sighting(row.lease_until, ticks_ms)
                self.strays.discard(row.node)
            until = now + sighting.at_ms + row.lease_ms - ticks_ms
            if abs(until - sighting.until) > GRAIN_MS:  # else it is the same instant, cut to milliseconds once more
                sighting.until = until
            seen[row.node] = sighting
            judged.append(replace(row, lease_until=sighting.until))
        self._seen, self._has_looked = seen, True
        return judged


log = logging.getLogger("wakeful.membership")

DEATH = "node %s%s is taken for dead%s: %s; %d shards of it have no other owner yet, and %d of them fall to this node"
APART = (
    "this machine's clock is about %d s ahead of that of node %s (%s): timers are due by either; set both right (NTP)"
)
HAND_OVER_MS = 1_000  # a shard that stays busy for longer is handed over another time
HAND_OVER_REST_MS = 5_000  # and until then its other objects go on, which wait while it is leaving
HAND_OVER_MAX = 32  # shards on their way at once, so that most of a node goes on undisturbed
# A node that has just come takes shards by and by: 16, then twice as many every 200 ms, all after less than a second.
RAMP_FIRST = 16
RAMP_DOUBLE_MS = 200


class Membership:
    """This node among the others."""

    def __init__(self, node: "Node", *, cluster: str = "", lease: Lease | None = None) -> None:
        self._node = node
        self.cluster = cluster
        self.lease = lease or lease_of(None, node.store.rhythm)
        self.renewals = Renewals(self.lease)
        self.standstill = Standstill(node.clock, self.lease.ms)
        self._sightings = None if node.store.keeps_time or not node.is_clustered else Sightings(node.meter.ticks)
        self.joined_at = 0
        self.lease_until = 0
        self.nodes: dict[str, NodeRow] = {}
        self.owners: list[ShardRow] = []
        self.others: set[str] = set()  # names of nodes that live, by the last round that reached the store
        self.is_draining = False
        self.asks_back = False  # whether the others are asked to dial this node before it joins
        self._renewed_at = 0
        self._slow_until = 0
        self._task: asyncio.Task[None] | None = None
        self._round_at: int | None = None  # when the round that is under way began
        self._is_asked = False  # something changed while a round was under way
        self._rest_ms = self.lease.round_ms  # until the next round, when nobody asks for one
        self._next: Handle | None = None
        self._lapse: Handle | None = None
        self._moves: set[asyncio.Task[None]] = set()
        self._resting: dict[int, int] = {}  # shards that stayed busy, and when to try them again
        self.rounds = 0
        self.lapses = 0  # how often the lease was not renewed in time
        self._is_own_fault = False  # the last time it was not the store that was slow
        self._told_dead: set[str] = set()  # of whom the log has heard, and whose shards have not all an owner again
        self._settled: object = None  # what a round saw that left nothing to do

    # life

    async def start(self) -> None:
        """Join the others, or refuse with the reason; then the first round, so that a lone node owns everything at once."""
        node = self._node
        if isinstance(node.clock, FollowedClock):
            await node.clock.start(node.store)
        self.joined_at = node.clock.now()
        if node.state == "new":
            await self._await_strays()
        company = await self._look_again()
        if node.state == "new":  # later on everyone knows this node, and may be gone
            there = await check_there(
                node,
                company,
                self._look_again if self.asks_back else None,
                lease=self.lease,
                greet=node.routes.greet,
            )
            if self.asks_back and node.address:
                await check_back(node, there, node.routes.ask)
        if not node.is_client:
            await self.renew()
            await node.tidings.tell([])
        await self._round()

    def go_on(self) -> None:
        """Rounds from now on, until `stop`."""
        self._later(self.lease.round_ms)
        self.standstill.start()
        self._node.routes.contacts.start()
        if not self._node.is_client:
            self._on_lapse()  # maybe while it found out what is ours

    def stop(self) -> None:
        """Here and now: what is on its way to the store may arrive or not."""
        self._rest()
        if self._task is not None:
            self._task.cancel()
        self._task = None

    async def finish(self) -> None:
        """No more rounds, for a node that stops: the one under way may be claiming shards, which are handed back then."""
        self._rest()
        while self._task is not None:
            await asyncio.wait([self._task])

    def _rest(self) -> None:
        self.standstill.stop()
        self._node.routes.contacts.stop()
        for handle in (self._next, self._lapse):
            if handle is not None:
                handle.cancel()
        self._next = self._lapse = None
        for task in self._moves:
            task.cancel()

    def look(self) -> None:
        """Something changed: a round now, or right after the one that is under way."""
        if self._node.state != "up":
            return
        if self._task is not None:
            self._is_asked = True
            return
        self._task = asyncio.get_running_loop().create_task(self._rounds())

    async def retire(self) -> None:
        """Tell the others that this node takes nothing more, before it hands over what it has."""
        self.is_draining = True
        self._watch_lease()  # its last turns ask each other
        await self._node.store.drain(self._node.name, True)
        await self._node.tidings.tell([])

    def is_alone(self) -> bool:
        """Nobody else is there to take a shard."""
        return not any(name != self._node.name for name in self._live(self._node.clock.now()))

    def reachable(self) -> list[NodeRow]:
        """The other nodes that this one may ask something."""
        if not self._node.routes.has_links:
            return []
        return [row for name, row in self.nodes.items() if name != self._node.name and row.address]

    def owner_of(self, shard: int) -> NodeRow | None:
        """The node that owns the shard and is believed to live, as the last round saw it."""
        owner = self.owners[shard].owner if self.owners else None
        return None if owner is None else self._live(self._node.clock.now()).get(owner)

    @property
    def waits_ms(self) -> int:
        """How long the store has not answered the round that is under way; 0 when there is none."""
        return 0 if self._round_at is None else self._node.clock.now() - self._round_at

    # rounds

    def _later(self, length_ms: int) -> None:
        if self._next is not None:
            self._next.cancel()
        clock = self._node.clock
        self._next = clock.call_at(clock.now() + length_ms, self.look)

    async def _rounds(self) -> None:
        node = self._node
        try:
            while True:
                self._is_asked, self._rest_ms = False, self.lease.round_ms
                self._round_at = node.clock.now()
                await self._round()
                if not self._is_asked or node.state == "stopping":
                    break
        except Unavailable as error:
            node.store_failed(error)
        except Exception as error:
            log.exception("a round of membership failed", extra={"code": "membership.round"})
            node.store_failed(StoreDown(f"membership failed: {type(error).__name__}: {error}"))
        finally:
            self._task = self._round_at = None
            if node.state == "up":
                self._later(self._rest_ms)

    async def _round(self) -> None:
        node = self._node
        self.rounds += 1
        began_at = node.clock.now()
        age_ms = node.clock.now() - self._renewed_at
        if not 0 <= age_ms < self.lease.renew_ms:
            if node.is_client:
                self._renewed_at = await self._follow()  # by it, the jobs that it schedules are due
            else:
                await self.renew()
        asked_at = node.clock.now()
        rows, owners = await self._read_nodes(), await node.store.owners()
        if node.state == "stopping":
            return  # it takes nothing more
        now = node.clock.now()
        if node.state in ("new", "down") and not node.is_client:
            self._check_leases(rows)  # somebody may have joined since it looked; who joins last sees the other
        if now - began_at >= self.lease.slow_ms:
            # Others could not renew their leases either: they are not taken for dead before they had time to, but for
            # those whose session is gone.
            self._slow_until = now + self.lease.settle_ms
        before = (self.owners, self.nodes.keys())
        self.nodes, self.owners = {row.node: row for row in rows}, owners
        if before[0] != owners or self._settled is None:
            node.ownership.compare(owners)
        if before != (owners, self.nodes.keys()):
            node.routes.on_owners_changed()
        if node.is_client:
            self.others = self._live(now).keys() - {node.name}
            return
        if node.name not in self.nodes:
            await self.renew()  # somebody thought we were gone
            self._is_asked = True
            return
        if node.is_doubted and asked_at < self.lease_until:
            self._is_sure_of_all()
        self.is_draining = self.nodes[node.name].is_draining
        # By then: an answer that took long tells of leases that were renewed since.
        live = self._live(0 if now < self._slow_until else asked_at)
        if len(live) < len(self.nodes) and not await self._is_sure(live, owners):
            return
        self.others = live.keys() - {node.name}
        ours = node.ownership
        seen = (
            owners,
            {name: row.is_draining for name, row in live.items()},
            ours.takes,
            ours.losses,
            len(node.epochs),
        )
        if seen != self._settled:  # nearly always it is as it was, and then a round costs no more than its two reads
            self._settled = None
            if await self._converge(live, owners, now):
                self._settled = seen
        await self._forget_the_gone(live, owners, now)

    async def renew(self) -> None:
        """Renew the lease and follow the clock; when that fails for as long as a lease lasts, the objects are given up."""
        node = self._node
        now = await self._follow()
        until = now + self.lease.ms
        about = NodeRow(
            *(node.name, node.address, self.joined_at, until, node.about, self.cluster, VERSION),
            lease_ms=self.lease.ms,
        )
        began = node.meter.ticks()
        try:
            await node.store.join(about)
        except Unavailable:
            self.renewals.failed(node.clock.now(), trip_us=(node.meter.ticks() - began) // 1_000)
            raise
        self.renewals.add(self.lease_until, node.clock.now(), trip_us=(node.meter.ticks() - began) // 1_000)
        self._renewed_at, self.lease_until = 0 if self._is_doubted() else now, until
        self._watch_lease()

    def _watch_lease(self) -> None:
        if self._lapse is not None:
            self._lapse.cancel()
        self._lapse = self._node.clock.call_at(self.lease_until, self._on_lapse)

    async def _follow(self) -> int:
        """Measure how far the deployment's clock is; the time by it."""
        node, clock = self._node, self._node.clock
        if isinstance(clock, FollowedClock):
            await clock.follow(node.store)
            node.dispatcher.hold(clock.doubt)
        return clock.now()

    def said_of_lease(self) -> dict[str, Any]:
        """How long it is, and how close renewals came to its end."""
        said = self.renewals.summary(self.lease_until, self._node.clock.now())
        return {**said, "stood_ms": self.standstill.longest_ms()}

    async def hold_on(self) -> None:
        """Renew the lease when it is time: for a node that stops, has no rounds any more and runs its last turns."""
        if self._node.clock.now() - self._renewed_at >= self.lease.renew_ms:
            await self.renew()
        await self.make_sure()

    async def _is_sure(self, live: dict[str, NodeRow], owners: Sequence[ShardRow]) -> bool:
        """Nobody is taken for dead by a clock that was set since it was last measured."""
        node, clock = self._node, self._node.clock
        late = {name for name, row in self.nodes.items() if name not in live and row.is_here is not False}
        if not isinstance(clock, FollowedClock) or late.isdisjoint(row.owner for row in owners):
            return True
        await clock.follow(node.store)
        node.dispatcher.hold(clock.doubt)
        if clock.doubt is None and self._live(clock.now()).keys() == live.keys():
            return True
        self._renewed_at, self._settled = 0, None  # look again soon, by the new time
        return False

    def _is_doubted(self) -> bool:
        """The clock is to be measured again with every round."""
        return isinstance(self._node.clock, FollowedClock) and self._node.clock.doubt is not None

    def _on_lapse(self) -> None:
        """Nobody need wait for us any more: what memory holds may be old, so nobody is answered from it until that is known.

        Commits go on: the epoch, not the lease, decides who may write.
        """
        node = self._node
        is_alive = node.state in ("up", "stopping")
        if is_alive and node.clock.now() >= self.lease_until and not node.is_doubted:
            node.is_doubted = True
            self.lapses += 1
            self._say_lapsed()
            self.look()

    def _say_lapsed(self) -> None:
        """Whose fault it was: an answer that came at once, to a loop that could not read it, is no slow store."""
        waits = "what it must prove waits until the store answers"
        self._is_own_fault = self.standstill.is_to_blame()
        if self._is_own_fault:
            own = self.standstill.words()
            log.warning("the lease was not renewed in time, because %s; %s", own, waits, extra={"code": "node.slow"})
            return
        held = self.standstill.held_lately()
        more = f" (this process was held up for {held['for_ms'] / 1000:.1f} s of it)" if held is not None else ""
        log.warning("the store did not renew the lease in time%s: %s", more, waits, extra={"code": "store.slow"})

    async def make_sure(self) -> None:
        """Find out what is still ours: for a node that stops, and has no rounds any more that would."""
        node = self._node
        if node.is_doubted:
            await self.renew()
            node.ownership.compare(await node.store.owners())
            self._is_sure_of_all()

    def _is_sure_of_all(self) -> None:
        """The lease runs, and after it was renewed the store still said that what we have is ours: answers may go."""
        node = self._node
        node.is_doubted = False
        code = "node.slow" if self._is_own_fault else "store.slow"
        log.warning("the lease is renewed, and what is left is ours", extra={"code": code})
        for activation in list(node.awake.values()):
            activation.release()
        node.outage.end()
        for tell in node.returns:
            tell()

    def _live(self, now: int) -> dict[str, NodeRow]:
        """Nodes that are believed to live, this one included: their lease runs, and their session is not known to be gone."""
        return {
            name: row
            for name, row in self.nodes.items()
            if name == self._node.name or (row.lease_until > now and row.is_here is not False)
        }

    async def _converge(self, live: dict[str, NodeRow], owners: Sequence[ShardRow], now: int) -> bool:
        """Take a step towards the plan; True when everyone has what they should."""
        node = self._node
        willing = [name for name, row in live.items() if not row.is_draining]
        away = {row.shard for row in owners if row.is_away or row.is_leaving}  # to another server of a spread: nobody's
        has = {
            row.shard: row.owner if row.owner in live else None
            for row in owners
            if row.shard not in away or row.shard in node.epochs
        }
        # Ours on disk, but not in this process: an outage, or a release that failed.
        lost = [shard for shard, owner in has.items() if owner == node.name and shard not in node.epochs]
        for shard in lost:
            has[shard] = None
        plan = place(willing or list(live), has, away=away)
        self._tell_deaths(live, owners, plan)
        # Those that fall to others now: they see us as the owner, and wait for us to let go.
        await node.ownership.let_go({shard: owners[shard].epoch for shard in lost if plan.get(shard) != node.name})
        counts = Counter(owner for owner in has.values() if owner is not None)
        free = [shard for shard, owner in plan.items() if owner == node.name and has[shard] is None]
        if free:
            allowed = self._allowance(node.name, live, now)
            chosen = claimable(node.epochs.keys(), free, allowed, claimed=len(node.epochs))
            seen = {row.shard: row.epoch for row in owners}
            silent = {name for name, row in self.nodes.items() if row.is_here and name not in live}
            spared = [shard for shard in chosen if owners[shard].owner in silent]
            if len(chosen) < len(free):
                self._rest_ms = RAMP_DOUBLE_MS  # more is allowed by then
            if await node.ownership.claim(chosen, seen, spared=spared):
                self._is_asked = True  # the map of owners is another now
                await node.tidings.tell([])
        if willing:  # else all of them are to own nothing, and none is the better place
            coming = Counter(to for shard, to in plan.items() if has[shard] is None or shard in node.ownership.leaving)
            self._hand_over(plan, counts, coming, live, now, away=away)
        return plan == has

    def _tell_deaths(self, live: dict[str, NodeRow], owners: Sequence[ShardRow], plan: dict[int, str]) -> None:
        """One line for each node that left its shards behind: who, why, and how many of them fall to this one."""
        left: dict[str, list[int]] = {}
        for row in owners:
            if row.owner is not None and row.owner not in live:
                left.setdefault(row.owner, []).append(row.shard)
        for name in left.keys() - self._told_dead:
            known = self.nodes.get(name)
            if known is None:
                who, why = "", "it has left without handing them over"
            elif known.is_here is False:
                who, why = f" ({known.about})", "its session with the database has ended: it died, or its machine did"
            else:
                who, why = f" ({known.about})", "its lease is over: it is frozen, or cut off from the database"
            ours = sum(plan.get(shard) == self._node.name for shard in left[name])
            several = self._node.homes is not None  # then there is one of that name for each store
            where = f" in {self._node.store.url}" if several else ""
            told = (name, who, where, why, len(left[name]), ours)
            if ours:
                log.warning(DEATH, *told, extra={"code": "node.dead"})
            else:  # of a hundred nodes most have nothing to do with it
                log.info(DEATH, *told, extra={"code": "node.dead"})
        self._told_dead = set(left)

    def _hand_over(
        self,
        plan: dict[int, str],
        counts: Counter[str],
        coming: Counter[str],
        live: dict[str, NodeRow],
        now: int,
        *,
        away: Collection[int],
    ) -> None:
        """Begin to hand over what falls to others, no faster than they take it, and what is to leave this store.

        `coming` counts what is nobody's, or soon will be, and falls to each: who does not take that, because its store is slow for it or
        because it stands still, shall have no more of what answers here.
        """
        node = self._node
        going: list[int] = []
        room, ticks_ms = HAND_OVER_MAX - len(node.ownership.leaving), node.meter.ticks() // 1_000_000
        for shard in sorted(node.epochs):
            to = plan.get(shard, "" if shard in away else node.name)
            if to == node.name or shard in node.ownership.leaving or len(going) >= room:
                continue
            if self._resting.get(shard, 0) > ticks_ms:
                continue
            if not to or (coming[to] < HAND_OVER_MAX and counts[to] + coming[to] < self._allowance(to, live, now)):
                coming[to] += 1
                going.append(shard)
        if going:
            task = asyncio.get_running_loop().create_task(self._move(going))
            self._moves.add(task)
            task.add_done_callback(self._moves.discard)

    async def _move(self, shards: list[int]) -> None:
        try:
            await self._node.ownership.hand_over(shards, within_ms=HAND_OVER_MS)
        except Unavailable as error:
            self._node.store_failed(error)
        again_at = self._node.meter.ticks() // 1_000_000 + HAND_OVER_REST_MS  # also when the clock is set
        self._resting = {shard: at for shard, at in self._resting.items() if shard not in shards}
        self._resting |= {shard: again_at for shard in shards if shard in self._node.epochs}
        self.look()

    def _allowance(self, name: str, live: dict[str, NodeRow], now: int) -> int:
        """How many shards that node may have by now; all of them when there is nobody else to have them."""
        age_ms = now - live[name].joined_at
        if len(live) == 1 or age_ms < -self.lease.ms:  # it joined by a clock that was wrong, and may be as old as any
            return SHARDS
        return shards_allowed(age_ms, first=RAMP_FIRST, double_every_ms=RAMP_DOUBLE_MS, total=SHARDS)

    async def _forget_the_gone(self, live: dict[str, NodeRow], owners: Sequence[ShardRow], now: int) -> None:
        if len(live) == len(self.nodes):
            return
        owning = {row.owner for row in owners}
        for name, row in self.nodes.items():
            if name in live or name in owning:
                continue
            if row.is_here is False or row.lease_until < now - self.lease.forget_ms:
                await self._node.store.leave(name)

    async def _await_strays(self) -> None:
        """Give those the time to renew their leases that seem to have died long ago: a clock may be wrong by hours."""
        if self._sightings is None:
            return
        strays = {row.node: row for row in await self._read_nodes() if row.node in self._sightings.strays}
        if all(row.is_here is False for row in strays.values()):
            return
        await self._node.clock.sleep(min(LEASE_MAX_MS, max(row.lease_ms for row in strays.values())) // 2)
        rows, now = await self._read_nodes(), self._node.clock.now()
        for row in rows:
            if row.node in strays and row.node not in self._sightings.strays:
                behind_s = self._sightings.behind_ms(row, now) // 1_000
                log.warning(APART, behind_s, row.node, row.about, extra={"code": "clock.apart"})

    async def _look_again(self) -> list[NodeRow]:
        return self._check_company(await self._read_nodes())

    async def _read_nodes(self) -> list[NodeRow]:
        """All nodes, with leases that end by this node's clock."""
        rows = await self._node.store.nodes()
        return rows if self._sightings is None else self._sightings.judge(rows, self._node.clock.now())

    def _check_company(self, rows: Sequence[NodeRow]) -> list[NodeRow]:
        """The others that live, when this node may be one of them."""
        others = self._others(rows)
        for row in others:
            if row.node == self._node.name and self._node.state == "new":
                raise BadOption(
                    f"two stores of this program are one database, {self._node.store.url}; give both places the same URL",
                    code="stores.same",
                )
            if row.cluster != self.cluster:
                raise WrongCluster(
                    f"this node is of cluster {self.cluster!r}, but {row.node} ({row.about}), which lives on the same "
                    f"store, is of cluster {row.cluster!r}; give both the same name, or each its own schema or database"
                )
            if row.version < VERSION_OLDEST:
                raise WrongVersion(
                    f"this node speaks versions {VERSION_OLDEST} to {VERSION} of the cluster's protocol, {row.node} "
                    f"({row.about}) only version {row.version}; stop the old nodes before you start this one"
                )
        if not self._node.is_client:
            self._check_leases(rows)
        return [row for row in others if row.node != self._node.name]

    def _others(self, rows: Sequence[NodeRow]) -> list[NodeRow]:
        now = self._node.clock.now()
        return [row for row in rows if row.lease_until > now and row.is_here is not False]

    def _check_leases(self, rows: Sequence[NodeRow]) -> None:
        """All that live have this node's lease, or it is not one of them: each judges the others by its own."""
        for row in self._others(rows):
            if row.lease_ms != self.lease.ms and row.node != self._node.name:
                raise WrongLease(
                    f"this node has a lease of {self.lease.ms} ms, but {row.node} ({row.about}), which lives on the same "
                    f"store, one of {row.lease_ms} ms; start it with --lease {row.lease_ms}ms (lease=, $WAKEFUL_LEASE), "
                    "or, to change it, stop all nodes and start them with the new one"
                )
