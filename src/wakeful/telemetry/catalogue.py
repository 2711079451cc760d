"""Layer 5. Which metrics are there, and where is each read?

One list, from which the Prometheus page, the OpenTelemetry instruments and docs/telemetry.md are made or checked. Names
are OpenTelemetry's; Prometheus has underscores for dots, the unit behind, and `_total` behind counters.
"""

import contextlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import wakeful
from wakeful.runtime.deployment_clock import FollowedClock
from wakeful.values.ids import RESERVED
from wakeful.values.metrics import Counter, Family, Gauge, Histogram

if TYPE_CHECKING:
    from wakeful.runtime.node import Node


# How is this process, as its operating system sees it?

_STARTED_S = time.time()  # near enough where the system does not say
Found = Iterable[tuple[tuple[str, ...], float]]


def build(node: "Node") -> Found:
    return [((wakeful.__version__, platform.python_version()), 1)]


def cpu(node: "Node") -> Found:
    return [((), time.process_time())]


def resident(node: "Node") -> Found:
    """Where the system tells."""
    with contextlib.suppress(OSError), open("/proc/self/statm", "rb") as file:
        return [((), int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))]
    if sys.platform != "win32":
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return [((), most if sys.platform == "darwin" else most * 1024)]
    return []  # type: ignore[unreachable]


def files(node: "Node") -> Found:
    """Where the system tells."""
    with contextlib.suppress(OSError):
        return [((), len(os.listdir("/proc/self/fd")) - 1)]  # one is the listing itself
    return []


def start(node: "Node") -> Found:
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        with open("/proc/stat", "rb") as file:
            booted = next(int(line.split()[1]) for line in file if line.startswith(b"btime"))
        return [((), booted + ticks / os.sysconf("SC_CLK_TCK"))]
    return [((), _STARTED_S)]


Kind = Literal["counter", "gauge", "histogram"]
Number = int | float
Labels = tuple[str, ...]
Sample = tuple[Labels, "Number | Histogram"]
Read = Callable[["Node"], Iterable[Sample]]

SLACK_MS = 300_000  # longer than between two scrapes, shorter than what is over for long

_UNITS = {"s": "seconds", "By": "bytes"}  # and how Prometheus calls them


class Metric(NamedTuple):
    """One line of the catalogue."""

    name: str
    kind: Kind
    unit: str  # as UCUM has it: s, By, 1, {timer}
    labels: Labels
    help: str
    read: Read
    scale: float = 1.0  # what was counted is so many of the unit
    of_process: bool = False  # the same whichever node of the process is asked

    @property
    def prometheus(self) -> str:
        name = self.name.replace(".", "_")
        unit = _UNITS.get(self.unit)
        if unit is not None and not name.endswith(unit):
            name = f"{name}_{unit}"
        return f"{name}_total" if self.kind == "counter" else name


def _one(number: Callable[["Node"], Number]) -> Read:
    return lambda node: [((), number(node))]


def _family(family: Callable[["Node"], Family[Any]]) -> Read:
    def read(node: "Node") -> Iterable[Sample]:
        for labels, found in family(node).items():
            yield labels, found.value if isinstance(found, Counter | Gauge) else found

    return read


def _histogram(histogram: Callable[["Node"], Histogram]) -> Read:
    return lambda node: [((), histogram(node))]


def _turns(node: "Node") -> Iterable[Sample]:
    for (cls,), found in node.meter.classes.items():
        if not cls.startswith(RESERVED):
            yield (cls, "call"), found.calls
            yield (cls, "reader"), found.readers
            yield (cls, "timer"), found.timers


def _failures(node: "Node") -> Iterable[Sample]:
    for (cls,), found in node.meter.classes.items():
        if not cls.startswith(RESERVED):
            yield (cls, "call"), found.failed_calls
            yield (cls, "timer"), found.failed_timers


def _behind_s(node: "Node") -> float:
    due_at = node.queue.oldest_at()
    return 0.0 if due_at is None else max(0, node.clock.now() - due_at) / 1000


def _jobs(node: "Node") -> Iterable[Sample]:
    counts = getattr(node.features.get("jobs"), "counts", None)
    for name in ("scheduled", "run", "retried", "rescheduled", "parked", "cancelled", "duplicates"):
        yield (name,), getattr(counts, name, 0)


def _queues(what: str) -> Read:
    def read(node: "Node") -> Iterable[Sample]:
        return [((queue,), found.value) for (queue, kind), found in node.meter.queues.items() if kind == what]

    return read


def _sockets(node: "Node") -> int:
    gateway = getattr(node.features.get("sockets"), "gateway", None)
    return len(gateway.sockets) if gateway is not None else 0


def _traces(node: "Node") -> Iterable[Sample]:
    for name in ("sampled", "unsampled"):
        found = getattr(node.tracer, name, None)
        if isinstance(found, Counter):
            yield (name,), found.value


def _steps(node: "Node") -> Iterable[Sample]:
    return [((way,), node.clock_steps[way]) for way in ("ahead", "back")]


def _offset_ms(node: "Node") -> int:
    return node.clock.offset_ms if isinstance(node.clock, FollowedClock) else 0


def _is_doubted(node: "Node") -> int:
    return int(isinstance(node.clock, FollowedClock) and node.clock.doubt is not None)


def _slack_ms(node: "Node") -> Iterable[Sample]:
    """Of the node of this process whose lease was closest to its end: a sum over its stores would say nothing."""
    found = [home.membership for home in node.all_homes if home.is_clustered and not home.is_client]
    slacks = [one.renewals.slack_ms(one.lease_until, node.clock.now(), SLACK_MS) for one in found]
    return [((), min(slacks, default=node.membership.lease.ms))]


def _suspects(node: "Node") -> int:
    return node.timer_runs.suspects.waiting(node.queue.running)


_MS, _US = 1e-3, 1e-6

CATALOGUE: tuple[Metric, ...] = (
    # timers
    Metric("wakeful.timers.fired", "counter", "{timer}", (), "Due timers that were handed to their objects.",
           _one(lambda n: n.dispatcher.fired)),
    Metric("wakeful.timers.lateness", "histogram", "s", ("kind",), "From when a timer was due to when its turn began.",
           _family(lambda n: n.meter.lateness), _MS),
    Metric("wakeful.timers.behind", "gauge", "s", (), "For how long the oldest due timer in memory has been waiting.",
           _one(_behind_s)),
    Metric("wakeful.timers.memory", "gauge", "{timer}", (), "Timers of the near future that are held in memory.",
           _one(lambda n: len(n.queue))),
    Metric("wakeful.timers.running", "gauge", "{timer}", (), "Due timers that were handed out and are not finished on disk, but for those in line to be tried.",
           _one(lambda n: len(n.queue.running) - _suspects(n))),
    Metric("wakeful.timers.suspected", "gauge", "{timer}", (), "Due timers in line to be tried a few at a time, or alone, because processes died while they ran.",
           _one(_suspects)),
    Metric("wakeful.timers.lined", "gauge", "{timer}", (), "Due timers that wait because their tenant has its share.",
           _one(lambda n: len(n.queue.lines))),
    Metric("wakeful.timers.parked", "counter", "{timer}", (), "Timers that failed for good and were parked.",
           _one(lambda n: n.meter.parked.value)),
    Metric("wakeful.timers.redriven", "counter", "{timer}", (), "Parked timers that were made due again or dropped.",
           _one(lambda n: n.meter.redriven.value)),
    Metric("wakeful.timers.unknown", "gauge", "1", (), "Classes, objects and timer names that are due and that this program does not know.",
           _one(lambda n: len(n.dispatcher.unknown))),
    Metric("wakeful.runs", "counter", "{run}", ("kind", "verdict"), "Ledger rows that reached the disk, by what they say.",
           _family(lambda n: n.meter.runs)),
    Metric("wakeful.retries", "counter", "{run}", (), "Failed attempts that are tried again.",
           _one(lambda n: n.meter.retries.value)),
    Metric("wakeful.jobs", "counter", "{job}", ("outcome",), "Jobs by what became of them on this node.", _jobs),
    Metric("wakeful.queues.waiting", "gauge", "{place}", ("queue",), "Jobs and workflows that wait in a queue, counted now and then.",
           _queues("waiting")),
    Metric("wakeful.queues.running", "gauge", "{place}", ("queue",), "Jobs and workflows that a queue has let go and that are not over.",
           _queues("running")),
    Metric("wakeful.queues.oldest", "gauge", "s", ("queue",), "For how long the oldest of those that wait has been waiting.",
           _queues("oldest_ms"), _MS),
    # turns and objects
    Metric("wakeful.turns.duration", "histogram", "s", ("class", "kind"), "How long turns took, waking included and waiting for a slot not.",
           _turns, _US),
    Metric("wakeful.turns.failures", "counter", "{turn}", ("class", "kind"), "Turns that raised.", _failures),
    Metric("wakeful.turns.running", "gauge", "{turn}", (), "Turns that hold a slot.", _one(lambda n: n.slots.taken)),
    Metric("wakeful.turns.waiting", "gauge", "{turn}", (), "Turns that wait for a slot.", _one(lambda n: n.slots.waiting)),
    Metric("wakeful.turns.bound", "gauge", "{turn}", (), "How many turns may run at once now; less after a start.",
           _one(lambda n: n.slots.bound)),
    Metric("wakeful.turns.slot_wait", "histogram", "s", (), "How long turns waited that did not get a slot at once.",
           _histogram(lambda n: n.meter.slot_waits), _US),
    Metric("wakeful.objects.awake", "gauge", "{object}", (), "Objects in memory.", _one(lambda n: len(n.awake))),
    Metric("wakeful.objects.wakes", "counter", "{object}", (), "How often an object was woken.", _one(lambda n: n.meter.wakes.value)),
    Metric("wakeful.objects.sleeps", "counter", "{object}", (), "How often an object fell asleep.", _one(lambda n: n.hibernation.slept)),
    Metric("wakeful.calls.refused", "counter", "{call}", (), "Calls that were turned away because too many wait for their object.",
           _one(lambda n: n.meter.full.value)),
    Metric("wakeful.calls.expired", "counter", "{call}", (), "Calls that had no answer by their deadline.",
           _one(lambda n: n.meter.expired.value)),
    # the store
    Metric("wakeful.commits", "counter", "{commit}", (), "Commits of objects that are on disk.", _one(lambda n: n.committer.commits)),
    Metric("wakeful.commits.failed", "counter", "{commit}", (), "Commits that the store could not take because it was away.",
           _one(lambda n: n.meter.commit_failures.value)),
    Metric("wakeful.commits.backlog", "gauge", "{commit}", (), "Commits that are not on disk yet.", _one(lambda n: n.committer.backlog)),
    Metric("wakeful.commits.group.size", "histogram", "{commit}", (), "Commits that shared one trip to the disk.",
           _histogram(lambda n: n.meter.commit_sizes)),
    Metric("wakeful.commits.group.duration", "histogram", "s", (), "How long one trip to the disk took.",
           _histogram(lambda n: n.meter.commits), _US),
    Metric("wakeful.inserts", "counter", "{timer}", (), "Timers that were added from outside a turn.", _one(lambda n: n.inserter.timers)),
    Metric("wakeful.inserts.group.duration", "histogram", "s", (), "How long one insert of such timers took.",
           _histogram(lambda n: n.meter.inserts), _US),
    Metric("wakeful.store.outages", "counter", "{outage}", (), "How often the store was away.", _one(lambda n: n.outage.count)),
    Metric("wakeful.store.rows", "gauge", "{row}", ("what",), "Objects, timers and parked timers in the store, counted now and then.",
           _family(lambda n: n.meter.stored)),
    Metric("wakeful.store.locked", "gauge", "s", (), "For how long somebody has held a lock on a table, for which reads or writes wait; 0: nobody, or for less than 3 s.",
           _one(lambda n: n.lock_watch.held_ms), _MS),
    # the node
    Metric("wakeful.node.down", "gauge", "{node}", (), "Nodes of this process, one for each of its stores, that don't run because their store is away.",
           _one(lambda n: int(n.state != "up"))),
    Metric("wakeful.node.draining", "gauge", "1", (), "1 while an operator wants the node to own nothing.",
           _one(lambda n: int(n.membership.is_draining))),
    Metric("wakeful.node.overloaded", "gauge", "1", (), "1 while due timers wait because the node has too much to do.",
           _one(lambda n: int(n.overload.is_on))),
    Metric("wakeful.node.overloads", "counter", "{episode}", (), "How often the node was overloaded.", _one(lambda n: n.overload.episodes)),
    Metric("wakeful.node.overload.time", "counter", "s", (), "How long it was overloaded in all.",
           _one(lambda n: n.overload.paused_ms), _MS),
    Metric("wakeful.loop.lag", "histogram", "s", (), "How late the event loop was, looked at twice a second.",
           _histogram(lambda n: n.meter.lag), _MS),
    Metric("wakeful.clock.offset", "gauge", "s", (), "How far the deployment's clock is ahead of this machine's.", _one(_offset_ms), _MS),
    Metric("wakeful.clock.doubted", "gauge", "1", (), "1 while nothing fires because the clock can't be trusted.", _one(_is_doubted)),
    Metric("wakeful.clock.steps", "counter", "{step}", ("way",), "How often the clock was set.", _steps),
    # the cluster
    Metric("wakeful.shards.owned", "gauge", "{shard}", (), "Shards that this node owns; all nodes together have 256.",
           _one(lambda n: len(n.epochs))),
    Metric("wakeful.shards.leaving", "gauge", "{shard}", (), "Shards that are being handed over.", _one(lambda n: len(n.ownership.leaving))),
    Metric("wakeful.shards.taken", "counter", "{shard}", (), "Shards that came to this node.", _one(lambda n: n.meter.shards_taken.value)),
    Metric("wakeful.shards.released", "counter", "{shard}", (), "Shards that it handed over.", _one(lambda n: n.meter.shards_released.value)),
    Metric("wakeful.shards.lost", "counter", "{shard}", (), "Shards that another node took from it.", _one(lambda n: n.ownership.losses)),
    Metric("wakeful.lease.slack", "gauge", "s", (), "The least that was left of the lease when it was renewed, in the last five minutes; below 0: it had been over.",
           _slack_ms, _MS, True),
    Metric("wakeful.lease.length", "gauge", "s", (), "For how long the others believe in this node after it was last heard of: its lease.",
           lambda n: [((), n.membership.lease.ms)], _MS, True),
    Metric("wakeful.cluster.nodes", "gauge", "{node}", (), "Nodes that this one sees in the store, itself included.",
           _one(lambda n: len(n.membership.nodes) if n.is_clustered else 1)),
    Metric("wakeful.links.open", "gauge", "{link}", (), "Connections to other nodes.", _one(lambda n: n.routes.links), 1.0, True),
    Metric("wakeful.links.unreached", "gauge", "{node}", (), "Nodes that live and can't be reached from this one.",
           _one(lambda n: len(n.routes.contacts.list_unreached()))),
    Metric("wakeful.links.failures", "counter", "{call}", ("code",), "Calls whose connection to another node broke or could not be made.",
           _family(lambda n: n.meter.link_failures)),
    Metric("wakeful.links.call.duration", "histogram", "s", (), "How long calls of other nodes took, there and back.",
           _histogram(lambda n: n.meter.link_calls), _US),
    Metric("wakeful.calls.sent", "counter", "{call}", (), "Calls sent to other nodes.", _one(lambda n: n.routes.sent)),
    Metric("wakeful.calls.received", "counter", "{call}", (), "Calls that came from other nodes.", _one(lambda n: n.routes.received)),
    Metric("wakeful.calls.repeated", "counter", "{call}", (), "Calls sent again because their object was on the move.",
           _one(lambda n: n.routes.repeated)),
    Metric("wakeful.hints.told", "counter", "{hint}", (), "Hints of new timers to other nodes.", _one(lambda n: n.arrivals.told)),
    Metric("wakeful.hints.heard", "counter", "{hint}", (), "Hints of new timers from other nodes.", _one(lambda n: n.arrivals.heard)),
    # the edges
    Metric("wakeful.http.requests", "counter", "{request}", ("method", "route", "status"), "Requests that were answered.",
           _family(lambda n: n.meter.http)),
    Metric("wakeful.http.duration", "histogram", "s", ("route",), "How long answers took; streams and waits for jobs are left out.", _family(lambda n: n.meter.http_durations), _US),
    Metric("wakeful.http.open", "gauge", "{request}", (), "Requests being answered, streams included.", _one(lambda n: n.meter.http_open.value)),
    Metric("wakeful.denied", "counter", "{request}", ("code",), "Requests of those who may not.", _family(lambda n: n.meter.denied)),
    Metric("wakeful.sockets.open", "gauge", "{socket}", (), "WebSockets that this process holds.", _one(_sockets), 1.0, True),
    Metric("wakeful.sockets.messages", "counter", "{message}", ("direction",), "Messages on WebSockets.",
           _family(lambda n: n.meter.socket_messages)),
    Metric("wakeful.sockets.dropped", "counter", "{message}", ("reason",), "Messages and sockets that were given up.",
           _family(lambda n: n.meter.socket_drops)),
    Metric("wakeful.events.readers", "gauge", "{reader}", (), "Streams of events that are being read.", _one(lambda n: n.events.readers), 1.0, True),
    Metric("wakeful.events.dropped", "counter", "{event}", (), "Events that a slow reader lost.", _one(lambda n: n.events.dropped), 1.0, True),
    Metric("wakeful.traces", "counter", "{trace}", ("outcome",), "Traces that began here, by whether they are recorded.", _traces, 1.0, True),
    # the process
    Metric("wakeful.build.info", "gauge", "1", ("version", "python"), "Always 1; the labels say what runs.", build, 1.0, True),
    Metric("process.cpu.time", "counter", "s", (), "Processor time of this process.", cpu, 1.0, True),
    Metric("process.memory.resident", "gauge", "By", (), "Memory of this process that is in RAM.", resident, 1.0, True),
    Metric("process.files.open", "gauge", "{file}", (), "Open files and connections.", files, 1.0, True),
    Metric("process.start.time", "gauge", "s", (), "When this process started, in seconds since 1970.", start, 1.0, True),
)  # fmt: skip


def read(metric: Metric, nodes: "Iterable[Node]") -> dict[Labels, "Number | Histogram"]:
    """The values of a metric over the nodes of this process, one for each set of labels."""
    values: dict[Labels, Number | Histogram] = {}
    for node in nodes:
        for labels, value in metric.read(node):
            before = values.get(labels)
            values[labels] = _copy(value) if before is None else _add(before, value)
        if metric.of_process:
            break
    return values


def _copy(value: "Number | Histogram") -> "Number | Histogram":
    """A histogram that stays as it is while it is written down."""
    return _add(Histogram(value.bounds), value) if isinstance(value, Histogram) else value


def _add(before: "Number | Histogram", value: "Number | Histogram") -> "Number | Histogram":
    if isinstance(before, Histogram) and isinstance(value, Histogram):
        before.counts = [one + other for one, other in zip(before.counts, value.counts, strict=True)]
        before.sum += value.sum
        return before
    assert not isinstance(before, Histogram)
    assert not isinstance(value, Histogram)
    return before + value
