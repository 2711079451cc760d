"""A Django application in a Worker: polls, each of which is an object that counts."""

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import Http404, JsonResponse
from django.urls import path
from pyodide.ffi import run_sync
from workers import DurableObject, wsgi

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"], DEBUG=False, ROOT_URLCONF=__name__, SECRET_KEY="of an example", USE_TZ=True, DATABASES={}
    )
    django.setup()


class Poll(DurableObject):
    async def ask(self, question, choices):
        await self.ctx.storage.put({"question": question, "votes": dict.fromkeys(choices, 0)})

    async def vote(self, choice):
        """False for a choice that there is not."""
        votes = await self.ctx.storage.get("votes") or {}
        if choice in votes:
            await self.ctx.storage.put("votes", {**votes, choice: votes[choice] + 1})
        return choice in votes

    async def result(self):
        return await self.ctx.storage.get(["question", "votes"])


def poll(request, name):
    found = request.environ["workers.env"].POLLS.getByName(name)
    if request.method == "PUT":
        run_sync(found.ask(request.GET["question"], request.GET.getlist("choice")))
    elif request.method == "POST" and not run_sync(found.vote(request.GET.get("choice"))):
        raise Http404("no such choice")
    return JsonResponse(run_sync(found.result()))


urlpatterns = [path("polls/<slug:name>", poll)]
Default = wsgi.entrypoint(get_wsgi_application())
