"""Layer 5, pure. How do instants, lengths, verdicts and values look on a page?"""

import json
import re
from datetime import datetime
from typing import Any

from markupsafe import Markup, escape

from wakeful.values.times import LATEST_MS, from_datetime, to_datetime
from wakeful.views.plain import length as length
from wakeful.views.plain import many as many
from wakeful.views.plain import size as size

# Each verdict and state: its colour, and a shape for those who don't see the colour.
MARKS = {
    "run": "good dot",
    "delivered": "good dot",
    "failed": "bad cross",
    "skipped": "ring",
    "too_late": "warn wedge",
    "coalesced": "lines",
    "overlap": "twin",
    "paused": "warn bars",
    "gap": "ring",
    "active": "good dot",
    "waiting": "half",
    "done": "good box",
    "retired": "ring",
    "scheduled": "ring",
    "running": "busy arrow",
    "lingering": "warn wedge",
    "cancelled": "ring",
    "up": "good dot",
    "draining": "warn half",
    "silent": "warn wedge",
    "gone": "bad cross",
    "expired": "warn wedge",
    "revoked": "bad cross",
    "refused": "bad cross",
    "begun": "half",
    "nothing": "ring",
    "partly": "warn half",
}
WORDS = {"too_late": "too late"}
# Controls, invisible marks and those that turn the direction of what follows: a name that holds one could pass for
# another. The two joiners stay, which scripts and emoji need.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0001\U000e0020-\U000e007f]"
)


def visible(value: Any) -> Any:
    """What a template is given, with characters that nobody could see written out; markup of ours is left alone."""
    if type(value) is not str or (value.isascii() and value.isprintable()):
        return value
    return _UNSEEN.sub(lambda found: repr(found[0])[1:-1], value)


def instant(value: object) -> int | None:
    """Milliseconds of what a row has: a number, ISO text, or nothing."""
    if value is None or isinstance(value, int):
        return value
    return from_datetime(datetime.fromisoformat(str(value)))


def relative(at: int, now: int) -> str:
    """`in 4 s`, `3 min ago`, `now`; whole seconds, since it ticks."""
    apart = abs(at - now)
    if apart < 1_000:
        return "now"
    apart_words = f"{round(apart / 1_000)} s" if apart < 90_000 else length(apart)
    return f"in {apart_words}" if at > now else f"{apart_words} ago"


def when(value: object, now: int) -> Markup:
    """An instant as a `<time>` that ticks, with the absolute time on hover; nothing for None."""
    at = instant(value)
    if at is None:
        return Markup("")
    if at > LATEST_MS:  # a job that waits for others has no time yet
        return Markup('<span class="soft">when others ran</span>')
    exact = to_datetime(at)
    return Markup('<time datetime="{}" data-at="{}" title="{}">{}</time>').format(
        exact.isoformat(timespec="milliseconds"), at, f"{exact:%Y-%m-%d %H:%M:%S} UTC", relative(at, now)
    )


def moment(value: object) -> Markup:
    """An instant that stands still: `2026-03-29 02:30:00 UTC`."""
    at = instant(value)
    if at is None:
        return Markup("")
    exact = to_datetime(at)
    text = f"{exact:%Y-%m-%d %H:%M:%S}"
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(exact.isoformat(), text, text)


def brief(text: str) -> str:
    """What a spec says, in a list: an interval without the instant that it is counted from."""
    return text.partition(", counted from")[0]


def local(text: str) -> str:
    """A local time as people read it; the zone stands beside it."""
    return f"{datetime.fromisoformat(text):%a %Y-%m-%d %H:%M:%S}"


def mark(word: object) -> Markup:
    """A verdict or state: shape, word, colour."""
    text = str(word)
    return Markup('<span class="mark {}">{}</span>').format(MARKS.get(text, "ring"), WORDS.get(text, visible(text)))


def one_line(value: Any) -> str:
    """A value as JSON on one line."""
    return str(visible(json.dumps(value, ensure_ascii=False)))


def pretty(value: Any) -> str:
    """A value as JSON over several lines."""
    return str(visible(json.dumps(value, ensure_ascii=False, indent=2)))


def value(data: Any, id: str = "") -> Markup:
    """A value as people read it: short ones as they are, long ones to be opened."""
    line = one_line(data)
    if len(line) <= 90:
        return Markup("<code>{}</code>").format(line)
    return Markup(
        '<details class="value" data-id="{}"><summary><span class="cut">{}</span></summary><pre tabindex="0">{}</pre></details>'
    ).format(visible(id), f"{line[:400]}…" if len(line) > 400 else line, pretty(data))


def error_line(text: str | None) -> Markup:
    """The first line of an error."""
    return escape(visible((text or "").strip().partition("\n")[0]))
