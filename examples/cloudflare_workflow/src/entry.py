"""An expense is looked at, allowed by a person if it is large, and paid: a workflow that may take a week.

POST /?id=lunch with {"amount": 12, "currency": "EUR"}; POST /allow?id=lunch with {"by": "eve"}; GET /?id=lunch.
"""

import asyncio
from urllib.parse import parse_qs, urlparse

from workers import Response, WorkerEntrypoint, WorkflowEntrypoint
from workers.workflows import NonRetryableError

RATES = {"EUR": 1.0, "CHF": 1.1}
SMALL = 100  # euros, which nobody has to allow
PAY = {"retries": {"limit": 3, "delay": "10 seconds", "backoff": "exponential"}, "timeout": "1 minute"}


class Expense(WorkflowEntrypoint):
    async def run(self, event, step):
        asked = event["payload"]

        @step.do()
        async def rate():
            await asyncio.sleep(0)  # a call of a service that knows
            if asked["currency"] not in RATES:
                raise NonRetryableError(f"nobody knows what a {asked['currency']} is worth")
            return RATES[asked["currency"]]

        @step.do()
        async def limit():
            return SMALL

        @step.do("judge", concurrent=True)  # rate and limit are asked for at once
        async def judge(rate, limit):
            return {"euros": round(asked["amount"] * rate, 2), "small": asked["amount"] * rate <= limit}

        judged = await judge()
        by = None
        if not judged["small"]:
            try:
                answer = await step.wait_for_event("a person allows it", "allow", timeout="7 days")
            except Exception:  # WorkflowTimeoutError, whatever that is called where this runs
                return {"paid": None, "why": "nobody allowed it"}
            by = answer["payload"]["by"]

        @step.do("pay", config=PAY)
        async def pay(ctx):
            return f"receipt {event['instanceId']}, attempt {ctx['attempt']}"

        receipt = await pay()
        await step.sleep("until the books are closed", "1 day")
        return {"paid": judged["euros"], "by": by, "receipt": receipt}


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        url = urlparse(request.url)
        id = parse_qs(url.query).get("id", [None])[0]
        if request.method == "POST" and url.path == "/":
            made = await self.env.EXPENSES.create(id=id, params=await request.json())
            return Response.json({"id": made.id}, status=201)
        if id is None:
            return Response("which one? ?id=…\n", status=400)
        expense = await self.env.EXPENSES.get(id)
        if url.path == "/allow":
            await expense.send_event({"type": "allow", "payload": await request.json()})
        return Response.json(await expense.status())
