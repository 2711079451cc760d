"""Layer 5. A process that runs the program in a child, and starts it anew when a file changes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from wakeful.cli.child import UNLOADABLE
from wakeful.cli.exit_codes import USAGE, CommandError
from wakeful.cli.terminal_log import Say

POLL_S = 0.2
# Longer than a node gives its running turns (10 s), so that a clean stop is never cut short.
PATIENCE_S = 15.0
# A program that dies sooner than this after its start would only die again.
SHORT_LIFE_S = 3.0

Print = tuple[int, int]


class Supervisor:
    """Keeps one child alive, and its files in sight."""

    def __init__(self, target: str, path: str, extra: list[str], say: Say) -> None:
        if not Path(path).is_file():
            raise CommandError(
                f"{path} does not exist; name the file that has app = App()", code="app.file", exit_code=USAGE
            )
        self._target = target
        self._extra = extra
        self._say = say
        self._files = {str(Path(path).resolve())}
        self._prints: dict[str, Print] = {}
        self._signals = 0
        self._starts = 0
        self._http = ""
        self._started_at = 0.0
        self._lifeline = -1
        self._report = -1
        self._unread = b""

    def run(self) -> int:
        """Until a signal, or a failure that no change of the program can heal; the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        child: subprocess.Popen[bytes] | None = self._start()
        try:
            while True:
                time.sleep(POLL_S)
                self._read_report()
                if self._signals:
                    return self._stop_for_good(child)
                code = child.poll() if child else None
                if code is not None:
                    child = None
                    if not self._may_live_on(code):
                        return code
                    if code < 0 and time.monotonic() - self._started_at > SHORT_LIFE_S:
                        child = self._start()
                changed = self._changed()
                if changed:
                    self._say.event("reload", f"{os.path.relpath(changed)} changed")
                    if child is not None:
                        self._stop(child)
                    child = self._start()
        finally:
            if child is not None and child.poll() is None:
                child.kill()
                child.wait()
            self._close_pipes()

    def _start(self) -> subprocess.Popen[bytes]:
        self._close_pipes()
        theirs_life, self._lifeline = os.pipe()
        self._report, theirs_report = os.pipe()
        os.set_blocking(self._report, False)
        self._unread = b""
        again = ["--again"] * (self._starts > 0)
        again += ["--http-again", self._http] if self._http else []  # browsers find it where it was
        command = [sys.executable, "-m", "wakeful.cli", "_child", self._target, *self._extra, *again]
        command += ["--lifeline", str(theirs_life), "--report", str(theirs_report)]
        self._prints = self._look()
        child = subprocess.Popen(command, pass_fds=(theirs_life, theirs_report))
        os.close(theirs_life)
        os.close(theirs_report)
        self._starts += 1
        self._started_at = time.monotonic()
        return child

    def _may_live_on(self, code: int) -> bool:
        """A program that can't be loaded or died is started again; what can't run at all ends the command."""
        if code == UNLOADABLE:
            return True
        if code < 0:
            self._say.event(
                "error", f"the program was killed by {signal.Signals(-code).name}; what was acknowledged is on disk"
            )
            return True
        return self._starts > 1 and code != 0

    def _stop_for_good(self, child: subprocess.Popen[bytes] | None) -> int:
        self._say.event("stopping", "running turns finish first; ask again to stop at once")
        code = self._stop(child) if child is not None else 0
        if code == 0:
            self._say.event("stopped", "the data stays in the store")
        return code

    def _stop(self, child: subprocess.Popen[bytes]) -> int:
        """Ask it to stop, wait for its running turns; a second signal of ours is passed on and forces it."""
        asked, passed = time.monotonic(), self._signals
        child.send_signal(signal.SIGTERM)
        while child.poll() is None:
            if self._signals > max(passed, 1):
                passed = self._signals
                child.send_signal(signal.SIGTERM)
            if time.monotonic() - asked > PATIENCE_S:
                self._say.event("warning", "the program did not stop; killing it")
                child.kill()
            time.sleep(0.02)
        return 0 if child.returncode in (0, UNLOADABLE) else child.returncode if child.returncode > 0 else 1

    def _on_signal(self, number: int, frame: object) -> None:
        self._signals += 1

    def _read_report(self) -> None:
        """Which files the child has loaded so far."""
        try:
            self._unread += os.read(self._report, 1 << 20)
        except BlockingIOError:
            return
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            news = json.loads(line)
            if isinstance(news, dict):
                self._http = news["http"]
            else:
                self._files |= set(news)
        for path, print_ in self._look().items():
            self._prints.setdefault(path, print_)

    def _look(self) -> dict[str, Print]:
        found = {}
        for path in self._files:
            try:
                status = os.stat(path)
            except OSError:
                continue  # an editor may be between removing and renaming
            found[path] = (status.st_mtime_ns, status.st_size)
        return found

    def _changed(self) -> str | None:
        for path, print_ in self._look().items():
            if self._prints.get(path, print_) != print_:
                time.sleep(0.05)  # let the editor finish
                return path
        return None

    def _close_pipes(self) -> None:
        for descriptor in (self._lifeline, self._report):
            if descriptor >= 0:
                os.close(descriptor)
        self._lifeline = self._report = -1
