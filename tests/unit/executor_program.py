"""Objects with methods in threads and processes; at the top level of a file, so that another process can import them."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from wakeful import App, Context, DurableObject, Limits, in_process, in_thread, reader
from wakeful.sync_view import BlockingView

app = App(limits=Limits(threads=2, processes=1))


@dataclass
class Stock:
    flour: int = 0


class NoPickle(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__("no way")
        self.lock = threading.Lock()


class TwoWords(Exception):
    """Pickle makes one with its message alone, which does not work."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


class Crooked(Exception):
    """Can be read by the process that raised it, and by no other."""

    def __reduce__(self) -> tuple[object, ...]:
        return _only_here, (os.getpid(),)


def _only_here(pid: int) -> Crooked:
    if pid != os.getpid():
        raise RuntimeError("elsewhere")
    return Crooked()


@app.object
class Boss(DurableObject):
    async def spread(self, method: str, count: int) -> list[object]:
        mills = [self.ctx.get(Mill, f"far{n}") for n in range(count)]
        return list(await asyncio.gather(*(getattr(mill, method)(n) for n, mill in enumerate(mills))))


@app.object
class Mill(DurableObject):
    state: Stock

    @in_thread
    def grind(self, grain: int, *, times: int = 1) -> int:
        total: int = self.blocking.storage.get("flour", 0) + grain * times
        self.blocking.storage.put("flour", total)
        return total

    @in_thread
    def spoil(self) -> None:
        self.blocking.storage.put("flour", -1)
        self.state.flour = -1
        raise ValueError("mice")

    @reader
    @in_thread
    def flour(self) -> int:
        return self.blocking.storage.get("flour", 0)  # type: ignore[no-any-return]

    @reader
    @in_thread
    def rang_at(self) -> str:
        return self.blocking.storage.get("alarm", "")  # type: ignore[no-any-return]

    @reader
    @in_thread
    def steal(self) -> None:
        self.blocking.storage.put("flour", 0)

    @in_thread
    def order(self, other: str, grain: int) -> int:
        return self.blocking.get(Mill, other).grind(grain)  # type: ignore[no-any-return]

    @in_thread
    def typed_order(self, other: str, grain: int) -> int:
        return self.blocking.wait(self.ctx.get(Mill, other).grind(grain))

    @in_thread
    def keep(self, flour: int) -> int:
        self.state.flour += flour
        self.blocking.ctx.commit()
        return self.state.flour

    @in_thread
    def plan(self) -> list[str]:
        self.blocking.schedules.add(timedelta(hours=1), self.grind, 5, name="later")
        self.blocking.every.day.at("9am")(self.grind, 1, name="daily")
        self.blocking.jobs.schedule(self.blocking.get(Mill, "b").grind, 7, after="2h")
        self.blocking.storage.set_alarm(timedelta(hours=3))
        return sorted(schedule.name for schedule in self.blocking.schedules.list())

    @in_thread
    def alarm(self) -> None:
        self.blocking.storage.put("alarm", self.ctx.now().isoformat())

    @in_thread
    def attempt(self) -> int:
        self.blocking.storage.put("flour", 1)
        try:
            with self.blocking.storage.transaction():
                self.blocking.storage.put("flour", 99)
                raise KeyError
        except KeyError:
            pass
        with self.blocking.storage.transaction() as storage:
            storage.put("salt", 2)
        found = self.blocking.storage.get_many(["flour", "salt"])
        return found["flour"] * 10 + found["salt"]  # type: ignore[no-any-return]

    @in_thread
    def sql_here(self) -> None:
        self.sql("SELECT 1")

    async def blocking_here(self) -> None:
        self.blocking.storage.get("flour")

    async def both(self) -> list[int]:
        return list(await asyncio.gather(self.grind(1), self.flour()))

    def plain(self) -> None:
        """Nobody's to call."""

    # in another process

    @in_process
    def where(self) -> tuple[int, int]:
        return os.getpid(), os.getppid()

    @in_process
    def grind_far(self, grain: int) -> int:
        total: int = self.blocking.storage.get("flour", 0) + grain
        self.blocking.storage.put("flour", total)
        self.state.flour = total
        self.ctx.log.warning("ground %s", grain)
        return total

    @in_process
    def state_far(self) -> int:
        self.state.flour += 1
        self.blocking.ctx.commit()
        try:
            with self.blocking.storage.transaction():
                self.state.flour = 99
                raise KeyError
        except KeyError:
            pass
        return self.state.flour

    @in_process
    def plan_far(self) -> list[str]:
        self.blocking.schedules.add(timedelta(hours=1), self.grind, 5, name="later")
        self.blocking.jobs.schedule(self.blocking.get(Mill, "b").grind, 7, after="2h")
        total: int = self.blocking.get(Mill, "c").grind(2)
        self.blocking.sql("CREATE TABLE sacks (n)")
        self.blocking.sql("INSERT INTO sacks VALUES (?)", total)
        count = self.blocking.sql("SELECT n FROM sacks").value()
        return [f"{count} {self.ctx.now():%H:%M}", *(schedule.name for schedule in self.blocking.schedules.list())]

    @in_process
    def log_far(self, answer: str) -> str:
        self.ctx.log.warning("this record can be pickled, and not read again", extra={"because": TwoWords("a", "b")})
        self.blocking.storage.put("who", str(self.ctx.id))
        return answer

    @in_process
    def ask_far(self, answer: str) -> str:
        try:
            self.blocking.storage.put("x", TwoWords("a", "b"))
        except Exception as error:
            answer += f" {type(error).__name__}"
        self.blocking.storage.put("who", str(self.ctx.id))
        return answer

    @reader
    async def who(self) -> str:
        return await self.storage.get("who", "")  # type: ignore[no-any-return]

    @in_process
    def raise_far(self) -> None:
        raise Crooked

    @in_process
    def sleep_far(self) -> None:
        self.blocking.storage.put("flour", -1)
        self.blocking.get(Bare, "gate").count()
        time.sleep(600)

    @in_process
    def fail_far(self, how: str) -> object:
        self.blocking.storage.put("flour", -1)
        if how == "value":
            raise ValueError("mice")
        if how == "os":
            return Path("/nope").read_text(encoding="utf-8")
        if how == "eof":
            raise EOFError("cut short")
        if how == "pipe":
            raise BrokenPipeError("theirs")
        if how == "exit":
            sys.exit(3)
        if how == "interrupt":
            raise KeyboardInterrupt
        if how == "pickle":
            raise NoPickle(1, 2)
        if how == "answer":
            return threading.Lock()
        if how == "unknown":
            return self.ctx.storage
        if how == "wait":
            self.blocking.wait(asyncio.sleep(0))
        if how == "refused":
            self.blocking.storage.put("x", threading.Lock())
        return os.kill(os.getpid(), signal.SIGKILL)


@app.object
class Bare:
    """Without the base class."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    @in_thread
    def count(self) -> int:
        view = BlockingView(self.ctx)
        view.storage.put("n", view.storage.get("n", 0) + 1)
        return view.storage.get("n")  # type: ignore[no-any-return]

    @in_process
    def count_far(self) -> int:
        view = BlockingView(self.ctx)
        view.storage.put("n", view.storage.get("n", 0) + 1)
        return view.storage.get("n")  # type: ignore[no-any-return]


log = logging.getLogger(__name__)
