"""Layer 5. What does a wrangler file say about a Worker?"""

import itertools
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wakeful.values.errors import BadOption

FILES = ("wrangler.json", "wrangler.jsonc", "wrangler.toml")
DELETES_ALARM_FROM = "2026-02-24"  # compatibility date from which deleteAll() takes the alarm as well
_DELETES_ALARM = "delete_all_deletes_alarm"
_KEEPS_ALARM = "delete_all_preserves_alarm"
# Kinds of bindings that are here, and under what each has its name in `env`; `bindings/makers.py` makes them.
KINDS = {
    "d1_databases": "binding",
    "kv_namespaces": "binding",
    "queues.producers": "binding",
    "r2_buckets": "binding",
    "services": "binding",
    "workflows": "binding",
}
# Kinds that nothing here stands behind, and what they are called.
_ELSEWHERE = {
    "hyperdrive": "Hyperdrive",
    "vectorize": "Vectorize",
    "analytics_engine_datasets": "Analytics Engine",
    "ai": "Workers AI",
    "browser": "a browser",
    "send_email": "e-mail",
    "dispatch_namespaces": "a dispatch namespace",
    "ratelimits": "a rate limit",
    "secrets_store_secrets": "a secret of the secrets store",
    "images": "Images",
    "media": "Media Transformations",
    "mtls_certificates": "an mTLS certificate",
    "pipelines": "a pipeline",
    "version_metadata": "the metadata of a version",
    "worker_loaders": "a loader of Workers",
}
# What is configured there without a name in `env`, and not done here.
_IDLE = {
    "containers": "containers: run them beside it, and call them with fetch()",
    "tail_consumers": "tail consumers: the log of this process has what they would get",
    "logpush": "logpush: have the log of this process shipped",
}
# What to do instead, by what it is called.
REMEDIES = {
    "Hyperdrive": "connect to the database with its own driver",
    "Vectorize": "keep vectors in a database that searches them, and ask it with fetch()",
    "Analytics Engine": "write points into D1, or have telemetry count them (docs/telemetry.md)",
    "Workers AI": "ask a model with fetch()",
    "a browser": "run one beside it, and ask it with fetch()",
    "e-mail": "send with a service's API and fetch()",
    "a dispatch namespace": "load several Workers into one program, and bind them with `services`",
    "a rate limit": "count in an object, as examples/cloudflare_limiter does",
    "a secret of the secrets store": "put it into .dev.vars",
    "Images": "use Pillow",
    "Media Transformations": "run ffmpeg beside it",
    "an mTLS certificate": "use aiohttp with an ssl context",
    "a pipeline": "send to a queue whose consumer writes batches",
    "the metadata of a version": "put the version into `vars`",
    "a loader of Workers": "load the Workers at the start",
}
_RULE_FILES = ("_headers", "_redirects")
_PULL = "pull consumers: messages of {} are for an HTTP API that is not here; let the Worker's queue() take them"
_TIMED = "schedules of workflows: {} is not started by them; do it in scheduled(), with triggers.crons"
# What JSON with comments is made of. Each text belongs to one alternative only, an unclosed one to the rest of the file:
# so a file is read once from its beginning to its end, whatever is in it.
_PART = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*+(?:"|\\?\Z))|(?P<comment>//[^\n]*|/\*(?s:.*?)\*/)|(?P<open>/\*(?s:.*)\Z)|(?P<space>\s+)'
    r'|(?P<comma>,)|(?P<end>[}\]])|(?P<rest>[^"/\s,}\]]+|/)',
    re.S,
)
_SEEN = re.compile(r"[^\n]")


class Binding(NamedTuple):
    """A name in `env` that stands for a class of objects."""

    name: str
    class_name: str


class NamedBinding(NamedTuple):
    """A name in `env` that stands for something else, and what the file says of it."""

    kind: str
    name: str
    options: dict[str, Any]


class Config(NamedTuple):
    """What is taken from the file."""

    path: Path
    name: str
    main: Path | None  # None: it has files, and no code
    compatibility_date: str
    flags: tuple[str, ...]
    bindings: tuple[Binding, ...]
    named: tuple[NamedBinding, ...]
    consumers: tuple[dict[str, Any], ...]  # of queues
    assets: dict[str, Any] | None
    elsewhere: dict[str, str]  # bindings that are not here, and what they are
    vars: dict[str, Any]
    crons: tuple[str, ...]
    stored_as: dict[str, str]  # the name under which a class's objects are stored, where that is an older one
    deleted: tuple[str, ...]  # what the objects of deleted classes are stored under
    idle: tuple[str, ...]  # what it has configured beside bindings, and nothing here does: in words, with the remedy

    @property
    def deletes_alarm(self) -> bool:
        """Whether deleteAll() removes the alarm as well."""
        if _KEEPS_ALARM in self.flags:
            return False
        return _DELETES_ALARM in self.flags or self.compatibility_date >= DELETES_ALARM_FROM

    def has(self, enabled: str, disabled: str, since: str) -> bool:
        """Whether a change of behaviour holds: by its flags, else from that compatibility date on."""
        return disabled not in self.flags and (enabled in self.flags or self.compatibility_date >= since)


def read(folder: str | Path, *, environment: str | None = None) -> Config:
    """The wrangler file of a folder (`.json`, `.jsonc`, `.toml`, in this order), or the file itself."""
    path = _find(Path(folder))
    data = _parse(path)
    environment = environment or os.environ.get("CLOUDFLARE_ENV") or None
    if environment is not None:
        named = data.get("env", {})
        if environment not in named:
            raise _bad(path, f"there is no environment {environment!r}; it has {', '.join(named) or 'none'}")
        # What is bound is not inherited; the rest is.
        data = {key: value for key, value in data.items() if key not in _NOT_INHERITED} | named[environment]
    main = data.get("main")
    assets = data.get("assets")
    if not isinstance(assets, dict | None):
        raise _bad(path, f"assets is a table with a directory, not {assets!r}")
    if not isinstance(main, str) and (main is not None or assets is None):
        raise _bad(path, "it has no `main`, the file with the Worker's code")
    bindings, elsewhere = _bindings(path, data)
    consumers = _look(data, "queues.consumers") or ()
    stored_as, deleted = _migrate(path, data.get("migrations") or ())
    return Config(
        path=path,
        name=str(data.get("name", path.parent.name)),
        main=None if main is None else (path.parent / main).resolve(),
        compatibility_date=str(data.get("compatibility_date", "")),
        flags=tuple(data.get("compatibility_flags", ())),
        bindings=bindings,
        named=tuple(_read_named(path, data)),
        consumers=tuple(one for one in consumers if one.get("type") != "http_pull"),
        assets=assets,
        elsewhere=elsewhere,
        vars={**data.get("vars", {}), **_dev_vars(path.parent, environment)},
        crons=tuple(data.get("triggers", {}).get("crons") or ()),
        stored_as=stored_as,
        deleted=deleted,
        idle=tuple(_IDLE[kind] for kind in _IDLE if _look(data, kind))
        + tuple(
            f"static assets: {file.name} of {file.parent.name} is not applied; set headers and redirect in the Worker"
            for file in ((path.parent / str((assets or {}).get("directory", ""))) / name for name in _RULE_FILES)
            if assets and file.is_file()
        )
        + tuple(_PULL.format(one.get("queue")) for one in consumers if one.get("type") == "http_pull")
        + tuple(_TIMED.format(one.get("name")) for one in data.get("workflows") or () if one.get("schedules")),
    )


def _look(data: Mapping[str, Any], kind: str) -> Any:
    """What the file has there; None when there is nothing."""
    part: Any = data
    for name in kind.split("."):
        part = part.get(name) if isinstance(part, Mapping) else None
    return part


_NOT_INHERITED = frozenset({"durable_objects", "vars", "env", *(kind.partition(".")[0] for kind in KINDS), *_ELSEWHERE})


def _find(where: Path) -> Path:
    if where.is_file():
        return where.resolve()
    found = next((where / name for name in FILES if (where / name).is_file()), None)
    if found is None:
        raise BadOption(f"{where} has none of {', '.join(FILES)}; name the folder of a Worker", code="workers.config")
    return found.resolve()


def _parse(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    try:
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(strip_comments(text))
    except ValueError as error:
        raise _bad(path, f"it can't be read: {error}") from None
    if not isinstance(data, dict):
        raise _bad(path, "it is no object")
    return data


def strip_comments(text: str) -> str:
    """JSON without comments and trailing commas; what is inside strings stays, and so do the lines."""
    parts: list[str] = []
    comma = -1  # where the last comma is, while only space and comments came after it
    for found in _PART.finditer(text):
        kind, part = found.lastgroup, found[0]
        if kind == "comment":
            part = _SEEN.sub(" ", part)
        elif kind == "comma":
            comma = len(parts)
        elif kind != "space":
            if kind == "end" and comma >= 0:
                parts[comma] = " "
            comma = -1
        parts.append(part)
    return "".join(parts)


def _bindings(path: Path, data: Mapping[str, Any]) -> tuple[tuple[Binding, ...], dict[str, str]]:
    here, elsewhere = [], {}
    for binding in data.get("durable_objects", {}).get("bindings", []):
        if "name" not in binding or "class_name" not in binding:
            raise _bad(path, f"a binding of durable_objects has no name or no class_name: {binding!r}")
        if binding.get("script_name") not in (None, data.get("name")):
            elsewhere[binding["name"]] = f"a class of another Worker, {binding['script_name']}"
        else:
            here.append(Binding(binding["name"], binding["class_name"]))
    for kind, what in _ELSEWHERE.items():
        found = data.get(kind)
        for one in found if isinstance(found, list) else [found] if isinstance(found, Mapping) else []:
            name = one.get("binding") or one.get("name")
            if name:
                elsewhere[name] = what
    return tuple(here), elsewhere | _unknown_bindings(data)


def _unknown_bindings(data: Mapping[str, Any]) -> dict[str, str]:
    """Names of kinds that are newer than this program."""
    known = {kind.partition(".")[0] for kind in KINDS} | set(_ELSEWHERE) | {"assets"}
    kinds = ((kind, listed) for kind, listed in data.items() if kind not in known and isinstance(listed, list))
    return {
        one["binding"]: f"one of its {kind}"
        for kind, listed in kinds
        for one in listed
        if isinstance(one, Mapping) and isinstance(one.get("binding"), str)
    }


def _read_named(path: Path, data: Mapping[str, Any]) -> Iterator[NamedBinding]:
    for kind, label in KINDS.items():
        listed = _look(data, kind) or ()
        for one in [listed] if isinstance(listed, Mapping) else listed:
            if not isinstance(one, Mapping) or not isinstance(one.get(label), str):
                raise _bad(path, f"one of {kind} has no `{label}`, the name in env: {one!r}")
            yield NamedBinding(kind, one[label], dict(one))


def _migrate(path: Path, migrations: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """Under which name each class is stored, by the migrations in order, and what deleted classes were stored under.

    A name that another class had before means that one's objects: a new class is stored under a name of its own.
    """
    stored: dict[str, str] = {}
    taken: set[str] = set()
    deleted: list[str] = []
    for step in migrations:
        for name in (*step.get("new_classes", ()), *step.get("new_sqlite_classes", ())):
            stored[name] = next(one for one in _names(name) if one not in taken)
            taken.add(stored[name])
        for rename in step.get("renamed_classes", ()):
            stored[rename["to"]] = stored.pop(rename["from"], rename["from"])
            taken.add(stored[rename["to"]])
        if step.get("transferred_classes"):
            raise _bad(path, "transferred_classes takes objects from another Worker, which is not here")
        for name in step.get("deleted_classes", ()):
            deleted.append(stored.pop(name, name))
            taken.add(deleted[-1])
    return {new: old for new, old in stored.items() if new != old}, tuple(deleted)


def _names(name: str) -> Iterator[str]:
    return itertools.chain([name], (f"{name}.{number}" for number in itertools.count(2)))


_VARIABLE = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?([\w.-]+)[ \t]*=[ \t]*("(?:\\.|[^"\\])*"|'[^']*'|`[^`]*`|[^#\n]*)""", re.M
)


def _dev_vars(folder: Path, environment: str | None) -> dict[str, str]:
    """The secrets of `.dev.vars`, or of that of the environment; where there is neither, those of `.env`."""
    kinds = ("",) if environment is None else ("", f".{environment}")
    secrets = [folder / f".dev.vars{kind}" for kind in reversed(kinds)]
    found = next(([one] for one in secrets if one.is_file()), None) or [folder / f".env{kind}" for kind in kinds]
    named = {}
    for file in found:
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        for name, value in _VARIABLE.findall(text):
            named[name] = _unquote(value.strip())
    return named


def _unquote(value: str) -> str:
    quote = value[:1]
    if len(value) < 2 or quote not in "\"'`" or value[-1] != quote:
        return value
    value = value[1:-1]
    return re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[0]), value) if quote == '"' else value


_ESCAPED = {"n": "\n", "r": "\r", '"': '"'}


def _bad(path: Path, what: str) -> BadOption:
    return BadOption(f"{path}: {what}", code="workers.config")
