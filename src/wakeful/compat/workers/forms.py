"""Layer 5. Blobs and forms, as far as requests and responses carry them."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes

from wakeful.compat.workers.failures import JsTypeError
from wakeful.compat.workers.values import option_of

Data = bytes  # inside a class with a method of that name
_BOUNDARY = "wakeful-form-boundary-"
FIELDS_MAX = 20_000  # each is made by Python, in some microseconds
HEAD_BYTES_MAX = 8_192  # of one field: its name, its type
_PIECE_BYTES = 64 << 10
_EMPTY_LINE = re.compile(rb"\r?\n\r?\n")
_PARAMETER = re.compile(r';[ \t]*([\w*-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;" \t]*))')


class Blob:
    """Bytes with a type."""

    def __init__(self, data: Any = b"", content_type: str = "") -> None:
        parts = data if isinstance(data, list | tuple) else [data]
        self._data: Data = b"".join(
            part._data if isinstance(part, Blob) else part.encode() if isinstance(part, str) else bytes(part)
            for part in parts
        )
        self.content_type = content_type

    @classmethod
    def new(cls, parts: Any = (), options: Any = None, **named: Any) -> "Blob":
        """As JavaScript makes one: parts, and `type` among the options."""
        return cls(list(parts), str(option_of(options, named, "Blob").get("type", "")))

    @property
    def size(self) -> int:
        return len(self._data)

    @property
    def type(self) -> str:
        return self.content_type

    def slice(self, start: int = 0, end: int | None = None, content_type: str = "") -> "Blob":
        """A part of it; counted from the end where a number is below zero."""
        return Blob(self._data[slice(start, end)], content_type)

    async def bytes(self) -> Data:
        return self._data

    arrayBuffer = bytes  # noqa: N815  the name there

    async def text(self) -> str:
        return self._data.decode(errors="replace")


class File(Blob):
    """A blob with a name."""

    def __init__(self, data: Any = b"", filename: str = "", content_type: str = "") -> None:
        super().__init__(data, content_type)
        self.name = filename

    @classmethod
    def new(cls, parts: Any = (), name: str = "", options: Any = None, **named: Any) -> "File":  # type: ignore[override]
        """As JavaScript makes one: parts, a name, and `type` among the options."""
        return cls(list(parts), name, str(option_of(options, named, "File").get("type", "")))


class FormData:
    """The fields of a form, in order; a field may come several times."""

    def __init__(self, given: Any = None) -> None:
        pairs = given.items() if isinstance(given, dict) else given or []
        self._pairs: list[tuple[str, Any]] = []
        for name, value in pairs:
            for one in value if isinstance(value, list) else [value]:
                self.append(name, one)

    @classmethod
    def new(cls, given: Any = None) -> "FormData":
        return cls(given)

    def get(self, name: str) -> Any:
        return next((value for known, value in self._pairs if known == name), None)

    def get_all(self, name: str) -> list[Any]:
        return [value for known, value in self._pairs if known == name]

    getAll = get_all  # noqa: N815  the name there

    def append(self, name: str, value: Any, filename: str | None = None) -> None:
        if isinstance(value, Blob) and (filename is not None or not isinstance(value, File)):
            value = File(value._data, filename or "blob", value.content_type)  # as there
        self._pairs.append((str(name), value if isinstance(value, Blob) else str(value)))

    def set(self, name: str, value: Any, filename: str | None = None) -> None:
        self.delete(name)
        self.append(name, value, filename)

    def delete(self, name: str) -> None:
        self._pairs = [pair for pair in self._pairs if pair[0] != name]

    def has(self, name: str) -> bool:
        return name in self

    def items(self) -> list[tuple[str, Any]]:
        return list(self._pairs)

    entries = items

    def forEach(self, do: Any) -> None:  # noqa: N802  the name there
        """With the value first, as there."""
        for name, value in self.items():
            do(value, name, self)

    def keys(self) -> list[str]:
        return [name for name, _ in self._pairs]

    def values(self) -> list[Any]:
        return [value for _, value in self._pairs]

    def __getitem__(self, name: str) -> Any:
        found = self.get_all(name)
        if not found:
            raise KeyError(name)
        return found[0]

    def __setitem__(self, name: str, value: Any) -> None:
        self.set(name, value)

    def __delitem__(self, name: str) -> None:
        self.delete(name)

    def __len__(self) -> int:
        return len(self._pairs)

    def __contains__(self, name: object) -> bool:
        return any(known == name for known, _ in self._pairs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


def parse_form(data: bytes, content_type: str) -> FormData:
    """The form that a body of that type is."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        _check_count(data.count(b"&"))
        pairs = (pair.partition(b"=") for pair in data.split(b"&") if pair)
        return FormData([(_unescape(name), _unescape(value)) for name, _, value in pairs])
    if kind != "multipart/form-data":
        raise JsTypeError(f"a body of the type {content_type!r} is no form")
    boundary = _parameters(content_type).get("boundary")
    parts = _parts(data, boundary.encode("latin-1", "replace")) if boundary else []
    if not parts:
        raise JsTypeError("the form's parts can't be told from each other")
    made = FormData()
    for part in parts:
        _read_part(made, part)
    return made


def _unescape(data: bytes) -> str:
    """What `+` and `%41` stand for; in pieces, between which the event loop gets its turn."""
    data, at, pieces = data.replace(b"+", b" "), 0, []
    while at < len(data):
        end = at + _PIECE_BYTES
        while end < len(data) and b"%" in data[end - 2 : end]:  # not within an escape
            end += 1
        pieces.append(unquote_to_bytes(data[at:end]))
        at = end
    return b"".join(pieces).decode(errors="replace")


def _parts(data: bytes, boundary: bytes) -> list[bytes]:
    """What stands between two lines of the boundary; in one pass, as the parser of mail is quadratic."""
    line = re.compile(rb"\r?\n--" + re.escape(boundary) + rb"(--)?[ \t]*(?=\r?\n|\Z)")
    _check_count(data.count(b"--" + boundary))
    parts, begun = [], -1
    for found in line.finditer(data := b"\n" + data):
        if begun >= 0:
            parts.append(data[begun : found.start()])
        begun = found.end()
        if found[1]:
            break
    return parts


def _read_part(form: FormData, part: bytes) -> None:
    """One field, if it has a name."""
    end = _EMPTY_LINE.search(part, 0, HEAD_BYTES_MAX)
    if end is None:
        return
    heads = {}
    for line in part[: end.start()].decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        heads[name.strip().lower()] = value.strip()
    said = _parameters(heads.get("content-disposition", ""))
    if "name" not in said:
        return
    filename, content = _filename(said), part[end.end() :]
    if filename is None:
        form.append(said["name"], content.decode(errors="replace"))
    else:
        kind = heads.get("content-type", "text/plain").partition(";")[0].strip().lower()
        form.append(said["name"], File(content, filename, content_type=kind))


def _parameters(value: str) -> dict[str, str]:
    """Those of a header: `; name="a"; filename=b`."""
    return {
        name.lower(): re.sub(r"\\(.)", r"\1", quoted) if quoted or not bare else bare
        for name, quoted, bare in _PARAMETER.findall(value[:HEAD_BYTES_MAX])
    }


def _filename(said: dict[str, str]) -> str | None:
    """In whatever form it is said: `filename*` has its encoding before it."""
    encoding, _, rest = said.get("filename*", "").partition("'")
    if encoding.lower() in ("utf-8", "iso-8859-1"):
        return unquote(rest.partition("'")[2], encoding, "replace")
    return said.get("filename")


def _check_count(count: int) -> None:
    if count > FIELDS_MAX:
        raise JsTypeError(f"a form of more than {FIELDS_MAX} fields is not read; send it as JSON or as one file")


def form_body(form: FormData) -> tuple[bytes, str]:
    """A form as a body, and its type."""
    everything = b"".join(value._data if isinstance(value, Blob) else value.encode() for _, value in form.items())
    number = 0
    while f"{_BOUNDARY}{number}".encode() in everything:
        number += 1
    boundary = f"{_BOUNDARY}{number}"
    parts = []
    for name, value in form.items():
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{quote(name, safe=" ")}"'
        data = value._data if isinstance(value, Blob) else value.encode()
        if isinstance(value, File):
            head += f'; filename="{quote(value.name, safe=" ")}"'
        if isinstance(value, Blob):
            head += f"\r\nContent-Type: {value.content_type or 'application/octet-stream'}"
        parts.append(head.encode() + b"\r\n\r\n" + data + b"\r\n")
    return b"".join([*parts, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"
