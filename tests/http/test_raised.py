"""What an object's own code raised is its answer, also where it is one of Wakeful's errors: nobody runs that code again for it."""

from typing import Any

import pytest

from tests.http.client_stage import client_of, served
from tests.http.http_stage import opened
from wakeful import App, Client, DurableObject, Quotas, errors, reader
from wakeful.cli.exit_codes import FAILED, exit_code_of

# method → what it raises, and its code
RAISED = {
    "unavailable": (errors.Unavailable, "unavailable"),
    "nested": (errors.Unavailable, "unavailable"),
    "other_server": (errors.Unavailable, "client.connect"),
    "other_server_lost": (errors.OutcomeUnknown, "client.lost"),
    "closed_client": (errors.NotRunning, "client.closed"),
    "quota": (errors.QuotaExceeded, "quota.jobs"),
    "too_many": (errors.TooMany, "denied.rate"),
    "typo": (errors.UnknownMethod, "method.unknown"),
    "other_class": (errors.UnknownClass, "class.unknown"),
    "late": (errors.DeadlineExceeded, "call.deadline"),
    "look": (errors.Unavailable, "unavailable"),
}


class Till:
    """A program whose object has an effect outside, and then raises."""

    def __init__(self) -> None:
        self.charged: list[str] = []
        self.port = 0
        app = self.app = App(quotas=Quotas(jobs=1))
        charged = self.charged
        lost = self

        @app.object
        class Bank(DurableObject):
            async def away(self) -> None:
                raise errors.Unavailable("the bank is away")

            async def unavailable(self) -> None:
                charged.append("unavailable")
                raise errors.Unavailable("the bank is away")

            @reader
            async def look(self) -> None:
                charged.append("look")
                raise errors.Unavailable("the bank is away")

            async def nested(self) -> None:
                charged.append("nested")
                await app.get(Bank, "t/other").away()

            async def other_server(self) -> None:
                charged.append("other_server")
                async with Client("http://127.0.0.1:1", retries=False) as client:
                    await client.get("Ledger", "x").book()

            async def other_server_lost(self) -> None:
                charged.append("other_server_lost")
                async with Client(f"http://127.0.0.1:{lost.port}", retries=False) as client:
                    await client.get("Bank", "t/third").ok()

            async def closed_client(self) -> None:
                charged.append("closed_client")
                client = Client("http://127.0.0.1:1")
                await client.close()
                await client.get("Ledger", "x").book()

            async def quota(self) -> None:
                charged.append("quota")
                for _ in range(3):
                    await self.jobs.schedule(self.ok, after="1h")

            async def too_many(self) -> None:
                charged.append("too_many")
                raise errors.TooMany("slowly", retry_after_s=1.0)

            async def typo(self) -> None:
                charged.append("typo")
                await app.get(Bank, "t/other").okk()  # type: ignore[attr-defined]

            async def other_class(self) -> None:
                charged.append("other_class")
                await app.get("Banc", "t/other").ok()

            async def late(self) -> None:
                charged.append("late")
                raise errors.DeadlineExceeded("mine")

            async def ok(self) -> int:
                return 1


@pytest.mark.parametrize("method", RAISED)
async def test_an_effect_outside_happens_once_for_a_client_that_retries(method: str) -> None:
    kind, code = RAISED[method]
    till = Till()
    async with served(till.app) as shop, client_of(shop, timeout=3) as client:
        till.port = shop.shaky.port
        shop.shaky.plan = ["cut"]  # of the nested client, which alone goes that way
        with pytest.raises(kind) as caught:
            await getattr(client.get("Bank", "t/b"), method)()
        assert till.charged == [method]
        assert caught.value.code == code
        assert caught.value.is_raised
        assert f"the object's code raised {kind.__name__}: " in caught.value.message
        assert exit_code_of(caught.value) == FAILED


@pytest.mark.parametrize("method", [method for method in RAISED if not method.startswith("other_server")])
async def test_its_status_is_that_of_a_failed_turn(method: str) -> None:
    till = Till()
    async with opened(till.app) as stage:
        answer = await stage.ask("POST", f"/v1/objects/Bank/t%2Fb/{method}")
        assert answer.status_code == 424
        assert "retry-after" not in answer.headers
        assert answer.json()["error"] == RAISED[method][0].__name__


async def test_what_is_wrong_with_the_request_keeps_its_status() -> None:
    till = Till()
    async with opened(till.app) as stage:
        found: dict[str, Any] = {
            path: (await stage.ask("POST", f"/v1/objects/{path}", json=body)).status_code
            for path, body in (("Bank/b/nope", []), ("Banc/b/ok", []), ("Bank/b/ok", [1]))
        }
        assert found == {"Bank/b/nope": 404, "Banc/b/ok": 404, "Bank/b/ok": 422}
        answer = await stage.ask("PUT", "/v1/objects/Bank/b/schedules/s", json={"spec": "nonsense", "method": "ok"})
        assert answer.status_code == 422
