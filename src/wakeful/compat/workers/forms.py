"""Layer 5. Blobs and forms, as far as requests and responses carry them."""

from collections.abc import Iterator, Mapping
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from wakeful.compat.workers.failures import JsTypeError

Data = bytes  # inside a class with a method of that name
_BOUNDARY = "wakeful-form-boundary-"


class Blob:
    """Bytes with a type."""

    def __init__(self, data: Any = b"", content_type: str = "") -> None:
        parts = data if isinstance(data, list | tuple) else [data]
        self._data: Data = b"".join(
            part._data if isinstance(part, Blob) else part.encode() if isinstance(part, str) else bytes(part)
            for part in parts
        )
        self.content_type = content_type

    @property
    def size(self) -> int:
        return len(self._data)

    async def bytes(self) -> Data:
        return self._data

    async def text(self) -> str:
        return self._data.decode(errors="replace")


class File(Blob):
    """A blob with a name."""

    def __init__(self, data: Any = b"", filename: str = "", content_type: str = "") -> None:
        super().__init__(data, content_type)
        self.name = filename


class FormData:
    """The fields of a form, in order; a field may come several times."""

    def __init__(self, given: Any = None) -> None:
        pairs = given.items() if isinstance(given, dict) else given or []
        self._pairs: list[tuple[str, Any]] = []
        for name, value in pairs:
            for one in value if isinstance(value, list) else [value]:
                self.append(name, one)

    def get(self, name: str) -> Any:
        return next((value for known, value in self._pairs if known == name), None)

    def get_all(self, name: str) -> list[Any]:
        return [value for known, value in self._pairs if known == name]

    getAll = get_all  # noqa: N815  the name there

    def append(self, name: str, value: Any) -> None:
        self._pairs.append((str(name), value if isinstance(value, Blob) else str(value)))

    def set(self, name: str, value: Any) -> None:
        self.delete(name)
        self.append(name, value)

    def delete(self, name: str) -> None:
        self._pairs = [pair for pair in self._pairs if pair[0] != name]

    def has(self, name: str) -> bool:
        return name in self

    def items(self) -> list[tuple[str, Any]]:
        return list(self._pairs)

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


class URLSearchParams:
    """The query of a URL."""

    def __init__(self, given: Any = "") -> None:
        pairs = given.items() if isinstance(given, Mapping) else given
        if isinstance(pairs, str):
            pairs = parse_qsl(pairs.removeprefix("?"), keep_blank_values=True)
        self._pairs: list[tuple[str, str]] = [(str(name), str(value)) for name, value in pairs]

    @classmethod
    def new(cls, given: Any = "") -> "URLSearchParams":
        return cls(given)

    def get(self, name: str) -> str | None:
        return next((value for known, value in self._pairs if known == name), None)

    def getAll(self, name: str) -> list[str]:  # noqa: N802  the name there
        return [value for known, value in self._pairs if known == name]

    def has(self, name: str) -> bool:
        return any(known == name for known, _ in self._pairs)

    def append(self, name: str, value: Any) -> None:
        self._pairs.append((str(name), str(value)))

    def set(self, name: str, value: Any) -> None:
        self.delete(name)
        self.append(name, value)

    def delete(self, name: str) -> None:
        self._pairs = [pair for pair in self._pairs if pair[0] != name]

    def entries(self) -> list[tuple[str, str]]:
        return list(self._pairs)

    def toString(self) -> str:  # noqa: N802  the name there
        return urlencode(self._pairs)

    __str__ = toString


def parsed_form(data: bytes, content_type: str) -> FormData:
    """The form that a body of that type is."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return FormData(parse_qsl(data.decode(errors="replace"), keep_blank_values=True))
    if kind != "multipart/form-data":
        raise JsTypeError(f"a body of the type {content_type!r} is no form")
    message = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + data)
    if not message.is_multipart():
        raise JsTypeError("the form's parts can't be told from each other")
    made = FormData()
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content: Any = part.get_payload(decode=True)
        if not isinstance(name, str):
            continue
        filename = part.get_filename()
        if filename is None:
            made.append(name, content.decode(errors="replace"))
        else:
            made.append(name, File(content, filename, content_type=part.get_content_type()))
    return made


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
