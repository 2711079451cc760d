"""Layer 3. What is written down about the run of a timer, before it and of its failure?"""

from wakeful.values.commits import Commit, Start
from wakeful.values.timers import Timer


def start_note(timer: Timer, shard: int, epoch: int, crashes: int, now: int) -> Commit:
    """The note on disk that the timer is about to run, so that a crash can be laid at its door."""
    return Commit(id=timer.id, shard=shard, epoch=epoch, now=now, starts=(Start(timer.name, timer.seq, crashes),))


def storable(text: str) -> str:
    """Text that every store can hold: a handler may raise with anything, and its failure must still be written."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """What the error says, as every store can hold it; one may fail at saying it."""
    try:
        return storable(str(error))
    except Exception:
        return "its text can't be made"


def words_of(error: BaseException) -> str:
    """Its kind and what it says."""
    return f"{storable(type(error).__name__)}: {text_of(error)}"
