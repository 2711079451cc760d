"""Layer 2. A folder that behaves like a bucket: for tests, for trying out, and where nothing else is at hand."""

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from wakeful.store.bucket.storage import Refused, is_within


class FolderStorage:
    """Objects as files. A link that must not exist yet is the condition; it keeps what it is given as a disk does."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder).resolve()

    @property
    def place(self) -> str:
        return f"bucket:{self._folder}"

    def create(self, key: str, data: bytes) -> bool:
        made = self._write(key, data)
        try:
            os.link(made, self._folder / key)
        except FileExistsError:
            return False
        except OSError as error:
            raise Refused(f"{self.place}: {error.strerror}: {key}") from None
        finally:
            os.unlink(made)
        return True

    def put(self, key: str, data: bytes) -> None:
        made = self._write(key, data)
        try:
            os.replace(made, self._folder / key)
        except OSError as error:
            os.unlink(made)
            raise Refused(f"{self.place}: {error.strerror}: {key}") from None

    def get(self, key: str) -> bytes | None:
        try:
            return (self._folder / key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"{self.place}: {error.strerror}: {key}") from None

    def keys(self, prefix: str, *, after: str = "", until: str | None = None) -> list[str]:
        top = self._folder / prefix.rpartition("/")[0]
        found = [path.relative_to(self._folder).as_posix() for path in top.rglob("*") if path.is_file()]
        return sorted(key for key in found if is_within(key, prefix, after, until))

    def write_time(self, key: str) -> int | None:
        try:
            return int(os.stat(self._folder / key).st_mtime) * 1_000
        except FileNotFoundError:
            return None

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            with suppress(FileNotFoundError):
                os.unlink(self._folder / key)

    def _write(self, key: str, data: bytes) -> str:
        """A file with these bytes beside the place where they belong."""
        try:
            self._folder.joinpath(".new").mkdir(parents=True, exist_ok=True)
            (self._folder / key).parent.mkdir(parents=True, exist_ok=True)
            descriptor, made = tempfile.mkstemp(dir=self._folder / ".new")
        except OSError as error:
            raise Refused(f"{self.place}: {error.strerror}: {key}; make the folder writable") from None
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            os.unlink(made)
            raise Refused(f"{self.place}: {error.strerror}: {key}; make room on its disk") from None
        return made
