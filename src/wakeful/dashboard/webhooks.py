"""Layer 5. The page Webhooks: who is told of what happens, does it arrive, and a test?"""

from typing import TYPE_CHECKING, Any

from wakeful.dashboard.visits import Visit
from wakeful.views import webhooks

if TYPE_CHECKING:
    from starlette.responses import Response


async def page(visit: Visit, tested: Any = None) -> "Response":
    """Webhooks and handlers, with their latest deliveries."""
    return await visit.render(
        "webhooks.html", "webhooks", lives=False, rows=await webhooks.rows(visit.node.send), tested=tested
    )


async def test(visit: Visit) -> "Response":
    """Send one a test, and say what came back."""
    tested = await visit.acts.test_webhook(visit.field("name"))
    visit.place = ("/webhooks", {})
    return await page(visit, tested)
