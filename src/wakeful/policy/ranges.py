"""Layer 1, pure. Which keys does a listing mean, and what does it show over the turn's own writes?

Python compares text by code point, which is the order of its UTF-8 bytes: no encoding is needed.
"""

from collections.abc import Iterable, Mapping
from string import ascii_lowercase, ascii_uppercase

from wakeful.policy.limits import check_storage_key
from wakeful.values.errors import BadOption

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def bounds(
    prefix: str, start: str | None, start_after: str | None, end: str | None, limit: int | None
) -> tuple[str, str | None]:
    """The options of `list` as one half-open range: first key inclusive, last exclusive (None: no end)."""
    if start is not None and start_after is not None:
        raise BadOption("list takes start or start_after, not both", code="list.start")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise BadOption(f"list limit must be a positive whole number, not {limit!r}", code="list.limit")
    check_storage_key(prefix)
    for given in (start, start_after, end):
        if given is not None:
            check_storage_key(given)
    first = prefix
    if start is not None:
        first = max(first, start)
    if start_after is not None:
        first = max(first, start_after + "\0")
    last = past_prefix(prefix)
    if end is not None:
        last = end if last is None else min(last, end)
    return first, last


def past_prefix(prefix: str) -> str | None:
    """The first key after all that begin with the prefix; None when nothing comes after them."""
    for cut in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[cut])
        if code < 0x10FFFF:
            # The code points between are surrogates, which no key can contain.
            return prefix[:cut] + chr(0xE000 if code == 0xD7FF else code + 1)
    return None


def within(key: str, first: str, last: str | None) -> bool:
    return key >= first and (last is None or key < last)


def merge(
    rows: Iterable[tuple[str, bytes]], over: Mapping[str, bytes | None], *, reverse: bool, limit: int | None
) -> dict[str, bytes]:
    """Stored rows with newer writes laid over them (None: deleted), in order, cut at the limit."""
    found: dict[str, bytes | None] = dict(rows)
    if over:
        found.update(over)
        found = {key: found[key] for key in sorted(found, reverse=reverse)}
    kept: dict[str, bytes] = {}
    for key, value in found.items():
        if value is not None:
            kept[key] = value
            if len(kept) == limit:
                break
    return kept


def lower(text: str) -> str:
    """Without regard to the case of letters from A to Z: that is what every store can do, and all alike."""
    return text.translate(_LOWER)
