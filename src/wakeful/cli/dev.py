"""Layer 5. `wakeful dev`: run a program while it is being written, in a child that is started anew at every change."""

import inspect
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import known_names, options, terminal_log
from wakeful.cli.exit_codes import USAGE, CommandError
from wakeful.cli.settings import setting
from wakeful.cli.terminal_log import Say

if TYPE_CHECKING:
    from wakeful.runtime.node import Node


# A process that runs the program in a child, and starts it anew when a file changes.

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
                changed = self._find_change()
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
        prints = {}
        for path in self._files:
            try:
                status = os.stat(path)
            except OSError:
                continue  # an editor may be between removing and renaming
            prints[path] = (status.st_mtime_ns, status.st_size)
        return prints

    def _find_change(self) -> str | None:
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


@options.command("dev")
@click.argument("target", metavar="APP.PY", required=False, shell_complete=known_names.files)
@click.option("--workers", metavar="DIR", help="Instead of APP.PY: a Worker of Cloudflare's, by its wrangler file.")
@setting(
    "--workers-http",
    env="WAKEFUL_WORKERS_HTTP",
    otherwise="127.0.0.1:8787",
    metavar="HOST:PORT",
    help="Where that answers.  [$WAKEFUL_WORKERS_HTTP, 127.0.0.1:8787]",
)
@setting(
    "--paranoid",
    env="WAKEFUL_PARANOID",
    is_flag=True,
    help="Every object sleeps after each turn: what relies on memory fails early.  [$WAKEFUL_PARANOID]",
)
@setting(
    "--http",
    env="WAKEFUL_HTTP",
    metavar="HOST:PORT|off",
    help="Where API and dashboard are.  [$WAKEFUL_HTTP, 127.0.0.1:7420 or a free port behind it]",
)
@terminal_log.options
@options.store_option
def dev(
    target: str | None,
    workers: str | None,
    workers_http: str | None,
    paranoid: bool,
    http: str | None,
    log_form: str | None,
    telemetry: str | None,
    url: str,
    as_json: bool,
) -> int:
    """Run the App of APP.PY, reload it when a file changes, and say what happens.

    The data stays over reloads. If the module has `async def on_start(app)`, it is run once after
    each start: seed there, in a way that may be repeated. With --workers it is the Durable Objects
    and the fetch of a Python Worker written for Cloudflare, unchanged: see docs/cloudflare.md.
    """
    from wakeful.cli.app_loader import HTTP, wrangler_file
    from wakeful.cli.exit_codes import USAGE, CommandError
    from wakeful.store import open_url
    from wakeful.system import default_store

    if (target is None) == (workers is None):
        raise CommandError("give APP.PY, or --workers DIR", code="app.file", exit_code=USAGE)
    if workers is not None:
        where = wrangler_file(workers)
        if workers_http is not None:
            os.environ[HTTP] = workers_http
    else:
        where = str(target).partition(":")[0]
    if workers is None and not where.endswith(".py"):
        raise CommandError(f"{where!r} is not a .py file; wakeful run takes modules", code="app.file", exit_code=USAGE)
    extra = ["--program", program_name()] + ["--name-store"] * (url != default_store())
    for option, value in (("--http", http), ("--log", log_form), ("--telemetry", telemetry)):
        extra += [option, value] if value is not None else []
    extra += ["--paranoid"] * paranoid + ["--json"] * as_json + ["--workers"] * (workers is not None)
    open_url(url)  # refused here, by the option that it came from: the child has it from its environment
    # Not as an argument, which every user of the machine could read: it may hold a password.
    os.environ["WAKEFUL_STORE"] = url
    return Supervisor(workers or str(target), where, extra, terminal_log.teller(log_form, as_json=as_json)).run()


# The process that `wakeful dev` starts anew at every change.

UNLOADABLE = 9  # exit code between child and supervisor: wait for the next change


@options.command("_child", hidden=True)
@click.argument("target")
@click.option("--paranoid", is_flag=True)
@click.option("--lifeline", type=int, required=True)
@click.option("--report", type=int, required=True)
@click.option("--program", required=True)
@click.option("--again", is_flag=True)
@click.option("--name-store", is_flag=True)
@click.option("--workers", is_flag=True)
@click.option("--http")
@click.option("--http-again")
@terminal_log.options
@options.store_option
def child(
    target: str,
    paranoid: bool,
    lifeline: int,
    report: int,
    program: str,
    again: bool,
    name_store: bool,
    workers: bool,
    http: str | None,
    http_again: str | None,
    log_form: str | None,
    telemetry: str | None,
    url: str,
    as_json: bool,
) -> int:
    """Run the program and tell the supervisor which files it is made of."""
    from wakeful.cli.app_loader import LoadError, load, load_worker, own_files
    from wakeful.cli.program import HUSHED, serve
    from wakeful.cli.web import ADDRESS, wish_of
    from wakeful.operations.type_check import check_call
    from wakeful.views.timer_names import own_classes

    sys.argv = [f"wakeful dev {'--workers ' * workers}{target}"]  # what the store tells others about its owner
    say = terminal_log.teller(log_form, as_json=as_json)
    try:
        loaded = load_worker(target) if workers else load(target)
    except LoadError as error:
        _report(report, own_files())
        say.lines(error.trace)
        say.event("error", f"{error.message}; save a fix and it starts again")
        return UNLOADABLE
    _report(report, own_files())

    async def ready(node: "Node", seen: str | None) -> None:
        _report(report, own_files())
        if seen is not None:
            _report(report, {"http": seen.partition("://")[2]})
        classes = ", ".join(own_classes(node.registry.names())) or "no classes (put @app.object on one)"
        where = f", dashboard at {seen}" if seen is not None else ""
        about = {"store": node.store.url, "pid": os.getpid(), "node": node.name, "http": seen}
        say.event("ready", f"{classes} on {node.store.url}{where}", **about)
        if not again:
            say.lines(await _what_next(node, program, seen, name_store=name_store))

    wish = wish_of(http, default=http_again or ADDRESS)
    with terminal_log.observing(loaded.app, say, log_form, telemetry, hushed=HUSHED):
        serve(
            loaded,
            url,
            say,
            paranoid=paranoid,
            is_dev=True,
            check_call=None if workers else check_call,  # Cloudflare's runtime looks at no annotation either
            ready=ready,
            lifeline=lifeline,
            http=wish,
        )
    return 0


def _report(descriptor: int, news: list[str] | dict[str, str]) -> None:
    """To the supervisor: the files that the program is made of, or where it serves."""
    os.write(descriptor, json.dumps(news).encode() + b"\n")


async def _what_next(node: "Node", program: str, seen: str | None, *, name_store: bool) -> str:
    """Commands that work as they stand, for what is in the store now."""
    from wakeful.store.protocol import Query

    url = node.store.url  # without its password
    head = "" if seen is None else f"\n  Open {seen} to watch it.\n"
    if url == "memory:":
        return f"{head}\n  The store is in memory: it is gone when this stops, and other commands can't see it.\n"
    where = f" --store {shlex.quote(url)}" if name_store else ""
    cls, method = _method(node)
    timers = await node.store.find_timers(Query(cls=cls, limit=1))
    objects = await node.store.find_objects(Query(cls=cls, limit=1))
    key = shlex.quote(timers[0].id.key if timers else objects[0].id.key if objects else "KEY")
    commands = [
        ("which objects there are", "ls"),
        ("one of them, without waking it", f"show {cls} {key}"),
        ("what fires next", "due"),
        ("call a method", f"call {cls} {key} {method}"),
        ("what failed for good", "parked"),
        ("try that again", "redrive --all"),
    ]
    width = max(len(command) for _, command in commands)
    lines = [f"    {program} {command}{where}{' ' * (width - len(command))}   # {text}" for text, command in commands]
    return "\n".join(
        [head, "  Try in another terminal:", *lines, "  Save a file to reload; Ctrl-C stops. The data stays.", ""]
    )


def _method(node: "Node") -> tuple[str, str]:
    """A class and a method to try: one that needs no arguments if there is one, readers first."""
    from wakeful.views.timer_names import own_classes

    methods = []
    for cls in own_classes(node.registry.names()):
        known = node.registry.by_name(cls)
        for name in known.outside:
            needs = _sample_arguments(known.cls, name)
            methods.append((len(needs), name not in known.readers, cls, " ".join([name, *needs])))
    return min(methods)[2:] if methods else ("CLASS", "METHOD")


def _sample_arguments(cls: type, method: str) -> list[str]:
    """Something of the right kind for each parameter that has no default."""
    samples: dict[Any, str] = {int: "1", float: "1.5", bool: "true", str: "hello", dict: "'{}'", list: "'[]'"}
    samples |= {datetime: "2030-01-01T09:00:00Z", timedelta: "5m"}
    parameters = list(inspect.signature(getattr(cls, method)).parameters.values())[1:]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        samples.get(parameter.annotation, parameter.name.upper())
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind in kinds
    ]


def program_name() -> str:
    """How this very command is called from this folder."""
    import shutil

    given = Path(sys.argv[0])
    if given.name != "wakeful":
        return f"{Path(sys.executable).name} -m wakeful.cli"
    on_path = shutil.which("wakeful")
    if on_path is not None and Path(on_path).resolve() == given.resolve():
        return "wakeful"
    relative = os.path.relpath(given.absolute())
    return relative if not relative.startswith("..") else str(given.absolute())
