"""Layer 2. Which bucket does a URL mean, and where is its local copy?"""

import os
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from wakeful.store.bucket.folder import FolderStorage
from wakeful.store.bucket.storage import ObjectStorage
from wakeful.values.errors import BadUrl, MissingExtra

SCHEMES = ("s3", "az", "gs", "bucket")
_HINT = (
    "write s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, gs://BUCKET/PREFIX or bucket:FOLDER, with ?endpoint=URL, region=NAME "
    "or cache=FOLDER if wished"
)
_OPTIONS = {"s3": ("endpoint", "region"), "az": ("endpoint", "account"), "gs": (), "bucket": ()}
_EVERYWHERE = ("cache",)
# Storages of this process that are named by `bucket:@NAME`: for tests.
LENT: dict[str, ObjectStorage] = {}


class BucketUrl(NamedTuple):
    """What a URL says."""

    scheme: str
    bucket: str  # or folder, or container
    prefix: str
    options: dict[str, str]

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
            if self.bucket.startswith("@"):
                return LENT[self.bucket[1:]]
            _check_folder(Path(self.bucket))
            return FolderStorage(self.bucket)
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
    options = _options(scheme, query)
    if "endpoint" in options:
        _check_endpoint(options["endpoint"])
    found = BucketUrl(scheme, bucket, prefix, options)
    if scheme == "bucket" and not bucket.startswith("@"):
        _check_cache(Path(bucket), found.cache)
    return found


def _check_folder(folder: Path) -> None:
    """It is one, or can be made: else nothing changes by trying again, as it may with a bucket."""
    there = folder
    while not os.path.exists(there):
        there = there.parent
    if not os.path.isdir(there):
        why = f"{there} is no folder"
    elif there != folder and not os.access(there, os.W_OK | os.X_OK):
        why = f"{there} is not writable for this user, so no folder can be made in it"
    else:
        return
    raise BadUrl(f"bucket:{folder} can't be a folder: {why}; give another, bucket:FOLDER")


def _check_cache(folder: Path, cache: str) -> None:
    """Whoever copies, moves or clears the bucket would have a file in it that is none of its objects, and is open."""
    found = Path(cache).resolve().parent
    if found.is_relative_to(folder):
        raise BadUrl(
            f"the local copy of bucket:{folder} would be inside of it, in {found}: it is no object of the bucket; keep it "
            "elsewhere with ?cache=FOLDER"
        )


def _check_endpoint(endpoint: str) -> None:
    """Before the client has it: that of S3 ends the thread that asks where it can't make a request of it."""
    try:
        parts = urlsplit(endpoint)
        is_fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_fine = False
    if not is_fine or not endpoint.isascii() or any(sign.isspace() for sign in endpoint):
        raise BadUrl(f"endpoint={endpoint} is no address of a server; write endpoint=https://HOST, or http://HOST:PORT")


def _options(scheme: str, query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in (*_EVERYWHERE, *_OPTIONS[scheme]):
            raise BadUrl(f"'{scheme}:' does not know the option {name}={value}; {_HINT}")
        if not value or name in options:
            raise BadUrl(f"the option {name} of '{scheme}:' {'is there twice' if value else 'has no value'}; {_HINT}")
        options[name] = value
    return options
