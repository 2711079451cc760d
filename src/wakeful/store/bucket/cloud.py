"""Layer 2. The seam over S3, Azure Blob Storage and Google Cloud Storage, by obstore.

Its synchronous calls, in threads of ours: its asynchronous ones were seen to abort the interpreter at exit. It does not
try again by itself: whether a create that was lost was done is for `Patient` to find out.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from wakeful.store.bucket.storage import Refused, Unsure, is_within
from wakeful.values.errors import BadUrl

T = TypeVar("T")

_TIMES = {
    "timeout": "10s",
    "connect_timeout": "3s",
}  # below the lease, so that a request that hangs is asked again in time
_RETRY: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=10)}
_DELETES_MAX = 1_000
# What says that it will be no different a moment later.
_LASTING = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, exceptions.NotSupportedError)
_LASTING_WORDS = (
    "NoSuchBucket",
    "bucket does not exist",
    "ContainerNotFound",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "MissingCredentials",
)


class CloudStorage:
    """A bucket, or a prefix of one."""

    def __init__(self, scheme: str, bucket: str, prefix: str, options: Mapping[str, str], *, place: str) -> None:
        self.place = place
        try:
            self._store = _open(scheme, bucket, prefix, options)
        except (exceptions.BaseError, ValueError) as error:
            said = _first_line(error)
            if "Account must be specified" in said:
                said += "; name it with ?account=NAME or $AZURE_STORAGE_ACCOUNT_NAME"
            raise BadUrl(f"{place} can't be opened: {said}") from None

    def create(self, key: str, data: bytes) -> bool:
        try:
            self._ask(lambda: obstore.put(self._store, key, data, mode="create", use_multipart=False))
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            return False
        except FileNotFoundError as error:
            raise Refused(f"{self.place}: {_first_line(error)}") from None
        return True

    def put(self, key: str, data: bytes) -> None:
        try:
            self._ask(lambda: obstore.put(self._store, key, data, use_multipart=False))
        except FileNotFoundError as error:  # the bucket itself
            raise Refused(f"{self.place}: {_first_line(error)}") from None

    def get(self, key: str) -> bytes | None:
        try:
            return self._ask(lambda: bytes(obstore.get(self._store, key).bytes()))
        except FileNotFoundError as error:
            if any(word in str(error) for word in _LASTING_WORDS):
                raise Refused(f"{self.place}: {_first_line(error)}") from None
            return None

    def keys(self, prefix: str, *, after: str = "", until: str | None = None) -> list[str]:
        folder = prefix.rpartition("/")[0]

        def look() -> list[str]:
            found: list[str] = []
            for rows in obstore.list(self._store, folder, offset=after or None, chunk_size=1_000):
                found += [row["path"] for row in rows]
                if until is not None and found and found[-1] > until:
                    break  # they come in their order, from the three large providers
            return found

        try:
            found = self._ask(look)
        except FileNotFoundError as error:
            raise Refused(f"{self.place}: {_first_line(error)}") from None
        return sorted(key for key in found if is_within(key, prefix, after, until))

    def write_time(self, key: str) -> int | None:
        try:
            found = self._ask(lambda: obstore.head(self._store, key))
        except FileNotFoundError:
            return None
        return int(found["last_modified"].timestamp()) * 1_000

    def delete(self, keys: Sequence[str]) -> None:
        for at in range(0, len(keys), _DELETES_MAX):
            some = list(keys[at : at + _DELETES_MAX])
            try:
                self._ask(lambda some=some: obstore.delete(self._store, some))  # type: ignore[misc]
            except FileNotFoundError:  # one was gone, and what came after it is there still
                for key in some:
                    self._delete_one(key)

    def _delete_one(self, key: str) -> None:
        try:
            self._ask(lambda: obstore.delete(self._store, key))
        except FileNotFoundError:
            return

    def _ask(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError, FileNotFoundError):
            raise
        except _LASTING as error:
            raise Refused(f"{self.place}: {_first_line(error)}") from None
        except (exceptions.BaseError, OSError) as error:
            text = str(error)
            if any(word in text for word in _LASTING_WORDS):
                raise Refused(f"{self.place}: {_first_line(error)}") from None
            raise Unsure(f"{self.place}: {_first_line(error)}") from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # a fault of the client's own, which is no `Exception`
                raise
            raise Unsure(f"{self.place}: the client of the storage failed: {_first_line(error)}") from None


def _open(scheme: str, bucket: str, prefix: str, options: Mapping[str, str]) -> Any:
    endpoint = options.get("endpoint")
    times: Any = {**_TIMES, "allow_http": endpoint is not None and endpoint.startswith("http://")}
    more: dict[str, Any] = {"client_options": times, "retry_config": _RETRY, "prefix": prefix or None}
    if endpoint is not None:
        more["endpoint"] = endpoint
    if scheme == "s3":
        if "region" in options:
            more["region"] = options["region"]
        return S3Store(bucket, **more)
    if scheme == "az":
        if "account" in options:
            more["account_name"] = options["account"]
        return AzureStore(bucket, **more)
    return GCSStore(bucket, **more)


# Where the client looks for the machine's own role when nothing else is said; not every machine has one.
_ROLE = "http://169.254.169.254/"
_NO_CREDENTIALS = (
    "no credentials were found: give them in the environment (AWS_ACCESS_KEY_ID, AZURE_STORAGE_ACCOUNT_KEY, "
    "GOOGLE_APPLICATION_CREDENTIALS and their kin), or run where the machine has a role; "
)
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"|(InvalidCertificate\(\w+)')


def _first_line(error: BaseException) -> str:
    """What the client says, and of what it says below that the reason, which is on none of its first lines."""
    text = str(error).strip() or type(error).__name__
    first, *more = text.splitlines()
    causes = [found[1] or f"{found[2]})" for found in _CAUSE.finditer("\n".join(more))]
    because = f" ({causes[-1][:100]})" if causes and causes[-1] not in first else ""
    return f"{_NO_CREDENTIALS if _ROLE in first else ''}{first[:300]}{because}"
