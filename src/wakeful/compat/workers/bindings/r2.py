"""Layer 5. What is an R2 bucket here, and what does it know of each of its objects?

One object of Wakeful's, `R2Bucket/<bucket_name>`: a row for each entry, in the order of the keys, and the bytes as parts
of versions. An entry of several parts that were uploaded one by one is a list of such versions.
"""

from collections.abc import Mapping
from typing import Any

from wakeful.compat.workers.bindings.long_values import SWEEP_ROWS, LongValues
from wakeful.runtime.registry import reader

CLASS = "R2Bucket"
UPLOAD_DAYS_MS = 7 * 86_400_000  # after which an upload in parts that was not completed is over, as there

_ENTRY = "o"
_UPLOAD = "x"
_UPLOADED = "y"

Entry = dict[str, Any]  # version, size, etag, uploaded, http, custom, sums, segments


class R2Bucket(LongValues):
    """The entries of a bucket."""

    async def store(
        self, key: str, entry: Entry, data: bytes | None, version: str | None, conditions: dict[str, Any] | None
    ) -> Entry | None:
        """Put an entry over the one that is there; None when the conditions say no."""
        if not meets(conditions, await self.storage.get(_ENTRY + key)):
            if version is not None:
                await self._keep(None, version)
                self._drop(version, entry["size"])
            return None
        segment = [await self._keep(data, version), entry["size"]]
        return await self._put_entry(key, {**entry, "segments": [segment], "version": segment[0]})

    @reader
    async def heads(self, key: str, conditions: dict[str, Any] | None) -> list[Any]:
        """The entry, or None; and whether the conditions let its bytes be read."""
        entry = await self.storage.get(_ENTRY + key)
        return [entry, meets(conditions, entry)]

    async def remove(self, keys: list[str]) -> None:
        """No such entries any more."""
        for key in keys:
            await self._drop_entry(key)

    @reader
    async def entries(self, prefix: str, delimiter: str, limit: int, after: str | None) -> list[Any]:
        """Keys and entries, what begins alike up to the delimiter, and the last key looked at when there are more."""
        singles: list[Any] = []
        groups: list[str] = []
        start = None if after is None else _ENTRY + after
        while True:
            rows = await self.storage.list(prefix=_ENTRY + prefix, start_after=start, limit=limit + 1)
            for name, entry in rows.items():
                key = name[len(_ENTRY) :]
                end = key.find(delimiter, len(prefix)) if delimiter else -1
                group = key[: end + len(delimiter)] if end >= 0 else None
                if group is not None and groups and groups[-1] == group:
                    continue
                if len(singles) + len(groups) == limit:
                    return [singles, groups, start[len(_ENTRY) :] if start else None]
                if group is None:
                    singles.append([key, entry])
                    start = name
                else:
                    groups.append(group)
                    start = _ENTRY + group + "\U0010ffff"  # past all of the group
                    break
            else:
                if len(rows) <= limit:
                    return [singles, groups, None]
                start = max(start or "", next(reversed(rows)), key=str.encode)

    # uploads in parts

    async def begin_upload(self, id: str, key: str, http: Any, custom: Any) -> None:
        """An upload whose parts come one by one."""
        now = self._ms()
        self.storage.put(_UPLOAD + id, [now, key, http, custom])
        await self._ring_at(now + UPLOAD_DAYS_MS)

    async def store_part(
        self, id: str, key: str, number: int, size: int, etag: str, data: bytes | None, version: str | None
    ) -> bool:
        """One part, over one of that number; False when there is no such upload."""
        upload = await self.storage.get(_UPLOAD + id)
        kept = await self._keep(data, version)
        if upload is None or upload[1] != key:
            self._drop(kept, size)
            return False
        name = _part_of(id, number)
        if (before := await self.storage.get(name)) is not None:
            self._drop(before[0], before[1])
        self.storage.put(name, [kept, size, etag])
        return True

    async def complete_upload(self, id: str, key: str, chosen: list[list[Any]], etag: str, least: int) -> Entry | str:
        """The entry that those parts (number, etag) make; or what is wrong."""
        upload = await self.storage.get(_UPLOAD + id)
        if upload is None or upload[1] != key:
            return "upload"
        parts = await self.storage.list(prefix=_UPLOADED + id)
        names = [_part_of(id, number) for number, _ in chosen]
        if any(parts.get(name, [None] * 3)[2] != etag for name, (_, etag) in zip(names, chosen, strict=True)):
            return "part"
        segments = [parts[name][:2] for name in names]
        if any(size < least for _, size in segments[:-1]):
            return "small"
        for name, (version, size, _) in parts.items():
            self.storage.delete(name)
            if name not in names:
                self._drop(version, size)
        self.storage.delete(_UPLOAD + id)
        _, _, http, custom = upload
        size = sum(size for _, size in segments)
        entry = {"size": size, "etag": etag, "http": http, "custom": custom, "sums": {}, "segments": segments}
        return await self._put_entry(key, {**entry, "version": segments[0][0] if segments else id})

    async def abort_upload(self, id: str) -> None:
        """Its parts are gone."""
        parts = await self.storage.list(prefix=_UPLOADED + id)
        for name, (version, size, _) in parts.items():
            self._drop(version, size)
            self.storage.delete(name)
        self.storage.delete(_UPLOAD + id)

    async def _sweep(self, now: int) -> int | None:
        uploads = await self.storage.list(prefix=_UPLOAD, limit=SWEEP_ROWS)
        for name, (begun, *_) in uploads.items():
            if begun + UPLOAD_DAYS_MS <= now:
                await self.abort_upload(name[len(_UPLOAD) :])
        left = [begun + UPLOAD_DAYS_MS for begun, *_ in uploads.values() if begun + UPLOAD_DAYS_MS > now]
        return min(left, default=None)

    async def _put_entry(self, key: str, entry: Entry) -> Entry:
        await self._drop_entry(key)
        entry["uploaded"] = self._ms()
        self.storage.put(_ENTRY + key, entry)
        return entry

    async def _drop_entry(self, key: str) -> None:
        entry = await self.storage.get(_ENTRY + key)
        if entry is not None:
            for version, size in entry["segments"]:
                self._drop(version, size)
            self.storage.delete(_ENTRY + key)


def _part_of(id: str, number: int) -> str:
    return f"{_UPLOADED}{id}{number:05}"


def meets(conditions: Mapping[str, Any] | None, entry: Entry | None) -> bool:
    """Whether what is there is what was asked for; without conditions always."""
    if not conditions:
        return True
    etag = None if entry is None else entry["etag"]
    match, other = conditions.get("matches"), conditions.get("differs")
    if match is not None and (etag is None or ("*" not in match and etag not in match)):
        return False
    if other is not None and etag is not None and ("*" in other or etag in other):
        return False
    if entry is None:
        return conditions.get("before") is None and conditions.get("after") is None
    at = entry["uploaded"]
    if conditions.get("whole_seconds"):
        at = at // 1000 * 1000
    # As in HTTP: what was said of the content itself counts before what was said of its time.
    if match is None and conditions.get("before") is not None and not at < conditions["before"]:
        return False
    return not (other is None and conditions.get("after") is not None and not at > conditions["after"])
