"""Layer 5. How do several processes of one program run on a machine as if they were one?

`wakeful run --processes N` starts N nodes, each a process that loads the program itself, and stays as their parent. It
listens for HTTP once and all of them accept from that; it hears the signals; it starts anew what dies, and one after
the other all of them when it is asked to (SIGHUP). It runs nothing of the program's, so it outlives what that does.
"""

import contextlib
import json
import os
import secrets
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any

from wakeful.cli.exit_codes import OK
from wakeful.cli.processes import STOP, STOP_NOW, Assignment
from wakeful.cli.settings import environment
from wakeful.cli.terminal_log import Say

LOOK_S = 0.5  # between two looks when nothing happens
AGAIN_S, AGAIN_MAX_S = 1.0, 30.0  # before one that died is started anew: doubled each time
LONG_LIFE_S = 60.0  # whoever lived that long begins at the shortest again
PATIENCE_S = 60.0  # until it is said that one that is replaced has not ended: its turns may take as long as the program lets them
START_S = 600.0  # for a successor that does not come up


class Process:
    """One of them, from its start to its end."""

    def __init__(
        self, command: Sequence[str], number: int, count: int, family: str, *, is_odd: bool, http: socket.socket | None
    ) -> None:
        self.number = number
        self.is_odd = is_odd
        self.is_ready = False
        self.is_asked = False
        self.node = ""
        self.started_at = time.monotonic()
        self.asked_at = 0.0
        lifeline, self._lifeline = os.pipe()
        self.report, report = os.pipe()
        os.set_blocking(self.report, False)
        self._said = b""
        listener = None if http is None else http.fileno()
        told = Assignment(number, count, is_odd, family, lifeline, report, listener)
        fds = [lifeline, report, *([] if listener is None else [listener])]
        try:
            # A session of its own: what a terminal sends to all of a group reaches it once, by us.
            self._process = subprocess.Popen(
                [*command, "--under", json.dumps(told)],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=environment(),
            )
        except OSError:
            os.close(self._lifeline)
            os.close(self.report)
            raise
        finally:
            os.close(lifeline)
            os.close(report)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def name(self) -> str:
        return f"process {self.number} (pid {self.pid}{f', node {self.node}' if self.node else ''})"

    def end_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it lives."""
        return self._process.poll()

    def listen(self) -> dict[str, Any] | None:
        """What it has just reported: that it is ready, and as which node."""
        try:
            part = os.read(self.report, 4_096)
        except BlockingIOError:
            return None
        except OSError:
            part = b""
        self._said += part
        if not self._said.endswith(b"\n"):
            return None
        told: dict[str, Any] = json.loads(self._said)
        self._said = b""
        self.is_ready, self.node = True, told["node"]
        return told

    def stop(self) -> None:
        """Ask it to end: it hands over what it has, and finishes what runs."""
        self._tell(STOP)
        if not self.is_asked:
            self.is_asked, self.asked_at = True, time.monotonic()
            if not self.is_ready:  # it may load its program still, and hear nothing
                self._send(signal.SIGTERM)

    def stop_now(self) -> None:
        """It was asked before: what runs is cut off."""
        self._tell(STOP_NOW)
        if not self.is_ready:
            self._send(signal.SIGTERM)

    def _tell(self, what: bytes) -> None:
        with contextlib.suppress(OSError):  # it is gone
            os.write(self._lifeline, what)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def close(self) -> None:
        """Nothing more is heard of it, or said to it: should it still run, it ends."""
        os.close(self._lifeline)
        os.close(self.report)


class ProcessSupervisor:
    """Keeps so many processes of a program running until it is told to stop."""

    def __init__(self, command: Sequence[str], count: int, http: socket.socket | None, say: Say) -> None:
        self._command = list(command)
        self._count = count
        self._http = http
        self._family = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._tell = say
        self._running: dict[int, Process] = {}  # by number: who has that place
        self._replaced: list[Process] = []  # who had it, and is on its way out
        self._next: Process | None = None  # who will have it, and is not ready yet
        self._to_replace: list[int] = []
        self._starts_at: dict[int, float] = {}
        self._waits_s: dict[int, float] = {}
        self._was_ready = self._is_told = False
        self._stops = 0  # how often it was asked to stop, and how much of that was passed on
        self._passed = 0
        self._is_stopping = False
        self._reloads = 0
        self._code = OK

    def run(self) -> int:
        """Until a signal, or until none of them can start; the exit code."""
        with self._signals() as wakeup:
            for number in range(1, self._count + 1):
                self._start(number)
            try:
                while self._running or self._replaced or self._next or (self._starts_at and not self._stops):
                    self._wait(wakeup)
                    self._hear()
                    self._bury()
                    if self._stops:
                        self._stop_all()
                    else:
                        self._revive()
                        self._roll()
            finally:
                for one in self._all():
                    one.close()  # and they end by themselves, cleanly
        return self._code

    def _say(self, kind: str, text: str, **data: Any) -> None:
        with contextlib.suppress(OSError):  # nobody reads any more, which is no reason to end
            self._tell.event(kind, text, **data)

    # signals

    @contextlib.contextmanager
    def _signals(self) -> Iterator[int]:
        """Hear them while the block lasts; what is yielded can be read when one has come."""
        wakeup, told = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(told, False)
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        before_told = signal.set_wakeup_fd(told)
        try:
            yield wakeup
        finally:
            signal.set_wakeup_fd(before_told)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(wakeup)
            os.close(told)

    def _on_signal(self, number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            self._reloads += 1
        elif number != signal.SIGCHLD:
            self._stops += 1

    def _wait(self, wakeup: int) -> None:
        """Until somebody reports, a signal comes, or a while has passed."""
        now = time.monotonic()
        soonest = min([LOOK_S, *(max(0.0, at - now) for at in self._starts_at.values())])
        with selectors.DefaultSelector() as selector:
            selector.register(wakeup, selectors.EVENT_READ)
            for one in self._all():
                if not one.is_ready and one.end_code() is None:
                    selector.register(one.report, selectors.EVENT_READ)
            selector.select(soonest)
        with contextlib.suppress(BlockingIOError):
            os.read(wakeup, 4_096)

    # their lives

    def _all(self) -> list[Process]:
        return [*self._running.values(), *self._replaced, *([self._next] if self._next else [])]

    def _make(self, number: int, *, is_odd: bool = False) -> Process:
        return Process(self._command, number, self._count, self._family, is_odd=is_odd, http=self._http)

    def _start(self, number: int) -> None:
        self._starts_at.pop(number, None)
        self._running[number] = self._make(number)

    def _hear(self) -> None:
        for one in self._all():
            if not one.is_ready:
                one.listen()
        if (
            not self._is_told
            and len(self._running) == self._count
            and all(one.is_ready for one in self._running.values())
        ):
            self._is_told = True
            self._say("running", f"{self._count} processes; SIGHUP to {os.getpid()} starts them anew, one by one")
        self._was_ready = self._was_ready or any(one.is_ready for one in self._running.values())

    def _bury(self) -> None:
        """Take note of those that have ended."""
        for process in self._all():
            code = process.end_code()
            if code is None:
                continue
            process.close()
            if process in self._replaced:
                self._replaced.remove(process)
                if not (self._to_replace or self._replaced or self._stops):
                    self._say("reload", f"all {self._count} processes are new")
            elif process is self._next:
                self._next, self._to_replace = None, []
                if process.number not in self._running:  # who had the place died meanwhile
                    self._starts_at.setdefault(process.number, time.monotonic() + AGAIN_MAX_S)
                if not self._stops:
                    words = (
                        f"its successor {_end_words(code)}, so the old processes stay; mend that and send SIGHUP again"
                    )
                    self._say("error", f"process {process.number}: {words}")
            else:
                del self._running[process.number]
                self._lose(process, code)

    def _lose(self, one: Process, code: int) -> None:
        """One that should run has ended: it is started anew, or there is no use in that."""
        if self._stops:
            self._code = self._code or (code if code > 0 else OK)
            return
        if not self._was_ready:
            self._say("error", f"{one.name} {_end_words(code)} before it was ready, and would again; all of them end")
            self._code, self._stops = code if code > 0 else 1, 1
            return
        lived = time.monotonic() - one.started_at
        wait = AGAIN_S if lived >= LONG_LIFE_S else self._waits_s.get(one.number, AGAIN_S)
        self._waits_s[one.number] = min(wait * 2, AGAIN_MAX_S)
        self._starts_at[one.number] = time.monotonic() + wait
        text = f"{one.name} {_end_words(code)}; what it had the others take, and it is started anew in {wait:.0f} s"
        self._say("error", text, process=one.number, node=one.node, code=code)

    def _revive(self) -> None:
        now = time.monotonic()
        for number in [number for number, at in self._starts_at.items() if at <= now]:
            try:
                self._start(number)
            except OSError as error:
                self._starts_at[number] = now + AGAIN_MAX_S
                self._say("error", f"process {number} can't be started, and is tried again: {error}", process=number)

    # one after the other

    def _roll(self) -> None:
        """Replace them, one at a time: the next is ready before the one before it is asked to go."""
        for one in self._replaced:
            if time.monotonic() - one.asked_at > PATIENCE_S:
                self._say("warning", f"{one.name} has not ended yet; kill it if it should not finish its turns")
                one.asked_at = float("inf")
        if self._reloads:
            self._reloads = 0
            self._to_replace = sorted(set(self._to_replace) | set(range(1, self._count + 1)))
            self._say("reload", f"{self._count} processes are replaced, one after the other")
        if self._next is not None and time.monotonic() - self._next.started_at > START_S:
            self._next.kill()
        if self._next is not None and self._next.is_ready:
            self._install(self._next)
            self._next = None
        if self._next is None and self._to_replace and not self._replaced:
            number = self._to_replace[0]
            self._starts_at.pop(number, None)
            old = self._running.get(number)
            try:
                self._next = self._make(number, is_odd=old is not None and not old.is_odd)
            except OSError as error:
                self._to_replace = []
                self._say(
                    "error", f"process {number}: its successor can't be started, so the old processes stay: {error}"
                )

    def _install(self, process: Process) -> None:
        """It is ready: from here on it has the place, and who had it goes."""
        if (before := self._running.get(process.number)) is not None:
            before.stop()
            self._replaced.append(before)
        self._starts_at.pop(process.number, None)
        self._running[process.number] = process
        self._to_replace.remove(process.number)

    # the end

    def _stop_all(self) -> None:
        if not self._is_stopping:
            self._is_stopping, self._passed = True, 1  # a second signal may come at any moment
            self._starts_at.clear()
            self._to_replace = []
            if self._http is not None:
                self._http.close()  # who comes now is refused, and does not wait for nobody
            self._say("stopping", "running turns finish first; ask again to stop at once")
            for one in self._all():
                one.stop()
        elif self._stops > self._passed:
            self._passed = self._stops
            for one in self._all():
                one.stop_now()


def _end_words(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
