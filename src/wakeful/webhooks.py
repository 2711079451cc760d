"""Layer 5. For whoever receives webhooks of a program: is this one genuine?"""

import os
import time
from collections.abc import Mapping

from wakeful.notices.signatures import Secrets, check_signed, spelled_secret

__all__ = ["new_secret", "verify"]


def new_secret() -> str:
    """A secret for `app.webhook(…)`, and for whoever receives what it sends."""
    return spelled_secret(os.urandom(32))


def verify(secret: Secrets, headers: Mapping[str, str], body: bytes | str, *, now: float | None = None) -> str:
    """The id of a webhook, the same when it is delivered again; `BadToken` unless it is signed with this secret.

    `body` as it came; `now` in seconds since 1970, for tests.

    >>> from wakeful import errors
    >>> from wakeful.webhooks import new_secret, verify
    >>> try:
    ...     verify(new_secret(), {"webhook-id": "1", "webhook-timestamp": "0", "webhook-signature": "v1,x"}, b"{}")
    ... except errors.BadToken as error:
    ...     print(error.code)
    webhook.time
    """
    return check_signed(secret, headers, body, time.time() if now is None else now)
