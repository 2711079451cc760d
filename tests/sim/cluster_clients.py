"""Who calls a simulated cluster, through which of its nodes, and what do they know afterwards?"""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from tests.sim.clients import patient
from tests.sim.cluster_disk import ClusterWorld
from tests.sim.cluster_invariants import JobFact, Journal
from tests.sim.cluster_workload import Bang, Clerk, Witness
from tests.sim.invariants import Violation
from wakeful.jobs.ids import key_of, parse_id
from wakeful.jobs.jobs import Jobs
from wakeful.runtime.node import Node
from wakeful.testing.members import Member
from wakeful.values.errors import DeadlineExceeded, Reentrancy, TurnFailed, Unavailable
from wakeful.values.times import to_datetime

CALLS = {"book": 14, "keyed": 12, "fail": 5, "give": 8, "circle": 3, "arm": 10, "read": 10, "job": 40, "cancel": 10}
KINDS = {"steady": 20, "again": 5, "flaky": 5, "slow": 8, "spawn": 8, "killer": 2, "doomed": 1}
TRIES = 12


class Door:
    """The jobs of one node, as a program on that machine has them."""

    def __init__(self, member: Member) -> None:
        self._member = member

    @property
    def node(self) -> Node | None:
        return self._member.node


class Clients:
    """Callers without number, at any of the nodes."""

    def __init__(
        self, world: ClusterWorld, cls: type[Clerk], keys: list[str], witness: Witness, dice: random.Random
    ) -> None:
        self.world = world
        self.cls = cls
        self.keys = keys
        self.witness = witness
        self.dice = dice
        self.journal = Journal()
        self.tasks: dict[asyncio.Task[None], str] = {}
        self.count = 0

    def burst(self) -> None:
        for _ in range(self.dice.choice((0, 1, 2, 4, 7))):
            self.call()

    def call(self, kind: str | None = None) -> None:
        """Let somebody call somebody."""
        kind = kind or self.dice.choices(list(CALLS), list(CALLS.values()))[0]
        key, token = self.dice.choice(self.keys), self.token()
        body: Coroutine[Any, Any, None]
        if kind == "job":
            body = self._job(self.job(key, token))
        elif kind == "cancel":
            known = [fact for fact in self.journal.jobs.values() if fact.id is not None]
            if not known:
                return
            body = self._cancel(self.dice.choice(known[-8:]))
        elif kind in ("keyed", "give"):
            body = self._keyed(kind, key, token)
        elif kind == "read":
            body = self._read(key)
        else:
            body = self._once(kind, key, token)
        self.start(body, f"{kind} {key} {token}")

    def start(self, body: Coroutine[Any, Any, None], what: str) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(body, what))
        self.tasks[task] = what
        task.add_done_callback(lambda done: self.tasks.pop(done, None))

    def token(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def job(self, key: str, token: str, kind: str | None = None, delay_ms: int | None = None) -> JobFact:
        """Think of a job."""
        dice = self.dice
        kind = kind or dice.choices(list(KINDS), list(KINDS.values()))[0]
        delay_ms = dice.choice((-1_000, 0, 0, 5, 300, 2_000, 6_000)) if delay_ms is None else delay_ms
        fact = self.journal.jobs[token] = JobFact(token, key, kind, self.world.now_ms() + delay_ms)
        if kind == "spawn":
            fact.child = (f"{token}c", dice.choice(self.keys))
        return fact

    # what each of them does

    def _member(self) -> Member:
        up = [member for member in self.world.members if member.node is not None]
        if not up:
            raise Unavailable("every node is gone")
        return self.dice.choice(up)

    def _stub(self, key: str, **options: Any) -> Any:
        node = self._member().node
        assert node is not None
        options = {"deadline": "30s", "request_key": None, **options}
        return node.stub(self.cls, key, **options)

    async def _guarded(self, body: Coroutine[Any, Any, None], what: str) -> None:
        try:
            await body
        except (Unavailable, DeadlineExceeded) as error:
            self.witness.note(f"{what}: {type(error).__name__} {error.code}")
        except TimeoutError:
            self.witness.note(f"{what}: gave up")
        except Violation as violation:
            self.witness.complain(str(violation))
        except Exception as error:
            self.witness.complain(f"{what} was told {type(error).__name__}: {error}")
        else:
            self.witness.note(f"{what}: answered")

    async def _once(self, kind: str, key: str, token: str) -> None:
        journal = self.journal
        if kind == "book":
            await patient(token, self._stub(key).book(token, self.dice.choice((0.0, 0.0, 0.01, 1.5))))
        elif kind == "arm":
            await patient(token, self._stub(key).arm(token, self.dice.choice((0, 50, 1_500, 5_000))))
        elif kind == "circle":
            others = self.dice.sample([other for other in self.keys if other != key], 2)
            # Whatever fails it, it fails in every one of them.
            journal.refused |= {(one, f"{token}{'.' * step}") for step, one in enumerate((key, *others, key))}
            try:
                await self._stub(key).circle(token, [*others, key])
            except Reentrancy:
                return
            raise Violation(f"{key}: it waited for itself by way of {others}, and nobody minded")
        else:
            try:
                await patient(token, self._stub(key).fail(token))
            except (Bang, TurnFailed) as error:  # from another node it comes by name
                if isinstance(error, TurnFailed) and error.remote_type != f"{Bang.__module__}.Bang":
                    raise
                journal.refused.add((key, token))
                return
        journal.acked.add((key, token))
        self._look_for(key, token)

    async def _keyed(self, kind: str, key: str, token: str) -> None:
        """Repeated under a request key through any node until it is answered, then once more."""
        journal, answered = self.journal, 0
        # Only ever from a lower to a higher one: two that give to each other at once would wait until their deadline.
        key, other = sorted((key, self.dice.choice([other for other in self.keys if other != key])))
        for tries in range(TRIES):
            try:
                stub = self._stub(key, request_key=f"{kind}-{token}", deadline="8s")
                call = stub.book(token) if kind == "keyed" else stub.give(token, other)
                answer = await (call if tries else patient(token, call))
            except (Unavailable, DeadlineExceeded, TimeoutError):
                await asyncio.sleep(min(5.0, 0.1 * 2**tries))
                continue
            journal.acked.add((key, token if kind == "keyed" else f"{token}>"))
            if kind == "give":
                journal.acked.add((other, token))
            if journal.answers.setdefault(f"{kind}-{token}", answer) != answer:
                raise Violation(
                    f"{key}: request {token} answered {answer}, and before {journal.answers[f'{kind}-{token}']}"
                )
            self._look_for(key, token if kind == "keyed" else f"{token}>")
            answered += 1
            if answered == 2:
                return

    async def _read(self, key: str) -> None:
        """What a reader says is on disk, so it counts as acknowledged."""
        for token in await self._stub(key).tokens():
            self.journal.acked.add((key, token))
            self._look_for(key, token)

    async def _job(self, fact: JobFact) -> None:
        """Schedule it; some under a key, which is asked for until it is acknowledged, by two at once."""
        dice, is_keyed = self.dice, self.dice.random() < 0.4
        if fact.kind not in ("killer", "doomed") and dice.random() < 0.15:
            known = [other.token for other in self.journal.jobs.values() if other.id and other.kind == "steady"]
            fact.depends_on = dice.sample(known, min(len(known), 2))
        more: list[Any] = []
        if fact.kind == "slow":
            more = [dice.choice((0.2, 1.0, 3.0))]
        elif fact.child is not None:
            more = [*fact.child, fact.due_at + 300]
        elif fact.kind == "killer":
            more = [dice.choice((1, 2, 99))]
        tries = [self._schedule(fact, more, is_keyed) for _ in range(2 if is_keyed and dice.random() < 0.5 else 1)]
        await asyncio.gather(*tries)

    def jobs_at(self, member: Member, count: int) -> None:
        """So many plain jobs are asked for at that node, due at once or nearly."""
        for _ in range(count):
            fact = self.job(self.dice.choice(self.keys), self.token(), "steady", self.dice.choice((0, 0, 5, 300)))
            body = self._schedule(fact, [], self.dice.random() < 0.3, member)
            self.start(body, f"job {fact.token}")

    async def _schedule(self, fact: JobFact, more: list[Any], is_keyed: bool, first: Member | None = None) -> None:
        for tries in range(TRIES if is_keyed else 1):
            try:
                member = first if first is not None and first.node is not None and not tries else self._member()
                node = member.node
                assert node is not None
                stub: Any = node.stub(self.cls, fact.key, deadline=None, request_key=None)
                depends_on = [id for token in fact.depends_on if (id := self.journal.jobs[token].id)]
                options: dict[str, Any] = {"key": fact.token if is_keyed else None, "depends_on": depends_on}
                args = (fact.token, fact.kind, fact.due_at, more)
                job = await Jobs(Door(member)).schedule(stub.work, *args, at=to_datetime(fact.due_at), **options)
            except (Unavailable, DeadlineExceeded):
                if not is_keyed:
                    raise
                await asyncio.sleep(min(5.0, 0.1 * 2**tries))
                continue
            if fact.id is not None and fact.id != job.id:
                raise Violation(f"one key, two jobs: {fact.id} and {job.id}")
            fact.id, fact.is_acked = job.id, True
            return

    async def _cancel(self, fact: JobFact) -> None:
        """Take it back. True is for ever; False means that it is over, or runs to its end this very moment."""
        assert fact.id is not None
        jobs = Jobs(Door(self._member()))
        fact.cancels_unanswered += 1
        answer = await jobs.cancel(fact.id)
        fact.cancels_unanswered -= 1
        self.witness.note(f"cancel {fact.token}: {answer}")
        fact.is_cancelled = bool(fact.is_cancelled) or answer
        target, name = parse_id(fact.id)
        if not answer and key_of(name) is None and (target, name) in self.world.disk.timers:
            raise Violation(f"cancel answered False for job {fact.token} ({fact.kind}), which is owed still")

    def _look_for(self, key: str, token: str) -> None:
        """No answer leaves before what it rests on is on disk."""
        ids = [id for id in self.world.disk.rows if id.key == key]
        if not any((0, f"op:{token}") in self.world.disk.rows[id] for id in ids):
            raise Violation(f"{key}: answered before it was on disk: {token}")
