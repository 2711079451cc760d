"""Every store, every verb: the suite that is shipped, run on each of ours."""

from collections.abc import Callable

import pytest

from wakeful.store import Store
from wakeful.testing.store_suite import StoreSuite


class TestStores(StoreSuite):
    @pytest.fixture(autouse=True)
    def _stores(self, new_store: Callable[[], Store]) -> None:
        self.new_store = new_store

    async def make_store(self) -> Store:
        return self.new_store()


class TestBuckets(StoreSuite):
    """A bucket, wherever the other suites run: `make bucket` has them there as well."""

    @pytest.fixture(autouse=True)
    def _stores(self, store_of: Callable[[str], Store]) -> None:
        self.store_of = store_of

    async def make_store(self) -> Store:
        return self.store_of("bucket")
