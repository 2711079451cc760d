"""Layer 5. The OpenAPI 3.1 document, made of the table of resources and of the program's classes."""

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from wakeful.http.answers import SCHEMAS, ref
from wakeful.http.rows import ROWS
from wakeful.http.table import TO_15M, Route
from wakeful.machine import Machine
from wakeful.machines.event_shapes import EventShapes
from wakeful.operations.arguments import Parameter, Signature, signature_of
from wakeful.values.ids import KEY_BYTES_MAX, RESERVED

if TYPE_CHECKING:
    from wakeful.runtime.registry import ObjectClass, Registry

REFS = "#/components/schemas/{name}"
ALWAYS = {400: "The request makes no sense.", 414: "The URL is too long.", 422: "A value in it does not fit."}
ADMITTED = {
    401: "A token is needed, or this one is not known.",
    403: "The token is not for this.",
    429: "Too many requests; Retry-After says when again.",
    503: "Nothing was done: the store or the node can't answer now, or too much is under way. Try again.",
}
SOMETIMES = {
    404: "There is no such thing.",
    409: "The present state does not allow it, or the key was used for something else.",
    413: "The body is too large.",
    415: "The body is of a kind that is not taken here.",
    424: "The object was reached, and its own code failed; nothing of the turn is kept.",
    429: "A quota is used up.",
    503: "Not now.",
    504: "It took longer than its deadline.",
}
HEADERS = {
    "Idempotency-Key": (
        "Sent again it is done once: of a call the first answer is given again, of a job it is the same job.",
        {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    ),
    "Wakeful-Deadline": (
        "How long to wait: 30, 30s, 250ms or 5m; at most 15m.",
        {"type": "string", "pattern": f"^({TO_15M})$"},
    ),
    "Last-Event-ID": ("The id of the last event that was read, to go on from there.", {"type": "string"}),
    "traceparent": ("W3C trace context.", {"type": "string"}),
}
SEGMENTS: dict[str, dict[str, Any]] = {
    "class": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_.-]{0,63}$"},
    "key": {"type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX // 4, "pattern": "^[^\\x00-\\x1f\\x7f]+$"},
    "method": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_]{0,127}$"},
    "name": {"type": "string", "pattern": "^[!-~]{1,50}$"},
    "id": {"type": "string", "minLength": 1, "maxLength": 1_000},
    "number": {"type": "integer", "minimum": 1, "maximum": 2**53},
    "node": {"type": "string", "pattern": "^[0-9A-Za-z-]{1,40}$"},
}  # fmt: skip


def document(registry: "Registry") -> dict[str, Any]:
    """The whole document; classes that Wakeful keeps for itself are not in it."""
    schemas = dict(SCHEMAS)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROWS:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    for name in registry.names():
        if not name.startswith(RESERVED):
            _add_class(registry.by_name(name), paths, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wakeful",
            "version": "1",
            "description": "Durable objects: call them, look at them without waking them, operate what they owe.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "tags": [route.path.strip("/").split("/")[1] if route.path.startswith("/v1/") else "process"],
        "parameters": [*_segments(route.path), *_queries(route), *_headers(route.headers)],
        "responses": _responses(route, ref(route.answer)),
    }
    if route.body is not None:
        operation["requestBody"] = _body(_schema(route.body, schemas), is_needed=route.is_body_needed)
    if route.scope:
        operation["security"] = [{"bearer": []}]
        operation["description"] = f"Needs the scope `{route.scope}`."
    else:
        operation["security"] = []
    return operation


def _segments(path: str) -> list[dict[str, Any]]:
    names = [part.strip("{}") for part in path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": SEGMENTS[name]} for name in names]


def _queries(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "in": "query",
            "required": one.is_needed,
            "schema": dict(one.schema),
            "description": one.about,
        }
        for one in route.query
    ]


def _headers(names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "required": False, "schema": HEADERS[name][1], "description": HEADERS[name][0]}
        for name in names
    ]


def _body(schema: dict[str, Any], *, is_needed: bool) -> dict[str, Any]:
    return {"required": is_needed, "content": {"application/json": {"schema": schema}}}


def _responses(route: Route, answer: dict[str, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {
        str(route.status): {"description": "It is done.", "content": {route.media: {"schema": answer}}}
    }
    told = dict(ALWAYS) | (ADMITTED if route.scope else {})
    if route.body is not None:
        told |= {status: SOMETIMES[status] for status in (413, 415)}
    told |= {status: SOMETIMES[status] for status in route.problems if status not in told}
    for status in sorted(told):
        media = {"application/problem+json": {"schema": ref("Problem")}}
        if route.path == "/readyz" and status == 503:
            media = {"application/json": {"schema": ref("Health")}}
        responses[str(status)] = {"description": told[status], "content": media}
    return responses


def _schema(body: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a body; what it names goes among the others."""
    if body is object:
        return {"description": "Arguments: a list by place, or an object by name.", "type": ["array", "object", "null"]}
    [found], components = msgspec.json.schema_components([body], ref_template=REFS)
    schemas.update(components)
    return found


# the program's own methods


Shapes = dict[tuple[str, str], dict[str, Any]]  # the schema of each argument, by method and name


def _add_class(known: "ObjectClass", paths: dict[str, dict[str, Any]], schemas: dict[str, Any]) -> None:
    base = next(route for route in ROWS if route.is_call)
    shapes = _shapes(known, schemas)
    for method in known.outside:
        signature = signature_of(known, method)
        about = inspect.getdoc(getattr(known.cls, method)) or ""
        made = {
            "operationId": f"{known.name}.{method}",
            "summary": about.partition("\n")[0] or f"{known.name}.{method}",
            "tags": [known.name],
            "parameters": [*_segments("/{key}"), *_queries(base), *_headers(base.headers)],
            "requestBody": _arguments(signature, shapes),
            "responses": _responses(base, _answer(signature)),
            "security": [{"bearer": []}],
            "description": "\n".join(part for part in (about.partition("\n")[2].strip(), _kind(known, method)) if part),
        }
        paths[f"/v1/objects/{known.name}/{{key}}/{method}"] = {"post": made}


def _kind(known: "ObjectClass", method: str) -> str:
    return "Only reads. Needs the scope `call`." if method in known.readers else "Needs the scope `call`."


def _arguments(signature: Signature, shapes: Shapes) -> dict[str, Any]:
    """Arguments by name, or by place where there are no others."""

    def shape(one: Parameter) -> dict[str, Any]:
        return shapes[signature.what, one.name]

    named = {name: shape(one) for name, one in signature.by_name.items()}
    needed = [name for name, one in signature.by_name.items() if one.is_needed]
    by_name: dict[str, Any] = {"type": "object", "properties": named, "required": needed}
    by_name["additionalProperties"] = shape(signature.others) if signature.others else False
    placed = [shape(one) for one in signature.by_place]
    least = sum(one.is_needed for one in signature.by_place)
    by_place: dict[str, Any] = {"type": "array", "minItems": least}
    if placed:
        by_place["prefixItems"] = placed
    if signature.rest:
        by_place["items"] = shape(signature.rest)
    else:
        by_place |= {"items": False, "maxItems": len(placed)}
    only_names = any(one.is_needed for name, one in signature.by_name.items() if one not in signature.by_place)
    ways = [] if signature.only_place else [by_name]
    ways += [] if only_names else [by_place]
    ways += [] if needed or least else [{"type": "null"}]  # as no body at all
    schema = {"anyOf": ways} if len(ways) > 1 else (ways or [by_name])[0]
    return _body(schema, is_needed=bool(needed or least))


def _shapes(known: "ObjectClass", schemas: dict[str, Any]) -> Shapes:
    """What the arguments of all methods look like; types that they name go among the others, under the class's name.

    Not under their own: a program may well have a `Job`, and two of the same name.
    """
    shapes: Shapes = {}
    hints: list[tuple[tuple[str, str], Any]] = []
    for method in known.outside:
        signature = signature_of(known, method)
        for one in (*signature.by_place, *signature.by_name.values(), signature.rest, signature.others):
            if one is not None:
                shapes[signature.what, one.name] = {}
                hints += [] if one.convert is None else [((signature.what, one.name), one.hint)]
    found, components = msgspec.json.schema_components(
        [hint for _, hint in hints],
        schema_hook=lambda kind: {"title": kind.__name__},  # a model, which says itself what fits
        ref_template=REFS.format(name=f"{known.name}.{{name}}"),
    )
    schemas |= {f"{known.name}.{name}": one for name, one in components.items()}
    made = shapes | {place: _with_length(schema) for (place, _), schema in zip(hints, found, strict=True)}
    declared = getattr(known.cls, "events", None) if issubclass(known.cls, Machine) else None
    if declared is not None:
        schema, named = EventShapes(known.name, declared).schema()
        schemas |= named
        made[f"{known.name}.send", "event"] = schema
    return made


def _with_length(schema: dict[str, Any]) -> dict[str, Any]:
    """A length of time may also be a number of seconds, or text like 5m; not so inside of something else."""
    if schema.get("format") == "duration":
        return {"type": ["string", "number"], "description": "Seconds, text like 5m, or an ISO 8601 duration."}
    return schema | {"anyOf": [_with_length(one) for one in schema["anyOf"]]} if "anyOf" in schema else schema


def _answer(signature: Signature) -> dict[str, Any]:
    """What the method is said to return; as JSON, where that is said by nothing but plain types."""
    hint = signature.answer
    plain = msgspec.json.schema(hint) if hint in _PLAIN else {}
    return {"type": "object", "properties": {"result": plain}, "required": ["result"]}


_PLAIN = (None, type(None), bool, int, str, list[int], list[str], dict[str, int], dict[str, str])
