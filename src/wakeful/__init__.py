"""Durable objects: small stateful things that sleep on disk, wake when called or when a timer is due, and never lose or double what they owe."""

from wakeful.app import App
from wakeful.logic.limits import Limits
from wakeful.logic.retry import RetryPolicy, exponential, fixed
from wakeful.logic.specs.calendars import business_hours, holidays
from wakeful.logic.specs.combine import any_of, except_for, within
from wakeful.logic.specs.cron import cron
from wakeful.logic.specs.fluent import every
from wakeful.logic.specs.instants import after, at
from wakeful.logic.specs.rrule import rrule
from wakeful.logic.specs.spread import spread
from wakeful.objects import DurableObject
from wakeful.runtime.alarms import AlarmInfo
from wakeful.runtime.context import Context
from wakeful.runtime.registry import internal, reader
from wakeful.runtime.storage import Storage
from wakeful.schedules.dag import Dag
from wakeful.schedules.next import Next
from wakeful.schedules.schedule import Schedule
from wakeful.schedules.schedules import Schedules
from wakeful.schedules.tenants import Quotas, sharded
from wakeful.values import errors
from wakeful.values.errors import Unavailable, WakefulError
from wakeful.values.ids import ObjectId
from wakeful.values.runs import Run

__all__ = [
    "AlarmInfo",
    "App",
    "Context",
    "Dag",
    "DurableObject",
    "Limits",
    "Next",
    "ObjectId",
    "Quotas",
    "RetryPolicy",
    "Run",
    "Schedule",
    "Schedules",
    "Storage",
    "Unavailable",
    "WakefulError",
    "after",
    "any_of",
    "at",
    "business_hours",
    "cron",
    "errors",
    "every",
    "except_for",
    "exponential",
    "fixed",
    "holidays",
    "internal",
    "reader",
    "rrule",
    "sharded",
    "spread",
    "within",
]

__version__ = "0.1.0"
