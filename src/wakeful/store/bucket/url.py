"""Layer 2. Which bucket does a URL mean, and where is its local copy?"""

import os
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from wakeful.store.bucket.folder import FolderStorage
from wakeful.store.bucket.owners import LEASE_S
from wakeful.store.bucket.storage import ObjectStorage
from wakeful.values.errors import BadUrl, MissingExtra
from wakeful.values.times import duration_ms

SCHEMES = ("s3", "az", "gs", "bucket")
_HINT = (
    "write s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, gs://BUCKET/PREFIX or bucket:FOLDER, with ?endpoint=URL, region=NAME, "
    "cache=FOLDER or lease=15s if wished"
)
_OPTIONS = {"s3": ("endpoint", "region"), "az": ("endpoint", "account"), "gs": (), "bucket": ()}
_EVERYWHERE = ("cache", "lease")
_LEASE_MAX_S = 300.0
# Storages of this process that are named by `bucket:@NAME`: for tests.
LENT: dict[str, ObjectStorage] = {}


class BucketUrl(NamedTuple):
    """What a URL says."""

    scheme: str
    bucket: str  # or folder, or container
    prefix: str
    options: dict[str, str]

    @property
    def lease_s(self) -> float:
        given = self.options.get("lease")
        return LEASE_S if given is None else duration_ms(given, what="lease") / 1_000

    @property
    def place(self) -> str:
        endpoint = self.options.get("endpoint", self.options.get("account", ""))
        return f"{self.scheme}://{self.bucket}/{self.prefix}{f' at {endpoint}' if endpoint else ''}"

    @property
    def cache(self) -> str:
        """The local file: one for each place, in the user's folder for what may be deleted."""
        given = self.options.get("cache")
        base = os.environ.get("XDG_CACHE_HOME")
        folder = Path(given) if given else (Path(base) if base else Path.home() / ".cache") / "wakeful"
        name = blake2b(self.place.encode(), digest_size=8).hexdigest()
        return str(folder / f"bucket-{name}.db")

    def open(self) -> ObjectStorage:
        """The storage; nothing is asked of it yet."""
        if self.scheme == "bucket":
            return LENT[self.bucket[1:]] if self.bucket.startswith("@") else FolderStorage(self.bucket)
        try:
            from wakeful.store.bucket.cloud import CloudStorage
        except ImportError as error:
            raise MissingExtra(
                f"{error.name} is not installed; buckets need it: pip install 'wakeful[bucket]'"
            ) from None
        return CloudStorage(self.scheme, self.bucket, self.prefix, self.options, place=self.place)


def parse_url(url: str) -> BucketUrl:
    """`BadUrl` says what is wrong with it; what may be a password is not repeated."""
    scheme, _, rest = url.partition(":")
    scheme = scheme.lower()
    path, _, query = rest.partition("?")
    if scheme == "bucket":
        if not path or path.startswith("//"):
            raise BadUrl(f"'bucket:' needs a folder; {_HINT}")
        if path.startswith("@") and path[1:] not in LENT:
            raise BadUrl(f"nobody in this process has lent a bucket {path!r}; {_HINT}")
        bucket, prefix = path if path.startswith("@") else str(Path(path).resolve()), ""
    else:
        parts = urlsplit(f"{scheme}:{path}")
        if not parts.netloc:
            raise BadUrl(f"'{scheme}:' needs the name of a bucket; {_HINT}")
        if "@" in parts.netloc or "#" in path:
            raise BadUrl(
                f"'{scheme}:': credentials do not belong into the URL, the usual places are read (environment, profile, "
                f"role of the machine); {_HINT}"
            )
        bucket, prefix = parts.netloc, unquote(parts.path).strip("/")
    return BucketUrl(scheme, bucket, prefix, _options(scheme, query))


def _options(scheme: str, query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in (*_EVERYWHERE, *_OPTIONS[scheme]) or not value or name in options:
            raise BadUrl(f"'{scheme}:' does not know, or knows but once, the option {name}={value}; {_HINT}")
        options[name] = value
    try:
        if "lease" in options and not 0 <= duration_ms(options["lease"], what="lease") <= _LEASE_MAX_S * 1_000:
            raise ValueError
    except ValueError:
        raise BadUrl(f"lease={options['lease']}: from 0s to {_LEASE_MAX_S:.0f}s; {_HINT}") from None
    return options
