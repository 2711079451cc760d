"""Layer 4. How does the receiver of a webhook know that it comes from us? By the scheme of Standard Webhooks.

A header `webhook-signature` of `v1,` and the HMAC-SHA256, in base64, of the id, the timestamp and the body with dots
between them; several such, with blanks between, while a secret is replaced by another.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path

from wakeful.values.errors import BadOption, BadToken

PREFIX = "whsec_"
SECONDS_DIGITS = 12  # of a time, until the year 33658
BYTES_MIN, BYTES_MAX = 24, 64
NEW = "make one: wakeful webhooks secret"
OLD_S = 300  # further from now than that a timestamp is not believed: somebody may play back what was once true

Secrets = str | Path | Sequence[str]
"""The newest first: as text, as several texts, or the path of a file with one on each line."""


def spelled_secret(secret: bytes) -> str:
    """The secret as text."""
    return PREFIX + base64.b64encode(secret).decode()


def read_secrets(given: Secrets) -> tuple[bytes, ...]:
    """The secrets, or `BadOption` with what is wrong, never with a secret in it."""
    if isinstance(given, Path):
        try:
            given = given.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            because = error.strerror if isinstance(error, OSError) else "it is not text"
            raise BadOption(
                f"the secret file of a webhook can't be read: {because}; {NEW}", code="webhook.secret"
            ) from None
    if not isinstance(given, str | Sequence) or isinstance(given, bytes | bytearray):  # type: ignore[unreachable]
        raise BadOption(
            f"a webhook's secret is text, several or a Path, not {type(given).__name__}; {NEW}", code="webhook.secret"
        )
    texts = given.split() if isinstance(given, str) else list(given)
    if not texts:
        raise BadOption(f"a webhook's secret is empty; {NEW}", code="webhook.secret")
    return tuple(_parse(text) for text in texts)


def _parse(text: object) -> bytes:
    try:
        if not isinstance(text, str) or not text.startswith(PREFIX):
            raise ValueError
        secret = base64.b64decode(text[len(PREFIX) :], validate=True)
    except (ValueError, binascii.Error):
        raise BadOption(
            f"a webhook's secret is {PREFIX} and base64 behind it, and this one is not; {NEW}", code="webhook.secret"
        ) from None
    if not BYTES_MIN <= len(secret) <= BYTES_MAX:
        raise BadOption(
            f"a webhook's secret has {len(secret)} bytes, from {BYTES_MIN} to {BYTES_MAX} it must; {NEW}",
            code="webhook.secret",
        )
    return secret


def sign(secrets: Sequence[bytes], id: str, at_s: int, body: bytes) -> dict[str, str]:
    """The headers that prove who sent it, by each of these secrets."""
    signed = f"{id}.{at_s}.".encode() + body
    said = " ".join(f"v1,{_digest(secret, signed)}" for secret in secrets)
    return {"webhook-id": id, "webhook-timestamp": str(at_s), "webhook-signature": said}


def check_signed(secret: Secrets, headers: Mapping[str, str], body: bytes | str, now: float) -> str:
    """The id of a webhook that is signed so, at about that time; `BadToken` unless it is."""
    secrets = read_secrets(secret)
    found = {name.lower(): value for name, value in headers.items()}
    try:
        id, at, said = (found[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError:
        raise BadToken(
            "a webhook without webhook-id, webhook-timestamp and webhook-signature is nobody's", code="webhook.unsigned"
        ) from None
    if not (at.isascii() and at.isdigit() and len(at) <= SECONDS_DIGITS):
        raise BadToken(
            f"webhook-timestamp is {at[:40]!r}, and a whole number of seconds it must be", code="webhook.time"
        )
    at_s = int(at)
    if abs(now - at_s) > OLD_S:
        raise BadToken(
            f"the webhook {id} was sent more than {OLD_S} s from now; set the clocks right", code="webhook.time"
        )
    data = body.encode() if isinstance(body, str) else body
    signed = f"{id}.{at_s}.".encode() + data
    given = [part.partition(",")[2] for part in said.split() if part.startswith("v1,")]
    if not any(
        hmac.compare_digest(_digest(one, signed).encode(), other.encode()) for one in secrets for other in given
    ):
        raise BadToken(f"the webhook {id} is not signed with this secret", code="webhook.signature")
    return id


def _digest(secret: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()
