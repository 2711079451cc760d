"""Layer 1, pure. How much is too much, and why there?"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, fields

from wakeful.values.errors import BadOption, LimitExceeded
from wakeful.values.ids import check_class

# How much may a node take on that has just started?
#
# Two ramps: how many shards it may have claimed by now, and how many turns it may run at once. Both
# only ever grow with its age.


def shards_allowed(age_ms: int, *, first: int, double_every_ms: int, total: int) -> int:
    """How many shards a node of that age may have claimed since it started: `first`, then twice as many each period.

    A period of 0 means all of them at once.
    """
    if first < 1:
        raise BadOption(
            f"first must be at least 1, or the node would never own a shard, not {first}", code="ramp.option"
        )
    if double_every_ms <= 0:
        return total
    doublings = max(0, age_ms) // double_every_ms
    if doublings >= total.bit_length():
        return total
    return min(total, first << doublings)


def claimable(owned: Set[int], wanted: Iterable[int], allowed: int, *, claimed: int = 0) -> list[int]:
    """Which of the wanted shards it may claim now, in the order given: those it lacks, as far as the budget goes.

    What it owns already is never counted against it. `claimed` is how many of those it owns were claimed
    on this ramp, when the budget is for the ramp as a whole and not for this one round.
    """
    lacking = [shard for shard in wanted if shard not in owned]
    return lacking[: max(0, allowed - claimed)]


def turns_allowed(age_ms: int, *, initial: int, limit: int, over_ms: int) -> int:
    """How many turns may run at once at that age: from `initial` evenly up to `limit`, which it reaches after `over_ms`.

    0 for `over_ms` is off: the limit holds at once, and only then may `initial` be 0.
    """
    check_slow_start(initial, over_ms)
    if over_ms <= 0 or age_ms >= over_ms or initial >= limit:
        return limit
    return initial + (limit - initial) * max(0, age_ms) // over_ms


def check_slow_start(initial: int, over_ms: int) -> None:
    """`BadOption` when nothing at all could run at first."""
    if over_ms > 0 and initial < 1:
        raise BadOption(
            f"slow_start_turns must be at least 1 while slow_start_ms is {over_ms}, not {initial}; "
            "slow_start_ms=0 turns slow start off",
            code="limit.option",
        )


# Fixed, because stores are built around them: the storage key must fit one PostgreSQL index row
# beside the longest class name and object key; the value is what Cloudflare's users know.
STORAGE_KEY_BYTES_MAX = 2_048
VALUE_BYTES_MAX = 2 * 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one node; every one is an option of `App(limits=Limits(…))` and is listed in docs/limits.md.

    >>> from wakeful import App, Limits
    >>> app = App(limits=Limits(concurrent_turns=50, turns_of={"Mailer": 3}))
    >>> Limits().call_deadline_ms
    60000
    """

    keys_per_call: int = 10_000  # one `put_many`/`get_many`/`delete_many` is one message to the store
    arguments_bytes: int = 1_048_576  # a call's arguments, and its answer, travel in one message
    call_deadline_ms: int = 60_000  # generous: a caller that waits a minute has usually gone
    alarm_deadline_ms: int = 900_000  # 15 minutes, as on Cloudflare
    awake_objects: int = 10_000  # about 40 MB of idle objects before the least recently used sleep
    concurrent_turns: int = 1_000  # more at once only fight for one interpreter
    class_turns: int | None = None  # of these, for each class; None: as many as the node runs
    tenant_turns: int | None = None  # and for each tenant
    turns_of: Mapping[str, int] = field(default_factory=dict, hash=False)  # instead of `class_turns`, by class name
    slow_start_turns: int = (
        100  # what a node begins with when it starts or takes over, on its way to `concurrent_turns`
    )
    slow_start_ms: int = 0  # how long it takes to get there; 0: it begins with all of them
    overload_lag_ms: int = 2_000  # an event loop that is so late has more to do than it can
    mailbox: int = 10_000  # calls waiting for one object; past it callers are told to back off
    cache_bytes_per_object: int = 1_048_576  # rows an awake object keeps in memory
    near_timers: int = 20_000  # timers held in memory, about 10 MB
    near_horizon_ms: int = 1_800_000  # how far ahead they are held
    group_commits: int = 500  # turns in one physical commit, so that one group stays a few milliseconds
    request_keep_ms: int = 86_400_000  # how long a request key's answer is remembered
    ledger_keep: int = 100  # runs kept per timer name of an object
    ledger_keep_ms: int = 604_800_000  # and for how long: 7 days
    schedules_per_object: int = 50_000  # beyond about 10,000 spread them over objects with `sharded`
    job_keep_ms: int = 86_400_000  # how long the result of a job is kept
    workflow_steps: int = 10_000  # of one workflow: all are read when its body begins; a longer one continues as new
    workflow_events: int = 1_000  # kept of one workflow for a wait that is still to come
    audit_rows: int = 10_000  # operators' acts that are kept, and as many refusals
    jobs_per_call: int = 100_000  # one `schedule_many` is one insert
    sockets_per_object: int = 32_768  # a broadcast goes to all of them in one turn
    sockets_per_node: int = 10_000  # connections that one process holds, about 20 KB each
    socket_message_bytes: int = 1_048_576  # one message, either way
    socket_queue_bytes: int = 1_048_576  # waiting for a client that does not read; past it the socket is closed
    socket_messages_per_s: int = 1_000  # of one client; it is read no faster
    sql_bytes: int = 16_777_216  # an object's database, all of which is in memory, twice, while it is awake
    sql_rows: int = 50_000  # of one result, all of which is in memory
    sql_result_bytes: int = 16_777_216  # and what its texts and blobs come to
    sql_ms: int = 1_000  # one statement; nothing else runs meanwhile, and a node has a lease to keep
    sql_open: int = 1_000  # connections to databases, about 100 KB each; idle objects close theirs
    history_bytes: int = 67_108_864  # what one commit's undo image holds of what was, all of which is in memory
    threads: int = 32  # methods marked @in_thread that run at once; more wait, and the interpreter is one anyway
    processes: int | None = None  # methods marked @in_process that run at once; None: one for each core
    store_wait_ms: int = 30_000  # how long a call, or `wakeful run`, waits for a store that is away
    store_waiting: int = 10_000  # calls that wait for it at once; past it callers are told to back off
    stop_deadline_ms: int = 10_000  # what running turns are given when the node stops

    def __post_init__(self) -> None:
        for known in fields(self):
            name = known.name
            value = getattr(self, name)
            if name == "turns_of":
                self._check_turns_of(value)
            elif not (value is None and name in _MAY_BE_NONE):
                _check_whole(name, value, least=0 if name in _MAY_BE_ZERO else 1)
        check_slow_start(self.slow_start_turns, self.slow_start_ms)

    def _check_turns_of(self, value: object) -> None:
        if not isinstance(value, Mapping):
            raise BadOption(f"limit turns_of must map class names to whole numbers, not {value!r}", code="limit.option")
        for cls, turns in value.items():
            check_class(cls)
            _check_whole(f"turns_of[{cls!r}]", turns, least=1)


_MAY_BE_NONE = frozenset({"class_turns", "processes", "tenant_turns"})
_MAY_BE_ZERO = frozenset({"slow_start_turns", "slow_start_ms"})


def _check_whole(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadOption(f"limit {name} must be a whole number from {least}, not {value!r}", code="limit.option")


def check_storage_key(key: object) -> str:
    """A storage key that every store can hold, or a typed error that says by how much it is too long."""
    if type(key) is not str:
        raise BadOption(f"storage key {key!r} must be text, not {type(key).__name__}", code="key.type")
    # A character is at most four bytes, so most keys need no encoding to be judged.
    if len(key) * 4 > STORAGE_KEY_BYTES_MAX or not key.isascii():
        try:
            size = len(key.encode())
        except UnicodeEncodeError:
            raise BadOption(f"storage key {key!r} is not valid Unicode text", code="key.type") from None
        if size > STORAGE_KEY_BYTES_MAX:
            raise LimitExceeded(
                f"storage key {key[:32]!r}… has {size} bytes, {size - STORAGE_KEY_BYTES_MAX} more than the limit of {STORAGE_KEY_BYTES_MAX}",
                code="limit.key",
            )
    return key


def check_value_size(key: str, size: int) -> None:
    """`LimitExceeded` when an encoded value is too large to store."""
    if size > VALUE_BYTES_MAX:
        raise LimitExceeded(
            f"value of {key[:64]!r} has {size} bytes encoded, {size - VALUE_BYTES_MAX} more than the limit of {VALUE_BYTES_MAX}; split it over several keys",
            code="limit.value",
        )


def check_count(what: str, count: int, limit: int) -> None:
    """`LimitExceeded` when one call names too many things."""
    if count > limit:
        raise LimitExceeded(
            f"{what}: {count} in one call, {count - limit} more than the limit of {limit}", code="limit.count"
        )
