"""Layer 5. What a workflow publishes, as server-sent events: each once, and after a broken connection from there on."""

import re
from functools import partial

from wakeful.http.asks import LIGHT, Ask, in_thread
from wakeful.http.looks import connection_of
from wakeful.http.news import frame, tell_news
from wakeful.http.problems import Problem
from wakeful.http.stream import RETRY_MS, Ends, only_head, run_stream
from wakeful.operations.arguments import weighs_more
from wakeful.values.ids import ObjectId
from wakeful.views.plain import plain
from wakeful.workflows.watch import Published, WorkflowWatch

PLACE = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})")  # the run, and the number there: the id of an event


async def watch_workflow(ask: Ask, id: ObjectId) -> None:
    """`published` for each value, from the first on or after `Last-Event-ID`; then `over`, with how it ended."""
    await ask.gate.check_exposed(connection_of(ask), ask.who, id.cls, id.key, "published")
    if ask.query["patches"]:
        raise Problem(400, "query.value", "patches is for machines; what a workflow publishes comes whole")
    if ask.scope["method"] == "HEAD":
        await only_head(ask)
        return
    watching = WorkflowWatch(ask.deployment, id, _place_of(ask))
    first_news = await watching.look()

    async def frames(news: list[Published]) -> bytes:
        found = [await _frame_of(ask, one) for one in news]
        return b"".join([*found, frame("over", {"state": watching.state})] if watching.state else found)

    async def tell(ends: Ends) -> None:
        await tell_news(ask, ends, watching.wait, frames, lambda: watching.state is not None)

    first = f"retry: {RETRY_MS}\n: what {id.cls} publishes\n\n".encode()
    await run_stream(ask, first + await frames(first_news), tell)


def _place_of(ask: Ask) -> tuple[int, int] | None:
    text = ask.header(b"last-event-id")
    if not text:
        return None
    found = PLACE.fullmatch(text)
    if found is None:
        raise Problem(400, "events.id", "Last-Event-ID is not the id of an event of this stream")
    return int(found[1]), int(found[2])


async def _frame_of(ask: Ask, news: Published) -> bytes:
    """One value, of much in a thread."""
    if weighs_more(news.value, LIGHT):
        return await in_thread(partial(_spell, news), ask.asker)
    return _spell(news)


def _spell(news: Published) -> bytes:
    return b"id: %d.%d\n" % (news.run, news.number) + frame("published", {"value": plain(news.value)})
