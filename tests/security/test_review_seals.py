"""A sealed value of which only the beginning is left is one bad row, not the end of every page that it stands on."""

import hashlib

import pytest

from wakeful.store.seal_places import Sealing
from wakeful.values.errors import NoKey, Undecodable
from wakeful.values.seals import MAGIC, KeyRing


def _bytes(count: int) -> bytes:
    return hashlib.shake_256(b"chance").digest(count)


def test_however_much_is_cut_off_it_is_told_and_not_raised() -> None:
    ring = KeyRing([_bytes(32)], _bytes)
    sealing = Sealing(ring)
    data = sealing.seal(b"a value", b"here")
    assert sealing.open(data, b"here") == b"a value"
    for length in range(len(MAGIC), len(data)):
        assert sealing.open(data[:length], b"here") == data[:length]
        with pytest.raises((Undecodable, NoKey)):
            ring.open(data[:length], b"here")
