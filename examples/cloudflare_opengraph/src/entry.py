"""Pages of another server, with tags for link previews in their heads and without those that were there."""

from html import escape
from urllib.parse import urlsplit

from js import HTMLRewriter
from pyodide.ffi import create_proxy
from workers import WorkerEntrypoint, fetch


class Preview:
    """Writes what a preview shows."""

    def __init__(self, url):
        self.url = url

    def element(self, head):
        name = urlsplit(self.url).path.strip("/").replace("-", " ").capitalize() or "Home"
        for key, value in {"og:title": name, "og:type": "article", "og:url": self.url}.items():
            head.append(f'<meta property="{key}" content="{escape(value)}">', html=True)


class Gone:
    """What was said before."""

    def element(self, element):
        element.remove()


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        page = await fetch(self.env.ORIGIN + urlsplit(request.url).path)
        if "text/html" not in (page.headers.get("content-type") or ""):
            return page
        rewriter = HTMLRewriter.new()
        rewriter.on('meta[property^="og:"], meta[name^="twitter:"]', create_proxy(Gone()))
        rewriter.on("head", create_proxy(Preview(request.url)))
        return rewriter.transform(page.js_object)
