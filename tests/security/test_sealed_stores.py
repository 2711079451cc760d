"""A store with a seal on it keeps every promise of the store beneath: the shipped suite, on all three."""

import os
from collections.abc import Callable

import pytest

from wakeful.store import Store
from wakeful.store.protocol import WHOLE_BYTES_MAX
from wakeful.store.sealed_store import SealedStore
from wakeful.testing.store_suite import StoreSuite
from wakeful.testing.suites.harness import A
from wakeful.values.commits import USER
from wakeful.values.seals import OVERHEAD, KeyRing


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def new_store(request: pytest.FixtureRequest, store_of: Callable[[str], Store]) -> Callable[[], Store]:
    """Makes a new and empty sealed store of one kind at every call."""
    kind: str = request.param
    ring = KeyRing([bytes(range(32))], os.urandom)
    return lambda: SealedStore(store_of(kind), ring)


class TestSealedStores(StoreSuite):
    @pytest.fixture(autouse=True)
    def _stores(self, new_store: Callable[[], Store]) -> None:
        self.new_store = new_store

    async def make_store(self) -> Store:
        return self.new_store()

    async def test_an_object_of_many_bytes_is_not_loaded_whole(self) -> None:
        """As beneath, by the bytes that are on disk, which have the seals in them."""
        store = await self.open_store()
        await self.done(store, self.turn(puts={(USER, "k"): b"v" * (WHOLE_BYTES_MAX - 1 - OVERHEAD)}))
        assert (await store.load([A]))[0].complete
        await self.done(store, self.turn(puts={(USER, "k"): b"v" * (WHOLE_BYTES_MAX - OVERHEAD)}))
        assert not (await store.load([A]))[0].complete
