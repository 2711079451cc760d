"""Layer 5. A Worker that is loaded: how its code is imported, its classes as an App, its requests, its cron triggers."""

import builtins
import importlib
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import chain, count
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from wakeful.app import App
from wakeful.compat.workers import conduits, rpc
from wakeful.compat.workers import config as wrangler
from wakeful.compat.workers.bindings import assets, workflows
from wakeful.compat.workers.bindings.assets import AssetFiles
from wakeful.compat.workers.bindings.desk import DESK, BindingDesk
from wakeful.compat.workers.bindings.makers import add_consumers, drop_consumers, drop_workflows, make_binding
from wakeful.compat.workers.bindings.queue_batch import MessageBatch
from wakeful.compat.workers.bindings.services import exports_of, service_of
from wakeful.compat.workers.entrypoints import ExecutionContext, ScheduledController, WorkerEntrypoint
from wakeful.compat.workers.events import Hosted, WaitUntilTasks
from wakeful.compat.workers.failures import JsException, JsTypeError
from wakeful.compat.workers.host import Host, HostedAlarms, host_of
from wakeful.compat.workers.ids import CLASS, IdKey, WorkerIds, learn
from wakeful.compat.workers.modules import modules
from wakeful.compat.workers.namespaces import Env, Namespace
from wakeful.compat.workers.values import dress, result_of
from wakeful.compat.workers.web import Request, Response
from wakeful.policy.limits import Limits
from wakeful.policy.retry import RetryPolicy
from wakeful.runtime.feature import Feature
from wakeful.specs.cron import cron
from wakeful.specs.spec import Spec
from wakeful.values.codec import look_in
from wakeful.values.errors import BadOption
from wakeful.values.timers import Run
from wakeful.values.times import from_datetime

if TYPE_CHECKING:
    from asyncio import Task

    from wakeful.runtime.node import Node
    from wakeful.runtime.turn import Turn


# How is a Worker's code imported so that `import workers` means ours there, and nowhere else?
#
# Each module under the Worker's folder is run with an `__import__` of its own, which knows the names that exist only on
# Cloudflare, and looks beside the Worker's main file first, even where the program or another Worker has a module of that
# name. Nothing is put into `sys.path`, and no module of the program's is replaced: its own `workers` stays what it is.


class Imports(MetaPathFinder):
    """The imports of one Worker's modules."""

    def __init__(self, main: Path, theirs: Mapping[str, ModuleType]) -> None:
        self._main = main
        self._theirs = theirs
        folders = (main.parent, main.parent / "python_modules", main.parent.parent / "python_modules")
        self._folders = [str(folder) for folder in folders if folder.is_dir()]
        # What it has beside it comes before all but Python's own; what it brought along before what is not loaded yet.
        self._own = _names_in(self._folders[:1]) - sys.stdlib_module_names
        self._names = _names_in(self._folders)
        self._modules: dict[str, ModuleType] = {}
        self.used: set[str] = set()  # names that its modules speak of

    def load(self) -> ModuleType:
        """The module of the main file, with whatever it imports from beside it."""
        importlib.invalidate_caches()
        stem = self._main.stem
        name = next(one for one in chain([stem], (f"{stem}_{n}" for n in count(2))) if one not in sys.modules)
        loader = _Loader(name, str(self._main))
        loader.imports = self
        module = ModuleType(name)
        module.__file__, module.__loader__ = str(self._main), loader
        sys.modules[name] = self._modules[name] = module  # so that stored dataclasses find their types,
        look_in(name)  # whatever it was called when they were stored
        try:
            loader.exec_module(module)
        except BaseException:
            self.unload()
            raise
        return module

    def unload(self) -> None:
        """Take the Worker's modules out of the process again."""
        for name, module in self._modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        where = self._folders if path is None else [one for one in path if one.startswith(tuple(self._folders))]
        found = PathFinder.find_spec(name, where) if where else None
        if found is not None and isinstance(found.loader, SourceFileLoader):
            loader = _Loader(found.loader.name, found.loader.path)
            loader.imports = self
            found.loader = loader
        return found

    def import_(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] | None = (), level: int = 0
    ) -> Any:
        """`__import__` of the Worker's modules."""
        if level == 0 and name in self._theirs:
            found = self._theirs[name if fromlist else name.partition(".")[0]]
            missing = next((one for one in fromlist or () if one != "*" and not hasattr(found, one)), None)
            if missing is not None:
                raise ImportError(f"{name}.{missing} is not here; docs/cloudflare.md says what is", name=name)
            return found
        top = name.partition(".")[0]
        if level == 0 and top in self._theirs and top not in self._names:
            raise ModuleNotFoundError(f"{name} is not here; docs/cloudflare.md says what is", name=name)
        if level == 0 and top not in self._names:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        with self._first():
            return builtins.__import__(name, globals, locals, fromlist or (), level)

    @contextmanager
    def _first(self) -> Iterator[None]:
        """Look under the Worker's folder before anywhere else, for as long as one of its imports lasts."""
        if self in sys.meta_path:
            yield
            return
        others = {
            name: module
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] in self._own and not self._is_ours(module)
        }
        for name in others:
            del sys.modules[name]
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            self._modules |= {name: module for name, module in list(sys.modules.items()) if self._is_ours(module)}
            sys.modules.update(others)

    def _is_ours(self, module: Any) -> bool:
        loader = getattr(module, "__loader__", None)
        return isinstance(loader, _Loader) and loader.imports is self


class _Loader(SourceFileLoader):
    """Runs a module of a Worker with the imports that it expects."""

    imports: Imports

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self.imports.import_}
        super().exec_module(module)

    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        if code is not None:
            self.imports.used.update(_names_of(code))
        return code


def _names_of(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in it and in the functions and classes of it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_of(inner)


def _names_in(folders: Sequence[str]) -> frozenset[str]:
    """What can be imported from there, by the first part of its name."""
    return frozenset(path.name.partition(".")[0] for folder in folders for path in Path(folder).iterdir())


MESSAGE_BYTES = 32 * 1_048_576  # what a call and its answer may carry, as there
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


BOOKMARKS = frozenset({"getCurrentBookmark", "getBookmarkForTime", "onNextSessionRestoreBookmark"})


class HostedFeature(Feature):
    """What hosted objects need of every node."""

    classes = ((WorkerIds, CLASS),)

    def __init__(
        self, beside: WaitUntilTasks, desk: BindingDesk, learn_ids: Callable[["Node"], Awaitable[None]]
    ) -> None:
        self._beside = beside
        self._desk = desk
        self._learn_ids = learn_ids

    def equip(self, node: "Node") -> None:
        node.features[DESK] = self._desk
        node.operations.update(workflows.OPERATIONS)
        node.timer_runs.register(HostedAlarms(node.limits.alarm_deadline_ms))
        node.farewells.append(self._beside.send_away)
        streams = node.features[conduits.FEATURE] = conduits.Conduits(node)
        node.routes.requests[conduits.REQUEST] = streams.answer
        node.farewells.append(streams.send_away)
        loans = node.features[rpc.FEATURE] = rpc.Loans(node, self._desk, streams)
        node.routes.requests[rpc.REQUEST] = loans.answer
        node.farewells.append(loans.send_away)

    async def started(self, node: "Node") -> None:
        """Ids are made without waiting: what they are made under must be known."""
        await self._learn_ids(node)

    async def erase(self, turn: "Turn") -> None:
        """Nothing more: what hosted objects keep are rows and an alarm."""


class WorkersApp(App):
    """An App whose classes were written for Cloudflare; classes of Wakeful's own can live in it as well."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("limits", Limits(arguments_bytes=MESSAGE_BYTES))
        super().__init__(**options)
        self.beside = WaitUntilTasks()
        self.desk = BindingDesk()
        self.id_key = IdKey(is_known=False)
        feature = HostedFeature(self.beside, self.desk, self.learn_ids)
        self.deployment.features.append(feature)
        for cls, name in feature.classes:
            self.deployment.registry.add(cls, name=name)

    async def learn_ids(self, node: "Node") -> None:
        """Know under what the ids of this deployment are made."""
        await learn(self.id_key, node, self.desk.namespaces)

    def run_by_clock(self, spec: Spec, function: Callable[..., Any], **options: Any) -> None:
        """A cron trigger of its wrangler file, once per occurrence in the deployment."""
        self._schedules.functions.add(spec, function, **options)


class Worker:
    """A Worker: `app` runs its objects, `fetch` answers a request, `scheduled` is a cron trigger."""

    def __init__(self, config: wrangler.Config, app: WorkersApp) -> None:
        self.config = config
        self.app = app
        self.desk = app.desk
        self.classes: dict[str, type[Host]] = {}  # by the name in the Worker's code
        self.env = Env(dress(config.vars), config.elsewhere)
        self.assets: AssetFiles | None = None
        if config.assets is not None:
            rules = assets.read_rules(config.path, config.assets, config.compatibility_date, config.flags)
            self.assets = AssetFiles(rules)
            if name := config.assets.get("binding"):
                self.env._bindings[name] = self.assets
        self._code = config.path.name if config.main is None else config.main.name
        self._imports = Imports(config.main or config.path, modules(self.env, ExecutionContext(self.keep)))
        self.module = ModuleType(config.name) if config.main is None else self._imports.load()
        self._entry = _entry_of(self.module)
        try:
            self._host()
            if config.consumers and self._handler("queue", None) is None:
                raise BadOption(
                    f"{config.path}: it consumes {config.consumers[0].get('queue')}, and {self._code} has no queue()",
                    code="workers.binding",
                )
            add_consumers(self)
            for expression in config.crons:
                self._add_trigger(expression)
        except BaseException:
            self.unload()
            raise

    async def fetch(self, request: Request) -> Response:
        """The answer to a request: a file's, if it has one for it, else the code's."""
        files = self.assets
        if files is None or (self.config.main is not None and files.runs_worker_first(request)):
            return await self._run_fetch(request)
        found = await files.find(request)
        if found is not None:
            return found
        if self.config.main is None or files.shows_page(request):
            return await files.answer(request)
        return await self._run_fetch(request)

    async def _run_fetch(self, request: Request) -> Response:
        if self._entry is None:
            raise JsException(f"{self._code} has neither `class Default(WorkerEntrypoint)` nor on_fetch")
        node = self.app.deployment.node
        if node is not None and not self.app.id_key.is_known:  # one that owns nothing, and only calls
            await self.app.learn_ids(node)
        answer = await result_of(self._call("fetch", request))
        return _check_response(answer)

    def entrypoint(self, name: str, props: dict[str, Any]) -> Any:
        """A new instance of one of its entrypoints, for one call."""
        cls = getattr(self.module, name, None)
        if not isinstance(cls, type) or not issubclass(cls, WorkerEntrypoint):
            raise JsTypeError(f"{self.config.name} has no entrypoint {name}, a class of WorkerEntrypoint")
        return cls(ExecutionContext(self.keep, self.exports, props), self.env)

    async def answer_as(self, name: str, props: dict[str, Any], request: Request) -> Response:
        """The answer of one of its entrypoints to a request: of the first one as to any request."""
        if name == "Default" and not props:
            return await self.fetch(request)
        handler = getattr(self.entrypoint(name, props), "fetch", None)
        if handler is None:
            raise JsTypeError(f"{self.config.name}.{name} has no fetch()")
        return _check_response(await result_of(handler(request)))

    @property
    def missing(self) -> dict[str, str]:
        """Bindings that nothing here stands behind, and what they are."""
        services = {one.name: one.options["service"] for one in self.config.named if one.kind == "services"}
        away = {name: f"the Worker {of}" for name, of in services.items() if of not in self.desk.workers}
        flows = {one.name: one.options for one in self.config.named if one.kind == "workflows"}
        away |= {
            name: f"a workflow of the Worker {one['script_name']}"
            for name, one in flows.items()
            if one.get("name") not in self.desk.workflows
        }
        return {**self.config.elsewhere, **away}

    async def scheduled(self, expression: str, at_ms: int) -> None:
        """What the Worker does for a cron trigger."""
        await result_of(self._call("scheduled", ScheduledController(expression, at_ms)))

    async def queue(self, batch: MessageBatch) -> None:
        """What the Worker does with messages of a queue that it consumes."""
        await result_of(self._call("queue", batch))

    def unload(self) -> None:
        """Take its modules out of the process again."""
        self._imports.unload()
        if self.desk.workers.get(self.config.name) is self:
            del self.desk.workers[self.config.name]
        drop_consumers(self)
        drop_workflows(self)

    def keep(self, task: "Task[Any]") -> None:
        """Hold on to it until it ends."""
        if self.app.deployment.node is not None:
            self.app.deployment.node.keep(task)

    def _host(self) -> None:
        config = self.config
        for binding in config.bindings:
            cls = getattr(self.module, binding.class_name, None)
            if not isinstance(cls, type):
                raise BadOption(
                    f"{config.path}: {binding.name} is bound to the class {binding.class_name}, which "
                    f"{self._code} does not have",
                    code="workers.class",
                )
            host = self.classes.get(binding.class_name)
            if host is None:
                stored = config.stored_as.get(binding.class_name, binding.class_name)
                hosted = Hosted(
                    cls,
                    stored,
                    self.env,
                    self.app.beside,
                    self.app.id_key,
                    self.app.learn_ids,
                    deletes_alarm=config.deletes_alarm,
                    uses=lambda name: name in self._imports.used,
                    keeps_history=not BOOKMARKS.isdisjoint(self._imports.used),
                )
                host = self.classes[binding.class_name] = host_of(hosted)
                self.app.object(host, name=stored)  # type: ignore[call-overload]
            self.env._bindings[binding.name] = Namespace(self.app, host._hosted)
            self.desk.namespaces[host._hosted.name] = self.env._bindings[binding.name]
        by_class = {
            found.hosted.cls.__name__: found for found in self.env._bindings.values() if isinstance(found, Namespace)
        }
        self.exports = self.env._exports = exports_of(self, self.module, by_class)
        if self.desk.workers.setdefault(config.name, self) is not self:
            raise BadOption(
                f"{config.path}: the program has another Worker called {config.name}", code="workers.binding"
            )
        self.desk.references["service"] = partial(service_of, self.desk)
        for other in config.named:
            self.env._bindings[other.name] = make_binding(self, other)

    def _call(self, name: str, first: Any) -> Awaitable[Any]:
        context = ExecutionContext(self.keep, self.exports)
        handler = self._handler(name, context)
        if handler is None:
            raise JsException(f"the Worker has no {name}()")
        return handler(*(first, self.env, context)[: _count(handler)])  # type: ignore[no-any-return]

    def _handler(self, name: str, context: ExecutionContext | None) -> Callable[..., Any] | None:
        """What it has for events of that kind; without a context to look whether there is one."""
        if not isinstance(self._entry, type):
            return getattr(self.module, f"on_{name}", None)
        return getattr(self._entry if context is None else self._entry(context, self.env), name, None)

    def _add_trigger(self, expression: str) -> None:
        async def trigger(run: Run) -> None:
            await self.scheduled(expression, from_datetime(run.nominal_at))

        # As there: in UTC, not tried again, and what was missed is missed.
        self.app.run_by_clock(
            cron(translate_cron(expression), "UTC"),
            trigger,
            name=f"cron.{expression}",
            retry=RetryPolicy(max_attempts=1),
            catch_up="skip",
        )


def translate_cron(expression: str) -> str:
    """A cron trigger of Cloudflare's as cron text: days of the week are counted from 1, Sunday, there."""
    fields = expression.split()
    if len(fields) != 5:
        return expression  # whoever reads it says what is wrong

    def day_name(match: re.Match[str]) -> str:
        number = int(match[0])
        return _WEEKDAYS[number - 1] if 1 <= number <= 7 else match[0]

    # Not what follows `/` (a step) or `#` (which of the month).
    fields[4] = re.sub(r"(?<![/#\d])\d+", day_name, fields[4])
    return " ".join(fields)


def load(folder: str | Path, *, environment: str | None = None, app: WorkersApp | None = None) -> Worker:
    """The Worker of a folder with a wrangler file, ready to run: `async with load("…").app.run("sqlite:app.db")`."""
    return Worker(wrangler.read(folder, environment=environment), app or WorkersApp())


_HANDLERS = ("on_fetch", "on_scheduled", "on_queue")


def _check_response(answer: Any) -> Response:
    if not isinstance(answer, Response):
        raise JsException(f"fetch() gave a {type(answer).__name__}, not a Response")
    return answer


def _entry_of(module: ModuleType) -> type | Callable[..., Any] | None:
    found = getattr(module, "Default", None)
    if isinstance(found, type):
        return found
    return next((getattr(module, name) for name in _HANDLERS if hasattr(module, name)), None)


def _count(handler: Any) -> int:
    """How many of request, env and ctx it takes."""
    parameters = inspect.signature(handler).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return 3
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)
