"""Layer 5. Are the arguments of a call within the program what the method's annotations say, as they are?

Nothing is converted: what comes by HTTP or from a command line was, and what a program hands to itself reaches the method
as it came. `wakeful dev` looks, so that text where a time belongs is named at the call and not three days later at the
timer; a node in production does not, for a program that is typed pays nothing for it.
"""

import inspect
import types
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin, is_typeddict

from wakeful.operations.arguments import Parameter, is_model, signature_of
from wakeful.runtime.registry import ObjectClass
from wakeful.values.errors import BadValue

MEMBERS_MAX = 100  # of a long list the first are looked at


def check_call(
    known: ObjectClass, method: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, has_run: bool = False
) -> None:
    """`BadValue` names the argument that is missing, too much, or not of its type. `has_run`: a schedule gives it its run."""
    signature = signature_of(known, method, has_run=has_run)
    if not has_run:
        signature.check_count(args, kwargs)
    for at, value in enumerate(args):
        _check(signature.what, signature.by_place[at] if at < len(signature.by_place) else signature.rest, value)
    for name, value in kwargs.items():
        _check(signature.what, signature.by_name.get(name) or signature.others, value)


def _check(what: str, known: Parameter | None, value: Any) -> None:
    if known is None or known.convert is None or fits(value, known.hint):
        return
    wanted = inspect.formatannotation(known.hint)
    raise BadValue(
        f"{what}: argument {known.name!r}: expected {wanted}, got {type(value).__name__} {value!r:.60}",
        code="arguments.type",
    )


def fits(value: Any, hint: Any) -> bool:
    """It is what the annotation says, as far as that can be told: an int is a float, what is unknown is anything."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is None:
        return value is None
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in args)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in args)
    if origin is Annotated:
        return fits(value, args[0])
    if isinstance(hint, NewType):
        return fits(value, hint.__supertype__)
    kind = origin or hint
    if not isinstance(kind, type):
        return True
    if is_typeddict(kind) or is_model(kind):  # the fields of a model are what can be handed over
        return isinstance(value, Mapping)
    try:
        is_one = isinstance(value, kind) or (kind is float and isinstance(value, int))
    except TypeError:  # a protocol that says nothing at run time
        return True
    return is_one and (not args or _members_fit(value, kind, args))


def _members_fit(value: Any, kind: type, args: tuple[Any, ...]) -> bool:
    if kind.__module__ not in ("builtins", "collections.abc"):
        return True  # what its parameters stand for is its own
    if kind is tuple and args[-1] is not Ellipsis:
        return len(value) == len(args) and all(map(fits, value, args))
    if issubclass(kind, Mapping):
        return all(fits(key, args[0]) and fits(item, args[1]) for key, item in islice(value.items(), MEMBERS_MAX))
    if issubclass(kind, Collection) and (len(args) == 1 or kind is tuple):
        return all(fits(item, args[0]) for item in islice(value, MEMBERS_MAX))
    return True
