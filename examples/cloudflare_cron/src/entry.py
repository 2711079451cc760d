"""Cron triggers: every quarter of an hour a reading, every morning of a weekday a report of what was read."""

from js import Date
from workers import DurableObject, Response, WorkerEntrypoint

MORNING = "0 6 * * 2-6"


class Report(DurableObject):
    async def read(self, at):
        await self.ctx.storage.put(f"reading:{at:015}", at // 60_000 % 7)

    async def write(self, at):
        """Sum up what was read since the last one; running it again changes nothing."""

        async def sum_up(txn):
            if await txn.get(f"report:{at:015}") is None:
                readings = await txn.list(prefix="reading:")
                await txn.put(f"report:{at:015}", {"readings": len(readings), "sum": sum(readings.values())})
                await txn.delete(list(readings))

        await self.ctx.storage.transaction(sum_up)

    async def reports(self):
        found = await self.ctx.storage.list(prefix="report:")
        return {Date.new(int(key.partition(":")[2])).toISOString(): report for key, report in found.items()}


class Default(WorkerEntrypoint):
    async def scheduled(self, controller):
        report = self.env.REPORTS.getByName("all")
        act = report.write if controller.cron == MORNING else report.read
        await act(controller.scheduledTime)

    async def fetch(self, request):
        return Response.json(await self.env.REPORTS.getByName("all").reports())
