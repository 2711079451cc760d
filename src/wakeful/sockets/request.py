"""Layer 4. What does an object learn of who wants to connect?"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from wakeful.values.errors import BadOption


@dataclass(frozen=True, slots=True)
class SocketRequest:
    """The request with which a socket was asked for. Names of headers are in small letters."""

    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    protocols: tuple[str, ...] = ()  # offered by the client; `on_connect` may return the one to speak
    address: str = ""  # of the client, as the server sees it
    caller: str = ""  # the name of the token with which it came

    def plain(self) -> dict[str, Any]:
        """As it travels to the object's node."""
        return asdict(self)


def request_of(given: Mapping[str, Any]) -> SocketRequest:
    """A request of these parts; `BadOption` names one that there is not."""
    known = [one.name for one in fields(SocketRequest)]
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise BadOption(f"a request has no {unknown[0]!r}; it has {', '.join(known)}", code="socket.request")
    parts: dict[str, Any] = {name: tuple(value) if name == "protocols" else value for name, value in given.items()}
    return SocketRequest(**parts)
