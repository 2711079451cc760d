"""Events whose shapes a machine declares: what does not fit is refused by its field, over every way in, and OpenAPI has them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict

import msgspec
import pytest

from tests.http.client_stage import client_of, served
from tests.http.http_stage import opened, problem
from tests.http.watch_stage import Socket
from wakeful import App, Machine, assign, errors
from wakeful.machines.event_shapes import EventShapes


@dataclass
class Card:
    number: str


@dataclass
class Pay:
    amount: int
    card: Card
    at: datetime | None = None


class Note(TypedDict, total=False):
    text: str


class Ship(msgspec.Struct, rename="camel"):
    to_street: str


class Tree(msgspec.Struct):
    inner: list["Tree"]


def make_app() -> App:
    app = App()

    @app.object
    class Order(Machine):
        events = {"PAY": Pay, "NOTE": Note, "SHIP": Ship, "CANCEL": None}
        chart = {"context": {"last": None}, "on": {"*": {"actions": "keep"}}}

        @assign
        def keep(self, context: Any, event: Any) -> Any:
            return {"last": event}

    return app


PATH = "/v1/objects/Order/o"
PAY = {"type": "PAY", "amount": 3, "card": {"number": "1"}}
WRONG: list[tuple[Any, str, str]] = [
    ({"type": "PAY", "amount": "3", "card": {"number": "1"}}, "event.fields", "$.amount"),
    ({"type": "PAY", "amount": 3, "card": {"number": 1}}, "event.fields", "$.card.number"),
    ({"type": "PAY", "amount": 3}, "event.fields", "card"),
    ({**PAY, "more": 1}, "event.fields", "has no field 'more'; it carries amount, card, at"),
    ({**PAY, "at": "tomorrow"}, "event.fields", "$.at"),
    ({"type": "SHIP", "to_street": "x"}, "event.fields", "toStreet"),
    ({"type": "CANCEL", "why": 1}, "event.fields", "it carries nothing"),
    ({"type": "REFUND"}, "event.unknown", "it takes PAY, NOTE, SHIP, CANCEL"),
]


@pytest.mark.parametrize(("event", "code", "words"), WRONG)
async def test_what_does_not_fit_is_refused_by_its_field_on_every_way_in(event: Any, code: str, words: str) -> None:
    async with opened(make_app()) as stage, Socket(stage, f"{PATH}/watch") as socket:
        answer = await stage.ask("POST", f"{PATH}/send", json=[event])
        assert words in problem(answer, 422, code)["detail"]
        told = await socket.send(1, event)
        assert (told["kind"], told["problem"]["code"]) == ("refused", code)
        cls = stage.app.deployment.registry.by_name("Order").cls
        with pytest.raises(errors.BadValue) as failure:
            await stage.world.get(cls, "o").send(event)  # type: ignore[attr-defined]
        assert failure.value.code == code
        assert (await stage.world.get(cls, "o").snapshot()).status == "new"  # type: ignore[attr-defined]


async def test_what_fits_arrives_as_its_annotations_say() -> None:
    async with opened(make_app()) as stage:
        for event, seen in (
            ({**PAY, "at": "2026-01-01T00:00:00Z"}, {**PAY, "at": "2026-01-01T00:00:00+00:00"}),
            (PAY, {**PAY, "at": None}),
            ({"type": "NOTE"}, {"type": "NOTE"}),
            ("CANCEL", {"type": "CANCEL"}),
            ({"type": "SHIP", "toStreet": "x"}, {"type": "SHIP", "toStreet": "x"}),
        ):
            answer = await stage.ask("POST", f"{PATH}/send", json=[event])
            assert answer.json()["result"]["context"]["last"] == seen, answer.text
        cls: Any = stage.app.deployment.registry.by_name("Order").cls
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        kept = await stage.world.get(cls, "o").send("PAY", amount=3, card={"number": "1"}, at=moment)
        assert kept.context["last"]["at"] == moment


async def test_the_client_hears_of_the_field_too() -> None:
    async with served(make_app()) as shop, client_of(shop) as client, client.watch("Order", "o") as watch:
        with pytest.raises(errors.BadValue, match=r"\$\.amount"):
            await watch.send("PAY", amount="much", card={"number": "1"})
        found = await watch.send("PAY", amount=1, card={"number": "1"})
        assert found is not None
        assert found.context["last"]["amount"] == 1


async def test_the_document_has_them() -> None:
    async with opened(make_app()) as stage:
        document = (await stage.ask("GET", "/openapi.json")).json()
        body = document["paths"]["/v1/objects/Order/{key}/send"]["post"]["requestBody"]["content"]
        schema = body["application/json"]["schema"]
        [event] = schema["prefixItems"]
        by_title = {one.get("title", one.get("const")): one for one in event["anyOf"]}
        assert by_title["PAY"]["required"] == ["type", "amount", "card"]
        assert by_title["PAY"]["properties"]["card"] == {"$ref": "#/components/schemas/Order.Card"}
        assert document["components"]["schemas"]["Order.Card"]["required"] == ["number"]
        assert {"const": "CANCEL"} in event["anyOf"]


@pytest.mark.parametrize(
    "events",
    [["PAY"], {"PAY": int}, {"PAY": "Pay"}, {1: None}, {"*": None}, {"xstate.done": None}, {"": None}, {"PAY": dict}],
)
def test_shapes_that_can_not_be_are_refused_when_the_class_is_registered(events: Any) -> None:
    class Odd(Machine):
        chart = {"on": {}}

    Odd.events = events
    with pytest.raises(errors.BadChart) as failure:
        App().object(Odd)
    assert failure.value.code == "machine.events"


def test_a_shape_may_be_within_itself_and_has_no_sets() -> None:
    assert EventShapes("Order", {"ADD": Tree}).check({"type": "ADD", "inner": [{"inner": []}]})["inner"] == [
        {"inner": []}
    ]
    assert EventShapes("Order", {"A": None}).schema()[0]["anyOf"][0] == {"const": "A"}
    for odd in (set[int], dict[int, str], list[frozenset[str]], dict):

        class Odd(msgspec.Struct):
            field: odd | None  # type: ignore[valid-type]

        with pytest.raises(errors.BadChart, match="a list is what JSON has"):
            EventShapes("Order", {"ADD": Odd})


def test_a_shape_has_no_type_of_its_own() -> None:
    class Own(TypedDict):
        type: str

    with pytest.raises(errors.BadChart, match="leave it out"):
        EventShapes("Order", {"PAY": Own})
