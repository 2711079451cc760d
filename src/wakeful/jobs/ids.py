"""Layer 4. What are jobs called: for people, as timers, in the order of insertion?

`job:METHOD:TOKEN` is the timer of a job, `job:=KEY` that of one whose caller chose a key. The id names the target too.
"""

import re
from hashlib import blake2b
from urllib.parse import quote, unquote

from wakeful.values.errors import BadName, UnknownJob
from wakeful.values.ids import ObjectId, check_class, check_key
from wakeful.values.timers import Timer
from wakeful.values.times import Dice

PREFIX = "job"
TELL = "job-tell"  # ask the object of another job to tell this one when that has ended
TOLD = "job-told"  # it has
UNTELL = "job-untell"  # it need not: the one that waits is gone
ASK = "job-ask"  # schedule a job with a key here
PLACE = "job-place"  # what a queue says to a job that goes through it
KEYED = f"{PREFIX}:="
RECORD = "\x01"  # what the request key of a record begins with: no user's own can, it is not printable
KEY_BYTES_MAX = 200  # with its prefix it must fit a timer's name in every store

_PLAIN = re.compile(r"[A-Za-z0-9_.~:=-]*")


def new_token(dice: Dice) -> str:
    """A name that nobody else can have."""
    return f"{int(dice.random() * (1 << 48)):012x}{int(dice.random() * (1 << 32)):08x}"


def timer_name(method: str, token: str, key: str | None) -> str:
    return f"{PREFIX}:{method}:{token}" if key is None else f"{KEYED}{key}"


def job_id(target: ObjectId, name: str) -> str:
    """A job's id, made of its target and its timer's name."""
    cls, key, rest = target.cls, target.key, name[len(PREFIX) + 1 :]
    # Quoted as in a URL. Nearly every one needs no more than a look, and ids are made for each job.
    if _PLAIN.fullmatch(f"{cls}{key}{rest}"):
        return f"{cls}/{key}/{rest}".replace(":", "%3A").replace("=", "%3D")
    return f"{quote(cls, safe='')}/{quote(key, safe='')}/{quote(rest, safe='')}"


def parse_id(id: object) -> tuple[ObjectId, str]:
    """The target and the timer's name; `UnknownJob` for what can't be an id."""
    text = getattr(id, "id", id)  # a Job will do
    parts = text.split("/") if isinstance(text, str) else []
    if len(parts) != 3 or not all(parts):
        raise UnknownJob(f"{text!r} is not the id of a job; it looks like Class/key/method%3Atoken")
    cls, key, rest = (unquote(part) for part in parts)
    if "\0" in rest:  # which no store has in a name, and some can't be asked for
        raise UnknownJob(f"{text!r} is not the id of a job: it has a NUL in it")
    try:
        return ObjectId(check_class(cls), check_key(cls, key)), f"{PREFIX}:{rest}"
    except BadName as error:
        raise UnknownJob(f"{text!r} is not the id of a job: {error.message}") from None


def target_of(id: str) -> ObjectId:
    return parse_id(id)[0]


def key_of(name: str) -> str | None:
    """The caller's key in a timer's name."""
    return name[len(KEYED) :] if name.startswith(KEYED) else None


def method_of(name: str) -> str:
    """The method in the name of a timer that has no key."""
    return name.split(":")[1]


def check_job_key(key: object) -> str:
    """A key that can be one, or `BadName` that says why not."""
    if not isinstance(key, str) or not key:
        raise BadName(f"job key {key!r} must be text and not empty", code="name.job")
    if not key.isprintable() or len(key.encode(errors="replace")) > KEY_BYTES_MAX:
        raise BadName(f"job key {key[:40]!r}: at most {KEY_BYTES_MAX} bytes of printable text", code="name.job")
    return key


def ask_prefix(name: str) -> str:
    """What the names of errands begin with that schedule a job under that name."""
    return f"{ASK}:{_short(name)}:"


def _short(text: str) -> str:
    return blake2b(text.encode(), digest_size=12).hexdigest()


def short(id: str) -> str:
    """A job's id in few letters, for the name of a row."""
    return _short(id)


def attempt_id(timer: Timer, method: str) -> str:
    """New for each attempt, the same when one is redelivered.

    The name of a job with a key says nothing of its method, so its id does: when its record has expired, its ledger
    rows are all that is left to tell.
    """
    text = f"{timer.id.cls}\0{timer.id.key}\0{timer.name}\0{timer.seq}\0{timer.attempt}"
    found = blake2b(text.encode(), digest_size=12).hexdigest()
    return f"{found}:{method}" if method and timer.name.startswith(KEYED) else found


def method_in(name: str, run_id: str) -> str:
    """The method of a job, by its timer's name and an attempt's id; empty where those of a key don't say (older rows)."""
    return run_id.partition(":")[2] if name.startswith(KEYED) else method_of(name)
