"""Layer 0. Which occurrence is the turn of a due timer, where that is more than the timer itself says?"""

from msgspec import Struct


class Occurrence(Struct, frozen=True):
    """One time that a schedule names, as the ledger and the handler are told of it."""

    name: str  # the ledger's name for it
    run_id: str
    nominal_at: int
    missed: int = 0  # how many missed occurrences it answers for, itself included
    first_at: int = 0  # the first of those
    is_backfill: bool = False
