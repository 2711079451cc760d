"""A time need not say its seconds, wherever a type asks for one; and nothing that is no time is touched."""

from dataclasses import dataclass
from datetime import datetime, time
from typing import Any

import msgspec
import pytest

from wakeful.operations.conversion import EXACT_MAX, convert_json

NINE = datetime.fromisoformat("2030-01-01T09:00+00:00")
TEXT = "2030-01-01T09:00Z"


@dataclass
class Visit:
    at: datetime
    note: str = ""
    others: list[datetime] | None = None


CASES: list[tuple[Any, Any, Any]] = [
    (TEXT, datetime, NINE),
    ("2030-01-01T09:00+00:00", datetime, NINE),
    ("2030-01-01 09:00+00:00", datetime, NINE),
    ("2030-01-01T09:00", datetime, NINE.replace(tzinfo=None)),
    (TEXT, datetime | None, NINE),
    ("09:00", time, time(9)),
    ([TEXT, "2030-01-01T09:00:00Z"], list[datetime], [NINE, NINE]),
    ({"a": {"b": TEXT}, "c": {}}, dict[str, dict[str, datetime]], {"a": {"b": NINE}, "c": {}}),
    ({"at": TEXT, "note": TEXT}, Visit, Visit(NINE, TEXT)),
    ([{"at": TEXT, "others": [TEXT, TEXT]}], list[Visit], [Visit(NINE, "", [NINE, NINE])]),
    ([TEXT, TEXT], tuple[datetime, str], (NINE, TEXT)),
    ([TEXT] * 1_000, list[datetime], [NINE] * 1_000),
]


@pytest.mark.parametrize(("given", "hint", "made"), CASES)
def test_seconds_may_be_left_out_where_a_type_asks_for_a_time(given: Any, hint: Any, made: Any) -> None:
    assert convert_json(given, hint) == made


@pytest.mark.parametrize(
    "given", ["tea", "2030-01-01", "2030-01-01T9:00Z", "2030-01-01T09:00 tomorrow", "25:00", "09:00\n"]
)
def test_what_is_no_time_is_refused_as_before(given: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="RFC3339"):
        convert_json([given], list[datetime])


def test_a_long_list_of_them_takes_few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    tries, convert = [], msgspec.convert
    monkeypatch.setattr(msgspec, "convert", lambda *args, **options: tries.append(1) or convert(*args, **options))
    convert_json([TEXT] * 10_000, list[datetime])
    assert len(tries) <= EXACT_MAX + 2
