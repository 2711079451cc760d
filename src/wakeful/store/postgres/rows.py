"""Layer 2. How do rows become values again?"""

from collections.abc import Collection, Sequence

from wakeful.store.postgres.session import lock_key
from wakeful.store.postgres.wire import Row
from wakeful.store.protocol import WHOLE_BYTES_MAX, WHOLE_ROWS_MAX, NodeRow, Obstacle
from wakeful.values.commits import Info, Loaded, Remembered
from wakeful.values.ids import ObjectId
from wakeful.values.timers import ALARM, Entry, Parked, Timer

NOTHING = Loaded(None, None, {}, True)


def node_of(row: Row, is_here: bool | None) -> NodeRow:
    """From a row of nodes.sql."""
    node, address, joined_at, lease_until, about, cluster, version, is_draining, lease_ms, *_ = row
    return NodeRow(node, address, joined_at, lease_until, about, cluster, version, is_draining, is_here, lease_ms)


def is_here(row: Row, held: Collection[int], schema: str, *, can_miss: bool) -> bool | None:
    """Whether the node of a row of nodes.sql holds its lock, of those that are held; None when that can't be told."""
    if not row["has_session"]:
        return None
    if lock_key(schema, row["node"]) in held:
        return True
    return False if can_miss else None


def timer_of(row: Row) -> Timer:
    """From the columns cls, key, name, due_at, nominal_at, seq, attempt, crashes, started, priority, payload, in front."""
    cls, key, name, due_at, nominal_at, seq, attempt, crashes, started, priority, payload = row[:11]
    return Timer(ObjectId(cls, key), name, due_at, nominal_at, seq, attempt, crashes, started, priority, payload)


def info_of(row: Row) -> Info:
    cls, key, created_at, active_at, rows, size = row
    return Info(ObjectId(cls, key), created_at, active_at, rows, size)


def entry_of(row: Row) -> tuple[int, Entry]:
    number, cls, key, *rest = row
    return number, Entry(ObjectId(cls, key), *rest)


def answer_of(row: Row) -> tuple[ObjectId, Remembered]:
    cls, key, request, *rest = row
    return ObjectId(cls, key), Remembered(request.decode(), *rest)


def parked_of(row: Row) -> Parked:
    number, *rest = row
    run_id, parked_at, attempts, reason, error, traceback = rest[11:]
    return Parked(timer_of(rest), run_id, parked_at, attempts, reason, error, traceback, number)


def obstacle_of(index: int, row: Row) -> Obstacle:
    """From a row of obstacles.sql."""
    timer, answer, parked = row[1:12], row[12:16], row[16:]
    return Obstacle(
        index,
        None if timer[0] is None else timer_of(timer),
        None if parked[0] is None else parked_of(parked),
        None if answer[0] is None else Remembered(answer[0].decode(), *answer[1:]),
    )


def joined_ids(ids: Sequence[ObjectId]) -> dict[str, str]:
    """Their names, of which there is one at least, as load.sql takes them: in two texts, with something between that is in none."""
    between = "\n"
    while True:
        classes, keys = between.join([id.cls for id in ids]), between.join([id.key for id in ids])
        if classes.count(between) == keys.count(between) == len(ids) - 1:
            return {"cls": classes, "key": keys, "between": between}
        between += "\1"  # no object's name has a line break, but whoever asks may not know that


def loaded_of(id: ObjectId, row: Row) -> Loaded:
    """From a row of load.sql."""
    _, created_at, active_at, rows, size, due_at, nominal_at, seq, *timer, spaces, names, values = row
    alarm = None if due_at is None else Timer(id, ALARM, due_at, nominal_at, seq, *timer)
    kept = {}
    if spaces is not None:
        kept = {(space, name.decode()): value for space, name, value in zip(spaces, names, values, strict=True)}
    whole = rows <= WHOLE_ROWS_MAX and size <= WHOLE_BYTES_MAX
    return Loaded(Info(id, created_at, active_at, rows, size), alarm, kept, whole)
