"""Layer 0. Which trace does the running code belong to?"""

from contextvars import ContextVar

# A W3C `traceparent`. What is scheduled carries it along, and what runs because of that finds it here again.
TRACE: ContextVar[str | None] = ContextVar("wakeful_trace", default=None)
