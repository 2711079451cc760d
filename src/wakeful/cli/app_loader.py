"""Layer 5. Which App does `app.py`, `module:app` or a folder with a wrangler file mean?"""

import importlib
import importlib.util
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.cli.exit_codes import FAILED, USAGE, CommandError
from wakeful.cli.settings import origins
from wakeful.values.errors import BadInput, WakefulError

if TYPE_CHECKING:
    from wakeful.app import App
    from wakeful.cli.terminal_log import Say


_OURS = f"{Path(__file__).parent.parent}{os.sep}"
Beside = Callable[["Say"], AbstractAsyncContextManager[None]]


class LoadError(CommandError):
    """The program's own code could not be imported; `trace` says where, without our frames."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message, code="app.load", exit_code=FAILED)
        self.trace = trace


class Program(NamedTuple):
    """A module and the App in it."""

    module: ModuleType
    app: "App"
    beside: "Beside | None" = None  # what goes on beside its node for as long as that runs

    @property
    def on_start(self) -> Any:
        """The module's `async def on_start(app)`, None if it has none."""
        found = getattr(self.module, "on_start", None)
        if found is not None and not inspect.iscoroutinefunction(found):
            raise CommandError("on_start must be `async def on_start(app)`", code="app.on_start", exit_code=USAGE)
        return found


def load(target: str) -> Program:
    """The program of `app.py`, `app.py:name`, `module` or `module:name`; errors say what was looked for."""
    where, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    module = module_of(where)
    return Program(module, _find_app(module, name, where) if name else _only(module, where))


def module_of(where: str) -> ModuleType:
    """The module of a .py file or of a name; errors say what was looked for."""
    return _load_file(Path(where)) if where.endswith(".py") else _load_module(where)


def own_files() -> list[str]:
    """The source files of the program's own modules, so neither Python's, nor installed ones, nor ours."""
    libraries = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    libraries.add(str(Path(__file__).parent.parent))
    foreign = tuple(f"{path}{os.sep}" for path in libraries)
    found = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return sorted({path for path in found if path and path.endswith(".py") and not path.startswith(foreign)})


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise CommandError(
            f"{path} does not exist; name the file that has app = App()", code="app.file", exit_code=USAGE
        )
    sys.path.insert(0, str(path.parent))
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_program"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Under its own name, so that stored dataclasses find their types and other modules can import it.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise unloadable(path.name, error) from error
    return module


def _load_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise CommandError(f"{name!r} is neither a .py file nor a module", code="app.file", exit_code=USAGE)
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise CommandError(
                f"there is no module {name!r} here; run from the folder that has it, or name a .py file",
                code="app.file",
                exit_code=USAGE,
            ) from None
        raise unloadable(name, error) from error
    except Exception as error:
        raise unloadable(name, error) from error


def _find_app(module: ModuleType, name: str, where: str) -> "App":
    from wakeful.app import App

    found = getattr(module, name, None)
    if not isinstance(found, App):
        what = "is not there" if found is None else f"is a {type(found).__name__}"
        raise CommandError(f"{where}:{name} {what}; name an App", code="app.name", exit_code=USAGE)
    return found


def _only(module: ModuleType, where: str) -> "App":
    from wakeful.app import App

    apps = {name: value for name, value in vars(module).items() if isinstance(value, App)}
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps.values()))
    if not apps:
        raise CommandError(f"{where} has no App; write app = App() at its top level", code="app.none", exit_code=USAGE)
    raise CommandError(
        f"{where} has several Apps ({', '.join(apps)}); say which, like {where}:{next(iter(apps))}",
        code="app.several",
        exit_code=USAGE,
    )


def unloadable(where: str, error: Exception) -> CommandError:
    """What is wrong with the program's code, and where, without our frames."""
    if isinstance(error, WakefulError) and error.code == "config.value":  # the program is right, its environment is not
        words = error.message
        for name, origin in origins.items():
            words = words.replace(f"${name} is", f"{origin} is")
        return CommandError(words, code=error.code, exit_code=USAGE)
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(_OURS) and "importlib" not in frame.filename]
    # What we refuse is the doing of the line that asked for it. A fault of ours is shown with all that led to it.
    is_ours = not isinstance(error, WakefulError)
    shown = (
        [one for one in frames if "importlib" not in one.filename and one.filename != __file__] if is_ours else theirs
    )
    last = theirs[-1] if theirs else shown[-1] if shown else None
    at = "" if last is None or isinstance(error, SyntaxError) else f" at {Path(last.filename).name}:{last.lineno}"
    trace = "".join(traceback.format_list(shown)) + "".join(traceback.format_exception_only(error))
    return LoadError(f"{where} can't be loaded{at}: {type(error).__name__}: {error}", trace)


# Which program is a folder with a wrangler file, and how does its Worker answer while it runs?

HTTP = "WAKEFUL_WORKERS_HTTP"


def wrangler_file(folder: str) -> str:
    """The wrangler file of the folder; the command's own error when there is none."""
    from wakeful.compat.workers import config

    try:
        return str(config.read(folder).path)
    except BadInput as error:
        raise CommandError(error.message, code=error.code, exit_code=USAGE) from None


def load_worker(folder: str) -> Program:
    """The program of a Worker's folder; a `LoadError` when its code can't be imported."""
    from wakeful.compat.workers import load

    try:
        worker = load(folder)
    except BadInput as error:
        raise CommandError(error.message, code=error.code, exit_code=USAGE) from None
    except Exception as error:
        raise unloadable(Path(wrangler_file(folder)).parent.name, error) from error
    return Program(worker.module, worker.app, _beside(worker))


def _beside(worker: Any) -> Any:
    from wakeful.compat.workers.config import REMEDIES
    from wakeful.compat.workers.site import ADDRESS, serving

    @asynccontextmanager
    async def beside(say: "Say") -> AsyncIterator[None]:
        address = os.environ.get(HTTP)
        async with serving(worker, address or ADDRESS, next_port=address is None, is_tried=True) as url:
            say.event("worker", f"{worker.config.name} at {url}", url=url)
            for name, what in worker.missing.items():
                words = f"env.{name} is {what}, which is not here; a use of it is an error that says so"
                say.event("worker", words + (f": {REMEDIES[what]}" if what in REMEDIES else ""))
            for what in worker.config.idle:
                say.event("worker", f"configured and not done here: {what}")
            for name in worker.config.deleted:
                say.event("worker", f"the objects of {name} stay in the store; deleted_classes deletes nothing here")
            yield

    return beside
