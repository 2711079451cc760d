"""Layer 5, pure. Do the options of a server make sense? One that does not would be found out by a page that is refused."""

import re
from collections.abc import Mapping, Sequence

from wakeful.values.errors import BadOption

_ORIGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:(?P<port>[1-9][0-9]{0,4}))?")
_LEFT_OUT = {"http": "80", "https": "443"}  # a browser does not say them
LIMITS = ("body_bytes_max", "requests_max", "looks_max", "streams_max")


def check_origins(cors: object) -> tuple[str, ...]:
    """Origins as browsers send them; `BadOption` says what to write instead."""
    if isinstance(cors, str | bytes) or not isinstance(cors, Sequence | set | frozenset):
        raise BadOption(f'cors must be a list of origins, like ["https://ops.example.com"], not {cors!r}', code="cors")
    for origin in cors:
        _check_origin(origin)
    return tuple(cors)


def _check_origin(origin: object) -> None:
    if origin == "*":
        raise BadOption("cors: '*' would let every page in; name the origins of yours", code="cors")
    parts = _ORIGIN.fullmatch(origin) if isinstance(origin, str) else None
    if parts is None:
        raise BadOption(
            f"cors: {origin!r} is no origin as a browser sends it; write scheme and host in lower case, "
            "without a path or a slash at the end: https://ops.example.com",
            code="cors",
        )
    port = parts["port"]
    if port is not None and _LEFT_OUT.get(parts["scheme"]) == port:
        raise BadOption(f"cors: {origin!r}: leave out :{port}, as browsers do", code="cors")


def check_switch(name: str, value: object) -> None:
    """`BadOption` for what is neither True nor False."""
    if not isinstance(value, bool):
        raise BadOption(f"{name} must be True or False, not {value!r}", code=f"server.{name}")


def check_limits(limits: Mapping[str, object]) -> None:
    """`BadOption` for a bound that is none, or that there is not."""
    for name, value in limits.items():
        if name not in LIMITS:
            raise BadOption(f"there is no option {name!r}; bounds are {', '.join(LIMITS)}", code="server.option")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadOption(f"{name} must be a whole number from 1, not {value!r}", code=f"server.{name}")
