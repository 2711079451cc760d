"""Layer 2. Whose connection goes, when more are here that have not proved who they are than there is room for?

Never the newcomer's: a member proves itself within milliseconds, so it is the silent who have been here longest that make
room, of the address that has most. Whoever wants to keep members out has to be quicker than they are, again and again.
"""

import ipaddress
from typing import Generic, Protocol, TypeVar


class Connection(Protocol):
    """One that may say who it is."""

    @property
    def has_spoken(self) -> bool:
        """A whole frame of its greeting has come."""
        ...


C = TypeVar("C", bound=Connection)

_NETWORK_BITS = 64  # of IPv6: what one customer of a provider has


class Strangers(Generic[C]):
    """Connections that are not known yet, the oldest first: at most so many, and so many of one place."""

    def __init__(self, most: int, *, of_one: int) -> None:
        self._most = most
        self._of_one = of_one
        self._places: dict[C, str] = {}

    def room_for(self, wire: C, place: str) -> C | None:
        """Take it in; the one that has to go for it, if there is no room."""
        counts: dict[str, int] = {}
        for known in self._places.values():
            counts[known] = counts.get(known, 0) + 1
        gone: C | None = None
        if counts.get(place, 0) >= self._of_one:
            gone = self._oldest(place)
        elif len(self._places) >= self._most:
            gone = self._oldest(max(counts, key=lambda known: counts[known]) if max(counts.values()) > 1 else None)
        if gone is not None:
            del self._places[gone]
        self._places[wire] = place
        return gone

    def leave(self, wire: C) -> None:
        """It has said who it is, or is gone."""
        self._places.pop(wire, None)

    def _oldest(self, place: str | None) -> C:
        """Of that place, or of all: the one that has been silent for longest, else the one that has been here for longest."""
        found = [wire for wire, known in self._places.items() if place is None or known == place]
        return next((wire for wire in found if not wire.has_spoken), found[0])


def place_of(host: str) -> str:
    """The address, or the network of it where one party has as many addresses as it likes."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((address, _NETWORK_BITS), strict=False))
    return host
