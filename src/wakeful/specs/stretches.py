"""Layer 1, pure. How far does a spec name everything that another one names, so that a search can jump over it?"""

from wakeful.specs.cron import Cron, Marks
from wakeful.specs.interval import Interval
from wakeful.specs.rrule import Rule
from wakeful.specs.spec import Spec

_ALL = frozenset(range(60)), frozenset(range(60)), frozenset(range(24))


def stretch_end(out: Spec, at: int, spec: Spec) -> int | None:
    """The first instant after `at`, which both name, at which the spec may name one that `out` does not; None for never."""
    if isinstance(out, Interval):
        return None if _grain(spec) % out.length_ms == 0 else at + 1
    if isinstance(out, Cron) and _grain(spec) >= 1000:
        return out.covered(at, _marks(spec, out))[1]
    parts: tuple[Spec, ...] = getattr(out, "parts", ())
    part = next((one for one in parts if one.next_ms(at - 1) == at), None)
    return at + 1 if part is None else stretch_end(part, at, spec)


def stretch_start(out: Spec, at: int, spec: Spec) -> int | None:
    """The same backwards: the last instant before `at`."""
    if isinstance(out, Interval):
        return None if out.start == "free" and _grain(spec) % out.length_ms == 0 else at - 1
    if isinstance(out, Cron) and _grain(spec) >= 1000:
        return out.covered(at, _marks(spec, out))[0]
    parts: tuple[Spec, ...] = getattr(out, "parts", ())
    part = next((one for one in parts if one.next_ms(at - 1) == at), None)
    return at - 1 if part is None else stretch_start(part, at, spec)


def _grain(spec: Spec) -> int:
    """Two instants of the spec are a multiple of that many milliseconds apart."""
    if isinstance(spec, Interval):
        return spec.length_ms if spec.length_ms % 1000 == 0 else 1
    if isinstance(spec, Cron):
        return 60_000 if len(spec.marks[0]) == 1 and spec.zone in (None, "UTC") else 1000
    return 1000 if isinstance(spec, Rule) else 1


def _marks(spec: Spec, out: Cron) -> Marks:
    """The seconds, minutes and hours that the spec may name, on the clocks of the other."""
    return spec.marks if isinstance(spec, Cron) and spec.zone == out.zone else _ALL
