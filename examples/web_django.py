"""An order with a statechart, in a Django project. Run it: cd examples && uvicorn web_django:web"""

from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from starlette.applications import Starlette
from starlette.routing import Mount

from wakeful import App, Machine, assign, errors, guard

# A real project has these in settings.py and urls.py.
if not settings.configured:
    settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="of an example", MIDDLEWARE=[])
app = App()


@app.object
class Order(Machine):
    chart = {
        "initial": "placed",
        "context": {"total": 40, "reminded": 0},
        "states": {
            "placed": {
                "on": {"PAY": {"target": "paid", "guard": "enough"}, "CANCEL": "cancelled"},
                "after": {"12h": {"actions": "remind"}, "24h": "expired"},
            },
            "paid": {"on": {"SHIP": "shipped"}},
            "shipped": {"type": "final"},
            "expired": {"type": "final"},
            "cancelled": {"type": "final"},
        },
    }

    @guard
    def enough(self, context: Any, event: Any) -> bool:
        return bool(event["amount"] >= context["total"])

    @assign
    def remind(self, context: Any, event: Any) -> dict[str, Any]:
        return {"reminded": context["reminded"] + 1}


async def place(request: HttpRequest, order: str) -> JsonResponse:
    try:
        await app.get(Order, order).start()
    except errors.Conflict as error:
        return JsonResponse({"error": str(error)}, status=409)
    return await show(request, order)


async def send(request: HttpRequest, order: str, event: str) -> JsonResponse:
    """POST /orders/o-1/PAY?amount=40"""
    machine, given = app.get(Order, order), {"amount": int(request.GET.get("amount", 0))}
    if not await machine.can(event, **given):
        return JsonResponse(
            {"error": f"{event} is not for an order that is {(await machine.snapshot()).value}"}, status=409
        )
    return _shown(order, await machine.send(event, **given))


async def show(request: HttpRequest, order: str) -> JsonResponse:
    snapshot = await app.get(Order, order).snapshot()
    if snapshot.status == "new":
        return JsonResponse({"error": f"{order} has not been placed"}, status=404)
    return _shown(order, snapshot)


def _shown(order: str, snapshot: Any) -> JsonResponse:
    return JsonResponse({"order": order, "state": snapshot.value, "reminded": snapshot.context["reminded"]})


urlpatterns = [path("orders/<order>/place", place), path("orders/<order>/<event>", send), path("orders/<order>", show)]
# Django's own application knows no lifespan; the one around it has it, and the dashboard. In asgi.py of a real project.
routes = [Mount("/durable", app.asgi()), Mount("/", get_asgi_application())]
web = Starlette(lifespan=app.lifespan, routes=routes)
