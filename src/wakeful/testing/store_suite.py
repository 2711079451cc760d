"""Layer 5. Does a store keep every promise of the seam? For people who write their own, and for ours.

Subclass `StoreSuite`, say how a new and empty store is made, and let pytest collect it. The tests are
coroutines; whatever runs them (`asyncio.run` will do) must call `close_stores` afterwards.

    class TestMyStore(StoreSuite):
        async def make_store(self) -> Store:
            return MyStore(…)
"""

from wakeful.testing.suites.commits import CommitSuite, SendSuite
from wakeful.testing.suites.fences import FenceSuite, NodeSuite
from wakeful.testing.suites.finds import FindSuite, PruneSuite
from wakeful.testing.suites.inserts import InsertSuite
from wakeful.testing.suites.objects import EraseSuite, ObjectSuite
from wakeful.testing.suites.timers import TimerSuite

__all__ = ["StoreSuite"]


class StoreSuite(
    CommitSuite,
    FenceSuite,
    NodeSuite,
    ObjectSuite,
    EraseSuite,
    TimerSuite,
    InsertSuite,
    SendSuite,
    FindSuite,
    PruneSuite,
):
    """Everything that a store must do, one test a sentence."""
