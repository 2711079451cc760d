"""Layer 5. Which file of its folder answers a request, and which requests go to the Worker's code first?

A path names a file below the folder or nothing: what leaves the folder, through `..` or a link, or begins with a dot, is
not there. Pages of HTML have one address each, as `html_handling` says; their other addresses lead to it.
"""

import asyncio
import fnmatch
import hashlib
import mimetypes
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes, urlsplit

from wakeful.compat.workers.failures import JsException
from wakeful.compat.workers.web import Request, Response
from wakeful.values.errors import BadOption

FILE_BYTES_MAX = 25 << 20
PATH_CHARS_MAX = 4_096  # no file system takes longer ones
_ETAGS_MAX = 10_000  # remembered
_NOT_SERVED = frozenset({"_headers", "_redirects", "_worker.js"})
_HTML = ("auto-trailing-slash", "force-trailing-slash", "drop-trailing-slash", "none")
_NOT_FOUND = ("none", "single-page-application", "404-page")
_TEXT = frozenset({"application/javascript", "application/json", "application/xml", "image/svg+xml"})
_TYPES = {
    ".avif": "image/avif",
    ".js": "text/javascript",
    ".map": "application/json",
    ".md": "text/markdown",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
_KNOWN = mimetypes.MimeTypes(filenames=())


class AssetRules(NamedTuple):
    """What a wrangler file says of assets."""

    folder: Path
    html: str
    not_found: str
    worker_first: bool | tuple[str, ...]
    prefers_pages: bool  # a browser that goes somewhere is shown a page rather than the Worker's answer
    ignored: tuple[str, ...]


class _Hit(NamedTuple):
    """The file that a path names, or the path under which it is."""

    file: Path | None
    moved_to: str | None = None


class AssetFiles:
    """`env.ASSETS`: `fetch` answers with a file."""

    def __init__(self, rules: AssetRules) -> None:
        self._rules = rules
        self._etags: dict[Path, tuple[int, int, str]] = {}

    def fetch(self, input: Any, init: Any = None, **options: Any) -> "asyncio.Task[Response]":
        """The file that the path of the request names, or what is said when there is none."""
        is_whole = isinstance(input, Request) and not init and not options
        request = input if is_whole else Request(input, init, **options)
        return asyncio.ensure_future(self.answer(request))

    async def answer(self, request: Request) -> Response:
        """As `fetch`, for whoever waits for it."""
        found = await self.find(request)
        return found if found is not None else await self._answer_missing(request)

    async def find(self, request: Request) -> Response | None:
        """The file's answer, or the way to it; None when the path names none."""
        path, query = _path_of(request)
        hit = await asyncio.to_thread(self._look, path)
        if hit is None:
            return None
        if request.method not in ("GET", "HEAD"):
            return Response(None, 405, headers={"allow": "GET, HEAD"})
        if hit.moved_to is not None:
            return Response(None, 307, headers={"location": quote(hit.moved_to) + query})
        assert hit.file is not None
        return await self._answer_file(request, hit.file, 200)

    def runs_worker_first(self, request: Request) -> bool:
        """The Worker's code is asked before any file is looked for."""
        first = self._rules.worker_first
        if isinstance(first, bool):
            return first
        path = urlsplit(request.url).path or "/"
        if any(_matches(pattern[1:], path) for pattern in first if pattern.startswith("!")):
            return False
        return any(_matches(pattern, path) for pattern in first if not pattern.startswith("!"))

    def shows_page(self, request: Request) -> bool:
        """There is no such file, and a browser that goes there is shown the page for that, not asked of the Worker."""
        is_navigation = request.headers.get("sec-fetch-mode") == "navigate"
        return is_navigation and self._rules.prefers_pages and self._rules.not_found != "none"

    async def _answer_missing(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(None, 405, headers={"allow": "GET, HEAD"})
        path, _ = _path_of(request)
        page = await asyncio.to_thread(self._look_for_page, path)
        if page is None:
            return Response(None, 404)
        return await self._answer_file(request, page, 404 if self._rules.not_found == "404-page" else 200)

    async def _answer_file(self, request: Request, file: Path, status: int) -> Response:
        data, etag = await asyncio.to_thread(self._read, file)
        headers = {"etag": etag, "cache-control": "public, max-age=0, must-revalidate"}
        if status == 200 and _is_known(request.headers.get("if-none-match"), etag):
            return Response(None, 304, headers=headers)
        headers["content-type"] = _type_of(file)
        if request.method == "HEAD":
            return Response(None, status, headers={**headers, "content-length": str(len(data))})
        return Response(data, status, headers=headers)

    # on the disk

    def _look(self, path: str) -> _Hit | None:
        html = self._rules.html
        exact = None if path.endswith("/") else self._file(path)
        if html == "none" or (exact is not None and not path.endswith(".html")):
            return None if exact is None else _Hit(exact)
        page = self._page_of(path)
        if page is None:
            return None
        home = _home_of(page, html)
        file = self._file(page)
        return _Hit(file) if home == path or self._page_of(home) != page or self._is_file(home) else _Hit(None, home)

    def _page_of(self, path: str) -> str | None:
        """Which page of HTML it speaks of, by whatever address."""
        if path.endswith(".html") and self._is_file(path):
            return path
        is_folder = path.endswith(("/", "/index", "/index.html"))
        stem = re.sub(r"(/index)?(\.html)?$", "", path) if not path.endswith("/") else path[:-1]
        ways = (f"{stem}/index.html", f"{stem}.html")
        return next((way for way in (ways if is_folder else ways[::-1]) if self._is_file(way)), None)

    def _look_for_page(self, path: str) -> Path | None:
        if self._rules.not_found == "single-page-application":
            return self._file("/index.html")
        if self._rules.not_found == "404-page":
            path = path[:PATH_CHARS_MAX]
            while path:
                path = path.rpartition("/")[0]
                if (page := self._file(f"{path}/404.html")) is not None:
                    return page
        return None

    def _is_file(self, path: str) -> bool:
        return self._file(path) is not None

    def _file(self, path: str) -> Path | None:
        """The file of that path, if it is one that is served."""
        if len(path) > PATH_CHARS_MAX:
            return None
        parts = path.split("/")[1:]
        for part in parts:
            if not part or "\0" in part or "\\" in part or (part.startswith(".") and part != ".well-known"):
                return None
        if not parts or parts[0] in _NOT_SERVED or self._is_ignored(parts):
            return None
        try:
            file = self._rules.folder.joinpath(*parts)
            if not file.is_file():
                return None
            file = file.resolve()
            return file if file.is_relative_to(self._rules.folder) else None
        except (OSError, ValueError, RuntimeError):
            return None  # too long a name, or a circle of links

    def _is_ignored(self, parts: list[str]) -> bool:
        whole = "/".join(parts)
        return any(
            fnmatch.fnmatchcase(whole, pattern) or any(fnmatch.fnmatchcase(part, pattern) for part in parts)
            for pattern in self._rules.ignored
        )

    def _read(self, file: Path) -> tuple[bytes, str]:
        stat = file.stat()
        if stat.st_size > FILE_BYTES_MAX:
            raise JsException(f"{file.name} has {stat.st_size} bytes; a static asset may have {FILE_BYTES_MAX}")
        data = file.read_bytes()
        known = self._etags.get(file)
        if known is None or known[:2] != (stat.st_mtime_ns, stat.st_size):
            if len(self._etags) >= _ETAGS_MAX:
                self._etags.clear()
            digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
            known = self._etags[file] = (stat.st_mtime_ns, stat.st_size, f'"{digest}"')
        return data, known[2]


def _path_of(request: Request) -> tuple[str, str]:
    """Path, decoded, and query with its question mark."""
    parts = urlsplit(request.url)
    path = unquote_to_bytes(parts.path or "/").decode(errors="replace")
    return path, f"?{parts.query}" if parts.query else ""


def _home_of(page: str, html: str) -> str:
    """The one address of a page."""
    if page.endswith("/index.html"):
        folder = page.removesuffix("/index.html")
        return (folder or "/") if html == "drop-trailing-slash" else f"{folder}/"
    return page.removesuffix(".html") + ("/" if html == "force-trailing-slash" else "")


def _type_of(file: Path) -> str:
    kind = _TYPES.get(file.suffix.lower()) or _KNOWN.guess_type(file.name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") or kind in _TEXT else kind


def _is_known(given: str | None, etag: str) -> bool:
    if given is None:
        return False
    return any(one.strip().removeprefix("W/") in (etag, "*") for one in given.split(","))


def _matches(pattern: str, path: str) -> bool:
    """`*` stands for anything; looked for part by part, so that no pattern takes long."""
    first, *rest = pattern.split("*")
    if not rest:
        return path == pattern
    if not path.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        at = path.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(path) - at >= len(rest[-1]) and path.endswith(rest[-1])


def read_rules(path: Path, options: Mapping[str, Any], compatibility_date: str, flags: tuple[str, ...]) -> AssetRules:
    """What the wrangler file says of assets, checked."""
    folder = (path.parent / str(options.get("directory", ""))).resolve()
    if not options.get("directory") or not folder.is_dir():
        raise _bad(path, f"assets.directory is {options.get('directory')!r}, which is no folder")
    html = options.get("html_handling", _HTML[0])
    not_found = options.get("not_found_handling", _NOT_FOUND[0])
    for name, value, known in (("html_handling", html, _HTML), ("not_found_handling", not_found, _NOT_FOUND)):
        if value not in known:
            raise _bad(path, f"assets.{name} is one of {', '.join(known)}, not {value!r}")
    first = options.get("run_worker_first", False)
    if isinstance(first, list) and all(isinstance(one, str) and one.lstrip("!").startswith("/") for one in first):
        first = tuple(first)
    elif not isinstance(first, bool):
        raise _bad(path, f"assets.run_worker_first is true, false or a list of paths with /, not {first!r}")
    prefers = "assets_navigation_prefers_asset_serving" in flags or (
        compatibility_date >= "2025-04-01" and "assets_navigation_has_no_effect" not in flags
    )
    return AssetRules(folder, html, not_found, first, prefers, _read_ignored(path, folder))


def _read_ignored(path: Path, folder: Path) -> tuple[str, ...]:
    file = folder / ".assetsignore"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if any(line.startswith("!") for line in patterns):
        raise _bad(path, f"{file}: exceptions (!) are not here; list what is not to be served")
    return tuple(line.strip("/") for line in patterns)


def _bad(path: Path, what: str) -> BadOption:
    return BadOption(f"{path}: {what}", code="workers.binding")
