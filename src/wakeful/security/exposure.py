"""Layer 5, pure. Which objects and methods exist for callers outside?

Names are held against a strict pattern before they reach anything. Dotted names are operations of Wakeful's own parts,
names that begin with an underscore are the class's, and classes that begin with `wakeful.` are not for callers.
"""

import re
from typing import TYPE_CHECKING

from wakeful.values.errors import BadName, UnknownClass
from wakeful.values.ids import RESERVED, ObjectId, check_class, check_key

if TYPE_CHECKING:
    from wakeful.runtime.registry import Registry

_METHOD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")


def check_method_name(name: object) -> str:
    """A name that a method for callers outside can have, or `BadName`."""
    if not isinstance(name, str) or not _METHOD.fullmatch(name):
        raise BadName(
            f"method name {name!r:.100}: use letters, digits and '_', begin with a letter, at most 128",
            code="name.method",
        )
    return name


def check_object(cls: object, key: object) -> ObjectId:
    """An object's name that can be one, or `BadName`."""
    return ObjectId(check_class(cls), check_key(str(cls), key))


def check_call(registry: "Registry", cls: object, key: object, method: object) -> ObjectId:
    """The object whose method a caller outside may call; `BadName`, `UnknownClass` or `UnknownMethod` else."""
    id = check_object(cls, key)
    name = check_method_name(method)
    if id.cls.startswith(RESERVED) or not registry.knows(id.cls):
        raise unknown_class(registry, id.cls)
    registry.by_name(id.cls).check_method(name)
    return id


def unknown_class(registry: "Registry", cls: str) -> UnknownClass:
    """The error for outside: Wakeful's own classes are not in it."""
    known = [name for name in registry.names() if not name.startswith(RESERVED)]
    return UnknownClass(f"there is no class {cls!r}; known: {', '.join(known[:20]) or 'none'}")
