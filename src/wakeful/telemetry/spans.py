"""Layer 5. How do calls, due timers, turns and commits become spans of OpenTelemetry?"""

import random
import time
from collections.abc import Callable
from contextvars import Token
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace as otel
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from wakeful.values.errors import BadOption, WakefulError
from wakeful.values.ids import ObjectId
from wakeful.values.metrics import Counter
from wakeful.values.trace import LINK, TRACE, UNSAMPLED, Span, trace_of_header

# Asked at every call. The function that everybody is shown only calls this one.
_here: Callable[[], otel_context.Context] = getattr(otel_context, "_RUNTIME_CONTEXT", otel_context).get_current

_KINDS = {
    "call": SpanKind.CLIENT,
    "schedule": SpanKind.PRODUCER,
    "fire": SpanKind.CONSUMER,
    "turn": SpanKind.SERVER,  # of a call
    "run": SpanKind.INTERNAL,  # the turn within a fire
    "step": SpanKind.INTERNAL,  # one attempt of a workflow's step
    "commit": SpanKind.INTERNAL,
}


class Sampler:
    """Whether a trace that begins here is recorded; one that comes from elsewhere has been decided about.

    Each second's first `budget` are, and of the rest one in so many: a quiet program shows all it does, and a busy
    one pays for little.
    """

    def __init__(
        self,
        ratio: float,
        *,
        budget: int = 0,
        follows: bool = True,
        dice: Callable[[], float] = random.random,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 <= ratio <= 1:
            raise BadOption(f"a sampling ratio of {ratio}; give a number from 0 to 1", code="telemetry.ratio")
        self.ratio = ratio
        self.budget = budget
        self.follows = follows  # the parent's decision
        self._dice = dice
        self._now_s = now_s
        self._second = -1
        self._used = 0

    def begins(self) -> bool:
        """Record a trace that begins now."""
        if self.budget:
            second = int(self._now_s())
            if second != self._second:
                self._second, self._used = second, 0
            if self._used < self.budget:
                self._used += 1
                return True
        return self._dice() < self.ratio

    def goes_on(self, *, is_sampled: bool) -> bool:
        """Record more of a trace that was decided about like that."""
        return is_sampled if self.follows else self.begins()


class Tracing:
    """The `Tracer` of a program's nodes."""

    def __init__(self, provider: otel.TracerProvider, sampler: Sampler, *, version: str = "") -> None:
        self._tracer = provider.get_tracer("wakeful", version)
        self._sampler = sampler
        self.sampled = Counter()  # traces that began here
        self.unsampled = Counter()

    def current(self) -> str | None:
        """The span of the program's own, if it is in one; else ours."""
        if not _here():
            return TRACE.get()
        context = otel.get_current_span().get_span_context()
        return _text(context) if context.is_valid else TRACE.get()

    def enter(self, kind: str, id: ObjectId, name: str, *, parent: str | None, since_ms: int = 0) -> Span | None:
        if parent is None and not _here():  # most often, so quickly
            trace, sampler = TRACE.get(), self._sampler
            if trace is None:
                if sampler.begins():
                    self.sampled.value += 1
                    return self._begin(kind, id, name, otel_context.Context(), [], 0)
                self.unsampled.value += 1
                TRACE.set(UNSAMPLED)
                return _UNSEEN
            if trace == UNSAMPLED and sampler.follows:
                return None
        here = otel.get_current_span().get_span_context()
        trace = parent if parent is not None else _text(here) if here.is_valid else TRACE.get()
        links: list[Link] = []
        if trace is not None and trace != UNSAMPLED:
            if trace.startswith(LINK):
                links, trace = _links(trace), None
            else:
                trace = trace_of_header(trace)  # what was stored may be anything, and must not stop a timer
        if trace is None:
            if not self._begins():
                return _mute()
        elif not self._sampler.goes_on(is_sampled=_is_sampled(trace)):
            if TRACE.get() == trace:
                return None
            is_told = trace == UNSAMPLED or (parent is None and here.is_valid)
            return _Muted(TRACE.set(trace), None if is_told else otel_context.attach(_after(trace)))
        if trace is None or trace == UNSAMPLED:
            context: otel_context.Context | None = otel_context.Context()
        else:
            context = None if parent is None and here.is_valid else _after(trace)
        return self._begin(kind, id, name, context, links, since_ms)

    def _begins(self) -> bool:
        """A trace that begins here is recorded."""
        is_sampled = self._sampler.begins()
        (self.sampled if is_sampled else self.unsampled).value += 1
        return is_sampled

    def _begin(
        self,
        kind: str,
        id: ObjectId,
        name: str,
        context: otel_context.Context | None,
        links: list[Link],
        since_ms: int,
    ) -> Span:
        span = self._tracer.start_span(
            f"{'turn' if kind == 'run' else kind} {id.cls}.{name}",
            context=context,
            kind=_KINDS[kind],
            attributes={"wakeful.class": id.cls, "wakeful.key": id.key, "wakeful.method": name},
            links=links,
            start_time=min(since_ms * 1_000_000, time.time_ns()) if since_ms else None,
        )
        return _Live(span)

    def follow(self, kind: str, id: ObjectId, done: Callable[[Any], None]) -> Callable[[Any], None]:
        trace = TRACE.get()
        if trace is None or not _is_sampled(trace):
            return done
        attributes = {"wakeful.class": id.cls, "wakeful.key": id.key}
        context = None if otel.get_current_span().get_span_context().is_valid else _after(trace)
        span = self._tracer.start_span(kind, context=context, kind=_KINDS[kind], attributes=attributes)

        def end(failure: Any) -> None:
            _finish(span, failure)
            done(failure)

        return end


class _Unseen:
    """Nobody looks, and nothing was decided before: one for all of these, because there are so many."""

    is_seen = False
    __slots__ = ()

    def set(self, name: str, value: str | int) -> None:
        """Nothing to do."""

    def end(self, error: BaseException | None = None) -> None:
        if TRACE.get() == UNSAMPLED:  # else it is closed by the collector, in whatever context
            TRACE.set(None)


_UNSEEN = _Unseen()


class _Muted:
    """Nobody looks, and what is called from here shall know that."""

    is_seen = False
    __slots__ = ("_outer", "_token")

    def __init__(self, token: "Token[str | None]", outer: "Token[otel_context.Context] | None" = None) -> None:
        self._token = token
        self._outer = outer  # for the program's own spans, when they have been decided about

    def set(self, name: str, value: str | int) -> None:
        """Nothing to do."""

    def end(self, error: BaseException | None = None) -> None:
        if _reset(self._token) and self._outer is not None:
            otel_context.detach(self._outer)


class _Live:
    """A span that is recorded, and current until it ends."""

    is_seen = True
    __slots__ = ("_outer", "_span", "_token")

    def __init__(self, span: otel.Span) -> None:
        self._span = span
        self._outer = otel_context.attach(otel.set_span_in_context(span))
        self._token = TRACE.set(_text(span.get_span_context()))

    def set(self, name: str, value: str | int) -> None:
        self._span.set_attribute(name, value)

    def end(self, error: BaseException | None = None) -> None:
        if _reset(self._token):
            otel_context.detach(self._outer)
        _finish(self._span, error)


def _mute() -> _Muted:
    return _Muted(TRACE.set(UNSAMPLED))


def _reset(token: "Token[str | None]") -> bool:
    try:
        TRACE.reset(token)
    except ValueError:  # a coroutine that was never finished is closed by the collector, in whatever context
        return False
    return True


def _finish(span: otel.Span, error: BaseException | None) -> None:
    if error is not None and span.is_recording():
        span.record_exception(error)
        if isinstance(error, WakefulError):
            span.set_attribute("wakeful.code", error.code)
        span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"[:500]))
    span.end()


def _text(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _is_sampled(trace: str) -> bool:
    return trace != UNSAMPLED and int(trace[53:55] or "0", 16) & 1 == 1


def _after(trace: str) -> otel_context.Context:
    """Where the span of which that text tells is current."""
    return otel.set_span_in_context(NonRecordingSpan(_context(trace)), otel_context.Context())


def _context(trace: str) -> SpanContext:
    flags = TraceFlags(int(trace[53:55], 16))
    return SpanContext(int(trace[3:35], 16), int(trace[36:52], 16), is_remote=True, trace_flags=flags)


def _links(trace: str) -> list[Link]:
    found = trace_of_header(trace.removeprefix(LINK))
    return [] if found is None else [Link(_context(found))]
