"""Durable objects: small stateful things that sleep on disk, wake when called or when a timer is due, and never lose or double what they owe."""

import importlib
import os
from typing import TYPE_CHECKING, Any

from wakeful.values import errors

if os.environ.get("WAKEFUL_PURE", "0") not in ("", "0"):
    # Before any module that may lie here compiled; and only then, since nobody else needs it.
    importlib.import_module("wakeful.values.compilation").run_sources()

if TYPE_CHECKING:
    from wakeful.app import App
    from wakeful.client.client import Client
    from wakeful.executors.marks import in_process, in_thread
    from wakeful.jobs.job import Again, Job, JobSpec, Stop
    from wakeful.machine import Machine
    from wakeful.machines.marks import action, assign, guard
    from wakeful.objects import DurableObject
    from wakeful.policy.limits import Limits
    from wakeful.policy.queue_terms import Queue
    from wakeful.policy.retry import RetryPolicy, exponential, fixed
    from wakeful.runtime.alarms import AlarmInfo, AlarmSlot
    from wakeful.runtime.context import Context
    from wakeful.runtime.registry import internal, reader
    from wakeful.runtime.storage import Storage
    from wakeful.schedules.dag import Dag
    from wakeful.schedules.handlers import Next
    from wakeful.schedules.records import Schedule
    from wakeful.schedules.schedules import Schedules
    from wakeful.schedules.tenants import Quotas, sharded
    from wakeful.sockets.socket import Socket
    from wakeful.specs.build import any_of, except_for, spread, within
    from wakeful.specs.calendars import business_hours, holidays
    from wakeful.specs.cron import cron
    from wakeful.specs.fluent import every
    from wakeful.specs.instants import after, at
    from wakeful.specs.rrule import rrule
    from wakeful.values.errors import Unavailable, WakefulError
    from wakeful.values.ids import ObjectId
    from wakeful.values.timers import Run
    from wakeful.workflow import Workflow
    from wakeful.workflows.body import ContinueAsNew
    from wakeful.workflows.step import Step

__all__ = [
    "Again",
    "AlarmInfo",
    "AlarmSlot",
    "App",
    "Client",
    "Context",
    "ContinueAsNew",
    "Dag",
    "DurableObject",
    "Job",
    "JobSpec",
    "Limits",
    "Machine",
    "Next",
    "ObjectId",
    "Queue",
    "Quotas",
    "RetryPolicy",
    "Run",
    "Schedule",
    "Schedules",
    "Socket",
    "Step",
    "Stop",
    "Storage",
    "Unavailable",
    "WakefulError",
    "Workflow",
    "action",
    "after",
    "any_of",
    "assign",
    "at",
    "business_hours",
    "cron",
    "errors",
    "every",
    "except_for",
    "exponential",
    "fixed",
    "guard",
    "holidays",
    "in_process",
    "in_thread",
    "internal",
    "reader",
    "rrule",
    "sharded",
    "spread",
    "within",
]

__version__ = "0.1.0"

# Loaded when first asked for: `wakeful --help` needs none of them.
_HOMES = {
    "Again": "wakeful.jobs.job",
    "AlarmInfo": "wakeful.runtime.alarms",
    "AlarmSlot": "wakeful.runtime.alarms",
    "App": "wakeful.app",
    "Client": "wakeful.client.client",
    "Context": "wakeful.runtime.context",
    "ContinueAsNew": "wakeful.workflows.body",
    "Dag": "wakeful.schedules.dag",
    "DurableObject": "wakeful.objects",
    "Job": "wakeful.jobs.job",
    "JobSpec": "wakeful.jobs.job",
    "Limits": "wakeful.policy.limits",
    "Machine": "wakeful.machine",
    "Next": "wakeful.schedules.handlers",
    "ObjectId": "wakeful.values.ids",
    "Queue": "wakeful.policy.queue_terms",
    "Quotas": "wakeful.schedules.tenants",
    "RetryPolicy": "wakeful.policy.retry",
    "Run": "wakeful.values.timers",
    "Schedule": "wakeful.schedules.records",
    "Schedules": "wakeful.schedules.schedules",
    "Socket": "wakeful.sockets.socket",
    "Step": "wakeful.workflows.step",
    "Stop": "wakeful.jobs.job",
    "Storage": "wakeful.runtime.storage",
    "Unavailable": "wakeful.values.errors",
    "WakefulError": "wakeful.values.errors",
    "Workflow": "wakeful.workflow",
    "action": "wakeful.machines.marks",
    "after": "wakeful.specs.instants",
    "any_of": "wakeful.specs.build",
    "assign": "wakeful.machines.marks",
    "at": "wakeful.specs.instants",
    "business_hours": "wakeful.specs.calendars",
    "cron": "wakeful.specs.cron",
    "every": "wakeful.specs.fluent",
    "except_for": "wakeful.specs.build",
    "exponential": "wakeful.policy.retry",
    "fixed": "wakeful.policy.retry",
    "guard": "wakeful.machines.marks",
    "holidays": "wakeful.specs.calendars",
    "in_process": "wakeful.executors.marks",
    "in_thread": "wakeful.executors.marks",
    "internal": "wakeful.runtime.registry",
    "reader": "wakeful.runtime.registry",
    "rrule": "wakeful.specs.rrule",
    "sharded": "wakeful.schedules.tenants",
    "spread": "wakeful.specs.build",
    "within": "wakeful.specs.build",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'wakeful' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
