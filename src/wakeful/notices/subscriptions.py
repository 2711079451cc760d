"""Layer 4. Who wants to hear of what, how fast, and through what: a function of the program, or a webhook?"""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from wakeful.notices.notice import FAILED, LATE, PARKED, Notice, check_kinds
from wakeful.notices.sender import Webhook, WebhookSender, host_of
from wakeful.notices.signatures import Secrets, read_secrets
from wakeful.policy.retry import Backoff, Retry, RetryPolicy
from wakeful.runtime.registry import is_rewritten
from wakeful.values.errors import BadHandler, BadName, BadOption, UnknownObject
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.times import Duration, duration_ms

LANES = 16  # objects over which the notices of one subscription are spread, so that one slow one does not hold up all
HANDLER_RETRY = Retry()
WEBHOOK_RETRY = Retry(14, Backoff(5_000, 2.0, 3_600_000))  # four and a half hours
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}")

Handler = Callable[[Notice], Awaitable[None] | None]


class Subscription(NamedTuple):
    """One who wants to hear of something."""

    name: str
    kinds: frozenset[str]
    receiver: Handler | Webhook
    cls: str | None = None
    prefix: str = ""
    at_most_ms: int = 0  # no more than one notice of a kind in that time; 0: each
    late_ms: int = 60_000
    retry: Retry = HANDLER_RETRY

    @property
    def is_webhook(self) -> bool:
        return isinstance(self.receiver, Webhook)

    def wants(self, notice: Notice) -> bool:
        """A job that failed for good is parked, so who wants to hear of that hears of it too."""
        if notice.kind not in self.kinds and not (notice.kind == FAILED and PARKED in self.kinds):
            return False
        if notice.kind == LATE and notice.lateness is not None:
            return notice.lateness.total_seconds() * 1000 >= self.late_ms and self._is_of(notice.object)
        return self._is_of(notice.object)

    def _is_of(self, id: ObjectId | None) -> bool:
        if id is None:
            return True  # the store is everybody's
        return (self.cls is None or id.cls == self.cls) and id.key.startswith(self.prefix)

    def key_for(self, notice: Notice) -> str:
        """The key of the object that delivers it: the only one where they are counted."""
        if self.at_most_ms:
            return self.name
        return f"{self.name}#{0 if notice.object is None else shard_of(notice.object) % LANES}"

    async def deliver(self, sender: WebhookSender | None, notice: Notice, now: int) -> None:
        """Give it to whoever wants it; raises what they raise."""
        if isinstance(self.receiver, Webhook):
            assert sender is not None  # the feature has seen to it when the node started
            await self.receiver.send(sender, notice, now)
            return
        answer = self.receiver(notice)
        if inspect.isawaitable(answer):
            await answer


class Subscriptions:
    """Those of a program."""

    def __init__(self) -> None:
        self._by_name: dict[str, Subscription] = {}
        self.sender: WebhookSender | None = None  # of webhooks; made when a node starts that needs one

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._by_name.values())

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def add(self, one: Subscription) -> None:
        """One more; one whose name is taken must be the same function, written anew at a prompt."""
        there = self._by_name.get(one.name)
        if there is not None and not (
            inspect.isfunction(there.receiver) and is_rewritten(there.receiver, one.receiver)
        ):
            raise BadOption(f"notices go to a {one.name!r} already; give the second name='…'", code="notice.twice")
        self._by_name[one.name] = one

    def get(self, key: str) -> Subscription | None:
        """The one whose notices an object of that key delivers."""
        return self._by_name.get(key.partition("#")[0])

    def of(self, key: str) -> Subscription:
        """The same, where there must be one."""
        there = self.get(key)
        if there is None:
            raise UnknownObject(f"nobody called {key!r} is told of anything here; wakeful webhooks lists who is")
        return there

    @property
    def late_ms(self) -> int | None:
        """From when on somebody wants to hear of a late run; None: nobody does."""
        return min((one.late_ms for one in self._by_name.values() if LATE in one.kinds), default=None)


def handler_subscription(
    kinds: object,
    handler: Any,
    *,
    cls: str | None,
    prefix: str = "",
    name: str | None = None,
    at_most: Duration | None = None,
    late: Duration = "1m",
    retry: object = None,
) -> Subscription:
    """A function of the program that is told, or an error that says what is wrong."""
    try:
        inspect.signature(handler).bind(None)
    except (TypeError, ValueError):
        raise BadHandler(
            f"{handler!r} can't be told; give a function that takes one Notice", code="notice.handler"
        ) from None
    called = _check_name(getattr(handler, "__name__", None) if name is None else name)
    kept = _retry(retry, HANDLER_RETRY)
    return Subscription(called, check_kinds(kinds), handler, cls, _prefix(prefix), _ms(at_most), _ms(late), kept)


def webhook_subscription(
    url: str,
    on: object,
    secret: Secrets,
    *,
    cls: str | None,
    prefix: str,
    name: str | None,
    at_most: Duration | None,
    late: Duration,
    messages: bool,
    allow_http: bool,
    retry: object,
) -> Subscription:
    """A webhook, or an error that says what is wrong."""
    for what, given in (("messages", messages), ("allow_http", allow_http)):
        if not isinstance(given, bool):
            raise BadOption(f"{what}={given!r}: give True or False", code="notice.option")
    webhook = Webhook(url, read_secrets(secret), messages=messages, allow_http=allow_http)
    called = _check_name(host_of(url) if name is None else name)
    kept = _retry(retry, WEBHOOK_RETRY)
    return Subscription(called, check_kinds(on), webhook, cls, _prefix(prefix), _ms(at_most), _ms(late), kept)


def _check_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadName(
            f"{name!r} can't be the name of who is told: letters, digits, '_', '.', ':' and '-', 100 at most; "
            "give name='…'",
            code="notice.name",
        )
    return name


def _prefix(prefix: object) -> str:
    if not isinstance(prefix, str):
        raise BadOption(f"prefix={prefix!r}: give what the keys begin with, like 'acme/'", code="notice.prefix")
    return prefix


def _ms(length: Duration | None) -> int:
    return 0 if length is None else duration_ms(length)


def _retry(retry: object, otherwise: Retry) -> Retry:
    if retry is None:
        return otherwise
    if not isinstance(retry, RetryPolicy):
        raise BadOption(f"retry must be a RetryPolicy(…), not {retry!r}", code="notice.retry")
    return retry.kept
