"""A program whose spans are kept, and how tests look at them."""

from typing import Any, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from wakeful import App
from wakeful.telemetry import setup


class Seen(NamedTuple):
    """One span, as tests talk of it."""

    name: str
    trace: int
    id: int
    parent: int | None
    span: ReadableSpan

    @property
    def about(self) -> dict[str, Any]:
        return dict(self.span.attributes or {})

    @property
    def linked(self) -> list[int]:
        return [link.context.trace_id for link in self.span.links]

    @property
    def is_failed(self) -> bool:
        return not self.span.status.is_ok and self.span.status.status_code.name == "ERROR"


class Watch:
    """Everything that was recorded of a program."""

    def __init__(self, app: App, *, ratio: float | None = 1.0) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.begun = setup(app, tracer_provider=self.provider, metrics=False, ratio=ratio)

    def all(self) -> list[Seen]:
        return [
            Seen(s.name, s.context.trace_id, s.context.span_id, s.parent.span_id if s.parent else None, s)
            for s in self._kept.get_finished_spans()
            if s.context is not None
        ]

    def clear(self) -> None:
        self._kept.clear()

    def named(self, name: str) -> list[Seen]:
        return [seen for seen in self.all() if seen.name == name]

    def one(self, name: str) -> Seen:
        (found,) = self.named(name)
        return found

    def path(self, seen: Seen) -> list[str]:
        """The names from the beginning of its trace down to it."""
        by_id = {one.id: one for one in self.all()}
        names = [seen.name]
        while seen.parent is not None and seen.parent in by_id:
            seen = by_id[seen.parent]
            names.insert(0, seen.name)
        return names
