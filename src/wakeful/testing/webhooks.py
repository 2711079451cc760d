"""Layer 5. The receivers of webhooks in a test: what was sent to them, and what do they answer?"""

import json
from typing import Any, NamedTuple

from wakeful.notices.sender import ReceiverAnswer


class SentWebhook(NamedTuple):
    """One request that a program made."""

    url: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class WebhookReceiver:
    """Stands for all receivers: `sent` is what came, `status` what they answer; None: they can't be reached."""

    def __init__(self) -> None:
        self.sent: list[SentWebhook] = []
        self.status: int | None = 204

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> ReceiverAnswer:
        self.sent.append(SentWebhook(url, headers, body))
        if self.status is None:
            raise ConnectionRefusedError("nobody listens there")
        return ReceiverAnswer(self.status)
