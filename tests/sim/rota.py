"""What do simulated objects do by schedule, and who gives them their schedules?

Half of the seeds have schedules beside everything else: one that the class declares, and others that clients add,
change, pause, trigger and cancel at any moment. `rota_invariants.py` says what must hold of them.
"""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from tests.sim.slowdisk import SimulatedWorld
from tests.sim.workload import Account, Bang, WakeBang, Witness
from wakeful.app import App
from wakeful.policy.retry import CRASHES_MAX, RetryPolicy
from wakeful.specs.fluent import every
from wakeful.values.errors import Conflict, DeadlineExceeded, Unavailable, UnknownSchedule
from wakeful.values.timers import Run
from wakeful.values.times import from_datetime, to_datetime

DECLARED = "rounds"
NAMES = ("s0", "s1", "s2")
BRISK = "every 15s"  # a slow run takes longer than that
# Seldom enough that the hours of quiet at a seed's end cost little, often enough that an outage swallows several.
SPECS = (
    "every 25m",
    "cron */30 * * * * in UTC",
    "cron 0,40 * * * * in Europe/Berlin",
    "(cron 5 * * * * in UTC) or (every 50m)",
    "(every 40m) spread 5m",
)
OPERATIONS = {
    "add": 30,
    "brisk": 5,
    "pause": 6,
    "pause until": 4,
    "resume": 6,
    "trigger": 10,
    "cancel": 4,
    "same again": 8,
}


class Rota(Account):
    """An account that also works by schedule, with the same moods."""

    async def tick(self, run: Run) -> None:
        """The handler of every schedule: one effect per run, after a durable point now and then."""
        async with self._turn():
            key, witness, storage = self.ctx.key, self.witness, self.storage
            witness.note(f"{key} {run.name} of {run.nominal_at:%d %H:%M:%S} attempt {run.attempt}")
            if witness.now() < from_datetime(run.nominal_at):
                witness.complain(f"{key}: {run.name} ran early")
            if run.id[-1] in "0123":
                storage.put(f"begun:{run.id}", True)
                await self.ctx.commit()
            storage.put(f"ran:{run.id}", await storage.get(f"ran:{run.id}", 0) + 1)
            if run.name == f"schedule:{DECLARED}":
                return
            if self.mood == "killer" and not witness.is_mended:
                witness.kills[run.id] += witness.kill()
                if witness.kills[run.id] > CRASHES_MAX:
                    witness.complain(f"{key}: one run killed its process {witness.kills[run.id]} times")
                await asyncio.sleep(1)
            if self.mood == "slow":
                await asyncio.sleep(20 if run.id[0] in "0123" else 3)
            if not witness.is_mended and (self.mood == "doomed" or (self.mood == "flaky" and run.attempt < 2)):
                raise Bang(key)

    @every("1h", name=DECLARED)
    async def go_round(self, run: Run) -> None:
        await self.tick(run)


def make_rota_app(witness: Witness) -> tuple[App, type[Account]]:
    """An app of its own for one simulation, whose objects have schedules."""
    app = App()
    rota: type[Account] = type("Account", (Rota,), {"witness": witness, "__module__": __name__})
    return app, app.object(name="Account")(rota)


class Planners:
    """Clients that give objects schedules, with dice of their own."""

    def __init__(self, world: SimulatedWorld, cls: type[Account], keys: list[str], seed: int) -> None:
        self.world = world
        self.cls = cls
        self.keys = keys
        self.dice = random.Random(seed + 3)
        self.tasks: set[asyncio.Task[None]] = set()
        self.added: set[tuple[str, str]] = set()  # acknowledged
        self.last: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}  # what was asked for last
        self.doubtful: set[tuple[str, str]] = set()  # somebody tried to cancel them

    def burst(self) -> None:
        """A few operations at once, on anyone."""
        kinds = list(OPERATIONS)
        for _ in range(self.dice.choice((0, 1, 1, 3))):
            kind = self.dice.choices(kinds, [OPERATIONS[kind] for kind in kinds])[0]
            self.ask(kind, self.dice.choice(self.keys), self.dice.choice(NAMES))

    def fixed(self) -> None:
        """The same few schedules, whatever the dice say; each runs a few times."""
        for key in self.keys[:3]:
            self.ask("add", key, NAMES[0], "every 2m", {"catch_up": "all", "overlap": "queue_one", "max_runs": 2})
        self.ask("trigger", self.keys[0], NAMES[0])
        self.ask("add", self.keys[1], NAMES[1], "every 90s", {"parallel": 2, "max_runs": 2})
        self.ask("add", self.keys[0], NAMES[1], "every 90s", {"end_at": to_datetime(self.world.now_ms() + 190_000)})
        self.ask("pause until", self.keys[0], NAMES[1])

    def ask(self, kind: str, key: str, name: str, spec: str = "", options: dict[str, Any] | None = None) -> None:
        schedules = self.world.app.schedules(self.cls, key)
        dice = self.dice
        if kind == "brisk" and key.startswith("killer"):
            kind = "add"
        body: Coroutine[Any, Any, Any]
        if kind == "add":
            if key.startswith("killer"):  # one that comes again and again would kill for ever
                body = schedules.add(to_datetime(self.world.now_ms() + 60_000), "tick", name=name, max_runs=1)
            else:
                made = self.options() if options is None else options
                spec = spec or dice.choice(SPECS)
                self.last[key, name] = (spec, made)
                body = schedules.add(spec, "tick", name=name, **made)
        elif (
            kind == "brisk"
        ):  # under a name of its own: one that ended and begins again owes nothing for the time between
            name = f"b{len(self.last)}-{dice.randrange(10**6)}"
            end = to_datetime(self.world.now_ms() + 300_000)
            body = schedules.add(
                BRISK, "tick", name=name, **self.options(), end_at=end, max_runs=dice.choice((None, 4))
            )
        elif kind == "same again" and not key.startswith(
            "killer"
        ):  # a second registration: it may neither double it nor make a version
            again, made = self.last.get((key, name), (SPECS[0], {}))
            body = schedules.add(again, "tick", name=name, **made)
        elif kind == "cancel":
            self.doubtful.add((key, name))
            body = schedules.cancel(name)
        elif kind == "pause until":
            body = schedules.pause(name, until=to_datetime(self.world.now_ms() + dice.choice((90, 2_000)) * 1000))
        else:
            body = getattr(schedules, "resume" if kind == "same again" else kind)(name)
        task = asyncio.get_running_loop().create_task(self._told(body, kind, key, name))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def options(self) -> dict[str, Any]:
        pick = self.dice.choice
        return {
            "catch_up": pick(("skip", "latest", "all", "coalesce", "backfill")),
            "catch_up_window": pick(("1d", "1h")),
            "max_catch_up": pick((1, 3)),
            "grace": pick(("60s", "5s")),
            "overlap": pick(("skip", "queue_one", "queue_all")),
            "parallel": pick((1, 1, 1, 3)),
            "retry": RetryPolicy(max_attempts=pick((1, 3, 5))),
            "priority": pick((0, 0, 7)),
        }

    async def _told(self, body: Coroutine[Any, Any, Any], kind: str, key: str, name: str) -> None:
        witness = self.cls.witness
        try:
            await body
        except (Unavailable, DeadlineExceeded, WakeBang, UnknownSchedule, Conflict) as error:
            witness.note(f"{kind} {key} {name}: {type(error).__name__}")
        except Exception as error:
            witness.complain(f"{kind} {key} {name} was told {type(error).__name__}: {error}")
        else:
            witness.note(f"{kind} {key} {name}: answered")
            if kind == "add":
                self.added.add((key, name))
