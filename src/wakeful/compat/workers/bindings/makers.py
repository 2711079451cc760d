"""Layer 5. Which binding of a wrangler file becomes what? The table of all kinds that are here.

A kind is what the file calls it. A new one is a line here and in `config.py: KINDS`.
"""

from collections.abc import Callable
from typing import Any

from wakeful.compat.workers.bindings import d1, kv, queues, r2, services, workflows
from wakeful.compat.workers.bindings.desk import BindingHome, DatabaseFiles
from wakeful.compat.workers.bindings.queue_batch import DELAY_S_MAX
from wakeful.compat.workers.bindings.r2_objects import R2Binding
from wakeful.compat.workers.config import NamedBinding
from wakeful.values.errors import BadOption
from wakeful.values.ids import check_key

Maker = Callable[[BindingHome, NamedBinding], Any]


def make_binding(home: BindingHome, named: NamedBinding) -> Any:
    """What the Worker's code finds under the name in `env`."""
    return MAKERS[named.kind](home, named)


def _make_kv(home: BindingHome, named: NamedBinding) -> Any:
    register(home, kv.CLASS, kv.KVNamespace)
    return kv.KvBinding(home.app, key_of(home, kv.CLASS, named, "id"))


def _make_d1(home: BindingHome, named: NamedBinding) -> Any:
    register(home, d1.CLASS, d1.D1Database)
    key = key_of(home, d1.CLASS, named, "database_name", "database_id")
    folder = home.config.path.parent / str(named.options.get("migrations_dir", "migrations"))
    if "migrations_dir" in named.options and not folder.is_dir():
        raise BadOption(
            f"{home.config.path}: {named.name} has its migrations in {folder}, which is no folder",
            code="workers.binding",
        )
    files = sorted(folder.glob("*.sql")) if folder.is_dir() else []
    migrations = tuple((file.name, file.read_text(encoding="utf-8")) for file in files)
    home.desk.databases[key] = DatabaseFiles(str(named.options.get("migrations_table", "d1_migrations")), migrations)
    return d1.D1Binding(home.app, key)


def _make_queue(home: BindingHome, named: NamedBinding) -> Any:
    _register_queues(home)
    delay = named.options.get("delivery_delay", 0)
    if isinstance(delay, bool) or not isinstance(delay, int) or not 0 <= delay <= DELAY_S_MAX:
        raise BadOption(
            f"{home.config.path}: {named.name}: delivery_delay is 0 to {DELAY_S_MAX} seconds, not {delay!r}",
            code="workers.binding",
        )
    return queues.QueueBinding(home.app, key_of(home, queues.CLASS, named, "queue"), delay * 1000)


def _make_r2(home: BindingHome, named: NamedBinding) -> Any:
    register(home, r2.CLASS, r2.R2Bucket)
    return R2Binding(home.app, key_of(home, r2.CLASS, named, "bucket_name"))


def _make_service(home: BindingHome, named: NamedBinding) -> Any:
    service, entrypoint = named.options.get("service"), named.options.get("entrypoint")
    if not isinstance(service, str) or not isinstance(entrypoint, str | None):
        raise BadOption(
            f"{home.config.path}: {named.name} has no `service`, the name of a Worker", code="workers.binding"
        )
    return services.ServiceBinding(home, named.name, service, entrypoint, named.options.get("props"))


def _make_workflow(home: BindingHome, named: NamedBinding) -> Any:
    name, script = named.options.get("name"), named.options.get("script_name")
    if not isinstance(name, str) or not isinstance(script, str | None):
        raise BadOption(f"{home.config.path}: {named.name} has no `name`, that of a workflow", code="workers.binding")
    if script in (None, home.config.name):
        workflows.host_workflow(home, named.options)
    return workflows.WorkflowBinding(home, named.name, name, script)


def drop_workflows(home: BindingHome) -> None:
    """The Worker is taken out of the process: bindings of others find its workflows no more."""
    for name, known in list(home.desk.workflows.items()):
        if known.kind.env is home.env:
            del home.desk.workflows[name]


def add_consumers(home: BindingHome) -> None:
    """Have the Worker's `queue()` called with what comes to the queues that it consumes."""
    for options in home.config.consumers:
        _register_queues(home)
        rules = queues.read_rules(home.config.path, home.queue, options)
        queue = check_key(queues.CLASS, options["queue"])
        known = home.desk.consumers.get(queue)
        if known is not None:
            raise BadOption(
                f"{home.config.path}: the queue {queue} has a consumer already, in {known.path}; it can have one",
                code="workers.binding",
            )
        home.desk.consumers[queue] = rules


def drop_consumers(home: BindingHome) -> None:
    """The Worker is taken out of the process: its queues have no consumer any more."""
    for queue, rules in list(home.desk.consumers.items()):
        if rules.handle == home.queue:
            del home.desk.consumers[queue]


def _register_queues(home: BindingHome) -> None:
    register(home, queues.CLASS, queues.Queue)
    register(home, queues.CONSUMER_CLASS, queues.QueueConsumer)


MAKERS: dict[str, Maker] = {
    "d1_databases": _make_d1,
    "kv_namespaces": _make_kv,
    "queues.producers": _make_queue,
    "r2_buckets": _make_r2,
    "services": _make_service,
    "workflows": _make_workflow,
}


def register(home: BindingHome, name: str, cls: type) -> None:
    """Have the app know a class of ours; other Workers of it, or other bindings, may have done so."""
    registry = home.app.deployment.registry
    if not registry.knows(name):
        home.app.object(cls, name=name)  # type: ignore[call-overload]
    elif registry.by_name(name).cls is not cls:
        raise BadOption(
            f"{home.config.path}: its bindings are kept in objects of a class {name}, and the program has another of "
            "that name; give that another name",
            code="workers.binding",
        )


def key_of(home: BindingHome, cls: str, named: NamedBinding, *names: str) -> str:
    """The key of the object behind it: what the file says under the first of those names that it has."""
    found = next((named.options[name] for name in names if named.options.get(name)), named.name)
    if not isinstance(found, str):
        raise BadOption(f"{home.config.path}: {named.kind} {named.name}: {found!r} is no text", code="workers.binding")
    return check_key(cls, found)
