"""A number of JSON is a `Decimal` as it was written, or it is refused: never another amount, and never through a float."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, NewType, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from tests.http.http_stage import opened, problem
from tests.http.watch_stage import Socket
from wakeful import App, DurableObject, Machine, assign, errors
from wakeful.http import asks
from wakeful.operations.exact_numbers import has_decimals
from wakeful.operations.text_calls import CALL
from wakeful.values.ids import ObjectId

LONG = "1234567890123456.78"
EXACT = Decimal(LONG)
BANK = "/v1/objects/Bank/b"
JSON = {"content-type": "application/json"}
Euro = NewType("Euro", Decimal)


@dataclass
class Pay:
    amount: Decimal
    rate: float = 0.0
    at: datetime | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    parts: "list[Pay]" = field(default_factory=list)


class Row(TypedDict):
    amount: Decimal


class Item(BaseModel):
    amount: Decimal
    rate: float = 0.0


def make_app() -> App:
    app = App()

    @app.object
    class Bank(DurableObject):
        async def one(self, amount: Decimal, other: Any = None, rate: float = 0.0) -> Any:
            await self.storage.put("seen", [amount, other, rate])
            return [amount, other, rate]

        async def many(self, amounts: list[Decimal | None]) -> Any:
            return amounts

        async def pay(self, pay: Pay) -> Any:
            await self.storage.put("seen", pay)
            return pay

        async def row(self, row: Row, euro: Euro | None = None) -> Any:
            return [row, euro]

        async def item(self, item: Item) -> Any:
            return item

        async def least(self, amount: Annotated[Decimal, msgspec.Meta(ge=0)]) -> Any:
            return amount  # which msgspec can't check of a Decimal: the method decides

        async def seen(self) -> Any:
            return await self.storage.get("seen")

    @app.object
    class Bill(Machine):
        events = {"PAY": Pay, "NOTE": None}
        chart = {
            "context": {"paid": None},
            "initial": "open",
            "states": {"open": {"on": {"PAY": {"actions": "remember"}}}},
        }

        @assign
        def remember(self, context: Any, event: Any) -> dict[str, Any]:
            return {"paid": [event["amount"], event["rate"], event["notes"]]}

    return app


WRITTEN = [
    ("one", f"[{LONG}]", [EXACT, None, 0.0]),
    ("one", "[49.90, 0.5, 1.25]", [Decimal("49.90"), 0.5, 1.25]),
    ("one", f'{{"amount": {LONG}, "other": {{"a": [0.1]}}}}', [EXACT, {"a": [0.1]}, 0.0]),
    ("one", "[12345678901234567890123]", [Decimal("12345678901234567890123"), None, 0.0]),
    ("one", "[1e400]", [Decimal("1E+400"), None, 0.0]),
    ("one", f'["{LONG}"]', [EXACT, None, 0.0]),
    ("many", f"[[{LONG}, null, 1, 0.10]]", [EXACT, None, Decimal(1), Decimal("0.10")]),
    (
        "pay",
        f'[{{"amount": {LONG}, "rate": 0.1, "notes": {{"x": [1.5]}}, "parts": [{{"amount": 0.10}}]}}]',
        Pay(EXACT, 0.1, None, {"x": [1.5]}, [Pay(Decimal("0.10"))]),
    ),
    (
        "pay",
        f'[{{"amount": {LONG}, "at": "2030-01-01T09:00Z"}}]',
        Pay(EXACT, at=datetime.fromisoformat("2030-01-01T09:00+00:00")),
    ),
    ("row", f'[{{"amount": {LONG}}}, 49.90]', [{"amount": EXACT}, Decimal("49.90")]),
    ("least", f"[{LONG}]", EXACT),
    ("item", f'[{{"amount": {LONG}, "rate": 0.5}}]', {"amount": EXACT, "rate": 0.5}),
]


def exactly(value: Any) -> str:
    """`Decimal("49.90")` is `Decimal("49.9")` to Python, and not to an invoice."""
    return repr(value)


@pytest.mark.parametrize(("method", "body", "wanted"), WRITTEN)
async def test_over_http_it_is_as_it_was_written(
    method: str, body: str, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(make_app()) as stage:
        seen: list[Any] = []
        send = stage.world.node.send

        async def spy(id: Any, method: str, args: Any, kwargs: Any, **options: Any) -> Any:
            seen.append(await send(id, method, args, kwargs, **options))
            return seen[-1]

        monkeypatch.setattr(stage.world.node, "send", spy)
        for long_bytes in (asks.LONG_BYTES, 0):  # at once, and beside the loop
            monkeypatch.setattr(asks, "LONG_BYTES", long_bytes)
            answer = await stage.ask("POST", f"{BANK}/{method}", content=body.encode(), headers=JSON)
            assert answer.status_code == 200, answer.text
            assert exactly(seen.pop()) == exactly(wanted)


@pytest.mark.parametrize(("method", "body", "wanted"), [one for one in WRITTEN if one[1].startswith("[")])
async def test_on_the_command_line_too(method: str, body: str, wanted: Any) -> None:
    texts = [bytes(one).decode() for one in msgspec.json.decode(body, type=list[msgspec.Raw])]
    app = make_app()
    async with app.world() as world:
        answer = await world.node.send(ObjectId("Bank", "b"), CALL, (method, texts), {})
        assert exactly(answer) == exactly(wanted)


@pytest.mark.parametrize(
    ("method", "body", "words"),
    [
        ("one", "[1, 1e400]", "send it as text"),
        ("pay", '[{"amount": 1, "rate": 1e400}]', "Number out of range"),
        ("one", "[1e99999999999999999999]", "Invalid decimal"),
        ("one", "[true]", "got `bool`"),
        ("row", '[{"amount": {"a": 0.5}}]', "got `object`"),
    ],
)
async def test_what_can_not_be_kept_is_refused(method: str, body: str, words: str) -> None:
    async with opened(make_app()) as stage:
        answer = await stage.ask("POST", f"{BANK}/{method}", content=body.encode(), headers=JSON)
        assert words in problem(answer, 422, "arguments.type")["detail"]


async def test_what_is_scheduled_has_it_too() -> None:
    async with opened(make_app()) as stage:
        world, bank = stage.world, ObjectId("Bank", "b")

        async def seen() -> Any:
            await world.advance("1m")
            return await world.node.send(bank, "seen", (), {})

        job = f'{{"class": "Bank", "key": "b", "method": "one", "args": [{LONG}, 0.5]}}'
        named = f'{{"class": "Bank", "key": "b", "method": "one", "kwargs": {{"amount": {LONG}}}}}'
        plan = f'{{"handler": "one", "after": "1s", "args": [{LONG}, 0.5]}}'
        for verb, path, body, wanted in (
            ("POST", "/v1/jobs", job, [EXACT, 0.5, 0.0]),
            ("POST", "/v1/jobs", named, [EXACT, None, 0.0]),
            ("POST", "/v1/jobs/batch", f'{{"jobs": [{job}], "then": {named}}}', [EXACT, None, 0.0]),
            ("PUT", f"{BANK}/schedules/later", plan, [EXACT, 0.5, 0.0]),
        ):
            answer = await stage.ask(verb, path, content=body.encode(), headers=JSON)
            assert answer.status_code in (200, 201), answer.text
            assert exactly(await seen()) == exactly(wanted), path


async def test_an_event_of_a_machine_has_it_on_every_way_in() -> None:
    event = f'{{"type": "PAY", "amount": {LONG}, "rate": 0.5, "notes": {{"x": 0.25}}}}'
    wanted = [EXACT, 0.5, {"x": 0.25}]
    path, bill = "/v1/objects/Bill/b", ObjectId("Bill", "b")
    async with opened(make_app()) as stage, Socket(stage, f"{path}/watch") as socket:
        cls: Any = stage.app.deployment.registry.by_name("Bill").cls

        async def paid() -> Any:
            found = (await stage.world.get(cls, "b").snapshot()).context["paid"]
            await stage.world.get(cls, "b").send("PAY", amount=Decimal(0))
            return found

        answer = await stage.ask("POST", f"{path}/send", content=f"[{event}]".encode(), headers=JSON)
        assert answer.status_code == 200, answer.text
        assert exactly(await paid()) == exactly(wanted)
        socket.say({"type": "websocket.receive", "text": f'{{"id": 1, "send": {event}}}'})
        await stage.world.advance("1s")
        assert {"kind": "accepted", "id": 1} in socket.texts
        assert exactly(await paid()) == exactly(wanted)
        await stage.world.node.send(bill, CALL, ("send", [event]), {})
        assert exactly(await paid()) == exactly(wanted)
        refused = await stage.ask(
            "POST", f"{path}/send", content=b'[{"type": "PAY", "amount": true, "rate": 0.5}]', headers=JSON
        )
        problem(refused, 422, "event.fields")


async def test_a_float_of_the_program_is_its_own() -> None:
    async with make_app().world() as world:
        with pytest.raises(errors.BadValue):
            await world.node.send(ObjectId("Bank", "b"), CALL, ("one", ["much"]), {})


@pytest.mark.parametrize(
    ("hint", "has"),
    [(Decimal, True), (list[Pay], True), (Row, True), (Item, True), (Euro | None, True), (float, False), (Any, False)],
)
def test_only_who_asks_for_a_decimal_pays_for_it(hint: Any, has: bool) -> None:
    assert has_decimals(hint) is has
