"""Layer 4. How does a webhook get to its receiver, and what does it say?

The URLs are the operator's, from the program, not those of strangers: they may be of this very network.
"""

import importlib
import ipaddress
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from wakeful.notices.notice import Notice
from wakeful.notices.signatures import sign
from wakeful.values.errors import BadOption, CallFailed, MissingExtra

TIMEOUT_S = 10.0
URL_CHARS_MAX = 2_048
ANSWER_BYTES_MAX = 1_024  # of an answer; more is not read
GONE = 410
TYPE = "wakeful."


class ReceiverAnswer(NamedTuple):
    """What the receiver said."""

    status: int

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300


class WebhookSender(Protocol):
    """Brings one request to where it is meant for."""

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> ReceiverAnswer:
        """The answer; raises `OSError` or `TimeoutError` when there is none."""
        ...


class NotTaken(CallFailed):
    """The receiver did not take a webhook."""

    default_code = "webhook.refused"


class ReceiverGone(NotTaken):
    """The receiver is there no more, and says so."""

    default_code = "webhook.gone"


class HttpSender:
    """Through aiohttp, without following redirects."""

    def __init__(self) -> None:
        try:
            self._aiohttp: Any = importlib.import_module("aiohttp")
        except ImportError:
            raise MissingExtra("webhooks need aiohttp: pip install 'wakeful[client]'", code="extra.client") from None

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> ReceiverAnswer:
        aiohttp = self._aiohttp
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(url, data=body, headers=headers, allow_redirects=False) as response,
            ):
                await response.content.read(ANSWER_BYTES_MAX)
                return ReceiverAnswer(response.status)
        except TimeoutError:
            raise TimeoutError(f"the receiver did not answer within {TIMEOUT_S:.0f} s") from None
        except aiohttp.ClientConnectionError as error:
            raise OSError(f"{type(error).__name__}: the receiver can't be reached") from None
        except aiohttp.ClientError as error:
            raise OSError(f"{type(error).__name__}: the receiver's answer can't be read") from None


class Webhook:
    """One receiver: where, with which secrets, and how much it is told."""

    def __init__(self, url: str, secrets: tuple[bytes, ...], *, messages: bool, allow_http: bool) -> None:
        self.url = check_url(url, allow_http=allow_http)
        self._secrets = secrets
        self._messages = messages

    @property
    def place(self) -> str:
        """Where to, for people: path and query may be secrets."""
        found = urlsplit(self.url)
        return f"{found.scheme}://{host_of(self.url)}{'/…' if found.path.strip('/') or found.query else ''}"

    async def send(self, sender: WebhookSender, notice: Notice, now: int) -> ReceiverAnswer:
        """Deliver it; raises unless the receiver takes it."""
        body = self.body(notice)
        headers = {"content-type": "application/json", "user-agent": "wakeful"}
        headers |= sign(self._secrets, notice.id, now // 1000, body)
        reply = await sender.post(self.url, headers, body)
        if reply.status == GONE:
            raise ReceiverGone(f"{self.place} answered {GONE}: it wants no more; take the webhook out of the program")
        if not reply.is_taken:
            raise NotTaken(f"{self.place} answered {reply.status}")
        return reply

    def body(self, notice: Notice) -> bytes:
        """As Standard Webhooks has it, and a line of text, which chat systems show."""
        about = {
            "type": f"{TYPE}{notice.kind}",
            "timestamp": notice.at,
            "text": notice.words(messages=self._messages),
            "data": self._plain(notice),
        }
        return msgspec.json.encode(about)

    def _plain(self, notice: Notice) -> dict[str, Any]:
        plain: dict[str, Any] = {"id": notice.id, "kind": notice.kind, "at": notice.at, "node": notice.node}
        if notice.object is not None:
            plain |= {"class": notice.object.cls, "key": notice.object.key, "timer": notice.timer}
            plain |= {"what": notice.what, "name": notice.name}
        if notice.attempts:
            plain["attempts"] = notice.attempts
        if notice.error is not None:
            plain["error"] = {"type": notice.error.type, "code": notice.error.code}
            if self._messages:
                plain["error"]["message"] = notice.error.message
        if notice.lateness is not None:
            plain["lateness_ms"] = round(notice.lateness.total_seconds() * 1000)
        if notice.since is not None:
            plain["since"] = notice.since
        if notice.kind == "outage":
            plain["is_over"] = notice.is_over
        plain["count"] = notice.count
        if notice.first:
            plain["first"] = [self._plain(one) for one in notice.first]
        return plain


def host_of(url: str) -> str:
    found = urlsplit(url)
    port = f":{found.port}" if found.port else ""
    return f"{found.hostname}{port}"


def check_url(url: object, *, allow_http: bool) -> str:
    """An address that can be one, or `BadOption`."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or not isinstance(url, str):
        raise BadOption("a webhook needs a URL: https://HOST/PATH", code="webhook.url")
    if not url.isprintable() or len(url) > URL_CHARS_MAX:
        raise BadOption(
            f"a webhook's URL is at most {URL_CHARS_MAX} characters, none of which is a control", code="webhook.url"
        )
    if parts.username or parts.password:
        raise BadOption("a webhook's URL has no name and password; its secret signs it", code="webhook.url")
    if parts.scheme == "http" and not allow_http and not _is_here(parts.hostname or ""):
        raise BadOption(
            f"http://{parts.hostname} could be read on the way; use https, or say allow_http=True", code="webhook.http"
        )
    return url


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
