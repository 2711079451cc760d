"""Durable objects: small stateful things that sleep on disk, wake when called or when a timer is due, and never lose or double what they owe."""

from wakeful.app import App
from wakeful.logic.limits import Limits
from wakeful.objects import DurableObject
from wakeful.runtime.alarms import AlarmInfo
from wakeful.runtime.context import Context
from wakeful.runtime.registry import internal, reader
from wakeful.runtime.storage import Storage
from wakeful.values import errors
from wakeful.values.errors import (
    BadInput,
    CallFailed,
    Conflict,
    DeadlineExceeded,
    Fenced,
    LimitExceeded,
    Reentrancy,
    StoreError,
    Unavailable,
    WakefulError,
)
from wakeful.values.ids import ObjectId
from wakeful.values.runs import Run

__all__ = [
    "AlarmInfo",
    "App",
    "BadInput",
    "CallFailed",
    "Conflict",
    "Context",
    "DeadlineExceeded",
    "DurableObject",
    "Fenced",
    "LimitExceeded",
    "Limits",
    "ObjectId",
    "Reentrancy",
    "Run",
    "Storage",
    "StoreError",
    "Unavailable",
    "WakefulError",
    "errors",
    "internal",
    "reader",
]

__version__ = "0.1.0"
