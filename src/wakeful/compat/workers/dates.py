"""Layer 5. What is a `Date` of JavaScript's in Python? A `datetime` with its methods."""

import time
from datetime import UTC, datetime
from typing import Any


class Date(datetime):
    """A time: a `datetime`, which everything here takes where a Date is expected, with JavaScript's methods."""

    def __new__(cls, *given: Any, **named: Any) -> "Date":
        if len(given) > 2 or named or (given and isinstance(given[0], bytes)):  # as datetime and pickle make one
            return super().__new__(cls, *given, **named)
        return cls.new(*given)

    @classmethod
    def new(cls, ms: Any = None) -> "Date":
        """That time: milliseconds, text or a datetime; now when there is none."""
        if isinstance(ms, datetime):
            ms = ms.timestamp() * 1000
        return cls.fromtimestamp(
            (cls.parse(ms) if isinstance(ms, str) else Date.now() if ms is None else int(ms)) / 1000, UTC
        )

    @staticmethod
    def now(tz: Any = None) -> Any:
        """The milliseconds now."""
        return int(time.time() * 1000) if tz is None else datetime.now(tz)

    @staticmethod
    def parse(text: str) -> int:
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)

    @staticmethod
    def UTC(  # noqa: N802  the name there
        year: int, month: int = 0, day: int = 1, hour: int = 0, minute: int = 0, second: int = 0, ms: int = 0
    ) -> int:
        return int(datetime(year, month + 1, day, hour, minute, second, ms * 1000, UTC).timestamp() * 1000)

    def getTime(self) -> int:  # noqa: N802  the names there
        return round(self.timestamp() * 1000)

    valueOf = getTime  # noqa: N815

    def toISOString(self) -> str:  # noqa: N802
        return self.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.microsecond // 1000:03}Z"

    toJSON = toISOString  # noqa: N815

    def toUTCString(self) -> str:  # noqa: N802
        return self.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")

    def getFullYear(self) -> int:  # noqa: N802
        return self.year

    def getMonth(self) -> int:  # noqa: N802
        """From 0 on, as there."""
        return self.month - 1

    def getDate(self) -> int:  # noqa: N802
        return self.day

    def getDay(self) -> int:  # noqa: N802
        """Of the week, from Sunday, which is 0."""
        return self.isoweekday() % 7

    def getHours(self) -> int:  # noqa: N802
        return self.hour

    def getMinutes(self) -> int:  # noqa: N802
        return self.minute

    def getSeconds(self) -> int:  # noqa: N802
        return self.second

    def getMilliseconds(self) -> int:  # noqa: N802
        return self.microsecond // 1000

    def getTimezoneOffset(self) -> int:  # noqa: N802
        return 0

    getUTCFullYear, getUTCMonth, getUTCDate, getUTCDay = getFullYear, getMonth, getDate, getDay  # noqa: N815
    getUTCHours, getUTCMinutes, getUTCSeconds = getHours, getMinutes, getSeconds  # noqa: N815
