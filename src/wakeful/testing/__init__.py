"""Layer 5. The test kit: a world whose time, disk and luck are yours."""

from wakeful.testing.faults import Faults
from wakeful.testing.world import World

__all__ = ["Faults", "World"]
