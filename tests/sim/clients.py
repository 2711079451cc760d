"""Who calls the simulated objects, and what does each caller know afterwards?"""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any

from tests.sim.invariants import CLASS, Journal, Violation
from tests.sim.slowdisk import SimulatedWorld
from tests.sim.workload import Account, Bang, WakeBang, Witness
from wakeful.store.protocol import Range
from wakeful.values.commits import USER
from wakeful.values.errors import DeadlineExceeded, Unavailable
from wakeful.values.ids import ObjectId

CALLS = {
    "add": 24,
    "keyed": 12,
    "fail": 10,
    "commit_then_fail": 6,
    "savepoint": 6,
    "touch": 4,
    "transfer": 8,
    "arm": 24,
    "disarm": 3,
    "peek": 14,
    "hurried": 4,
}

PATIENCE = (0.0005, 0.003, 0.05, 0.7)  # seconds that those wait who give up


async def patient(token: str, call: Coroutine[Any, Any, Any]) -> Any:
    """The answer; every sixth caller gives up waiting, and never learns whether it happened."""
    number = int(token[1:])
    if number % 6:
        return await call
    return await asyncio.wait_for(call, PATIENCE[number // 6 % len(PATIENCE)])


class Clients:
    """Callers without number; the journal is what they were told."""

    def __init__(
        self, world: SimulatedWorld, cls: type[Account], keys: list[str], witness: Witness, dice: random.Random
    ) -> None:
        self.world = world
        self.cls = cls
        self.keys = keys
        self.witness = witness
        self.dice = dice
        self.journal = Journal()
        self.tasks: set[asyncio.Task[None]] = set()
        self.tokens = 0

    def burst(self) -> None:
        """A few calls at once, to anyone."""
        for _ in range(self.dice.choice((0, 1, 2, 3, 6))):
            self.call(self.dice.choice(self.keys))

    def call(self, key: str, kind: str | None = None) -> None:
        """Let a client call the object, and write down what it is told."""
        kinds = list(CALLS)
        kind = kind or self.dice.choices(kinds, [CALLS[kind] for kind in kinds])[0]
        token = self.token(key)
        amount = self.dice.randint(1, 9)
        pause = self.dice.choice((0.0, 0.0, 0.002, 1.0))
        if kind in ("commit_then_fail", "savepoint"):
            self.journal.issue(key, f"{token}!")
        body: Coroutine[Any, Any, None]
        if kind in ("keyed", "transfer"):
            other = self.dice.choice([other for other in self.keys if other != key])
            body = self._keyed(kind, key, token, amount, other)
        elif kind == "peek":
            body = self._peek(key, pause)
        else:
            body = self._once(kind, key, token, amount, pause, self.dice.choice((0, 1_500, 600_000, 2_000_000)))
        task = asyncio.get_running_loop().create_task(self._guarded(body, f"{kind} {key} {token}"))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def token(self, key: str) -> str:
        self.tokens += 1
        token = f"t{self.tokens}"
        self.journal.issue(key, token)
        return token

    async def _guarded(self, body: Coroutine[Any, Any, None], what: str) -> None:
        try:
            await body
        except (Unavailable, DeadlineExceeded, TimeoutError) as error:
            self.witness.note(f"{what}: {type(error).__name__}")
        except Violation as violation:
            self.witness.complain(str(violation))
        except Exception as error:
            self.witness.complain(f"{what} was told {type(error).__name__}: {error}")
        else:
            self.witness.note(f"{what}: answered")

    async def _once(self, kind: str, key: str, token: str, amount: int, pause: float, delay_ms: int) -> None:
        """A call that is not repeated: what it is told is all it will ever know."""
        journal = self.journal
        stub: Any = self.world.get(self.cls, key, deadline="500ms" if kind == "hurried" else "60s")
        try:
            if kind == "arm":
                fails = 0 if key.startswith("killer") else self.dice.choice((0, 0, 3))
                await patient(token, stub.arm(token, amount, delay_ms, fails))
            elif kind == "add":
                await patient(token, stub.add(token, amount, pause))
            elif kind == "hurried":
                await patient(token, stub.add(token, amount, 1.0))
            elif kind == "fail":
                await patient(token, stub.fail(token, amount, pause))
            elif kind == "touch":
                journal.refuse(key, token)
                await patient(token, stub.touch(token))
                return
            else:
                await patient(token, getattr(stub, kind)(token, amount))
        except WakeBang:
            journal.refuse(key, token, f"{token}!")
            return
        except Bang:
            if kind == "commit_then_fail":
                journal.ack(key, token)
            else:
                journal.refuse(key, token)
            journal.refuse(key, f"{token}!")
        else:
            journal.ack(key, token)
            journal.refuse(key, f"{token}!")
        if token in journal.acked.get(key, ()):
            await self._look_for(key, [token])

    async def _keyed(self, kind: str, key: str, token: str, amount: int, other: str) -> None:
        """A call that is repeated under a request key until it is answered, and then once more."""
        journal = self.journal
        if kind == "transfer":
            journal.issue(other, token)
            journal.gifts[token] = (key, other)
        for tries in range(8):
            stub: Any = self.world.get(self.cls, key, request_key=f"{kind}-{token}")
            try:
                call = stub.transfer(token, amount, other) if kind == "transfer" else stub.add(token, amount)
                answer = await (call if tries else patient(token, call))
            except (Unavailable, DeadlineExceeded, WakeBang, TimeoutError):
                await asyncio.sleep(0.1 * 3**tries)
                continue
            journal.ack(key, token)
            if journal.answers.setdefault(f"{kind}-{token}", answer) != answer:
                raise Violation(
                    f"{key}: request key {token} answered {answer}, and {journal.answers[f'{kind}-{token}']} before"
                )
            await self._look_for(key, [token])
            if tries % 2:
                return

    async def _peek(self, key: str, pause: float) -> None:
        """What a reader says is on disk: it counts as acknowledged."""
        try:
            count, tokens = await self.world.get(self.cls, key).peek(pause)
        except WakeBang:
            return
        self.journal.ack(key, *tokens)
        await self._look_for(key, tokens, count)

    async def _look_for(self, key: str, tokens: Sequence[str], count: int = 0) -> None:
        """No answer leaves before what it rests on is on disk."""
        if self.world.disk is None:
            return
        try:
            rows = await self.world.store.scan(ObjectId(CLASS, key), USER, Range("op:", "op;"))
        except Unavailable:
            return  # closed for the moment; the check after the restart will see
        there = {name.removeprefix("op:") for name, _ in rows}
        if not there.issuperset(tokens) or len(there) < count:
            raise Violation(f"{key}: answered before it was on disk: {sorted(set(tokens) - there)}")
