"""A program in which everything is called as long as it may be, and fails with as many words."""

import asyncio

from wakeful import AlarmInfo, App, DurableObject, Machine, Queue, RetryPolicy

app = App()
KEY = "k" * 512
NAME = ("send-the-monthly-invoice-reminder-to-all-who-have-not-paid-" * 4)[:200]
ONE = "n" * 200
WORDS = "Words" * 400
ONCE = RetryPolicy(max_attempts=1)


@app.object
class ReminderOfEverythingThatSomebodyOwesToAnybodyForOneReasonOrOther(DurableObject):
    history = "1d"

    async def begin(self) -> None:
        await self.storage.put_many({KEY: WORDS, "short": 1, "last_invoice_sent_at": "2026-11-01T09:00:00+01:00"})
        for name in (NAME, ONE, "a", "send-monthly-invoice-reminder"):
            await self.schedules.add("0 9 1 * *", self.remind_by_a_method_with_a_name_of_some_length, name=name)
        await self.schedules.add("every 1s", self.fail, WORDS, name=ONE[1:], tags=(ONE, NAME), retry=ONCE)
        self.sql(f'CREATE TABLE IF NOT EXISTS "{ONE}" ("{ONE}" TEXT, "{NAME}" TEXT, short INTEGER)')
        self.sql(f'INSERT INTO "{ONE}" VALUES (?, ?, 1)', WORDS, KEY)
        await self.storage.set_alarm(1_000)

    async def alarm(self, info: AlarmInfo) -> None: ...

    async def remind_by_a_method_with_a_name_of_some_length(self) -> str:
        return WORDS

    async def fail(self, *words: str, **named: str) -> None:
        raise ConnectionError(WORDS)

    async def hang(self) -> None:
        await asyncio.sleep(100_000)


@app.object
class Chart(Machine):
    chart = {
        "initial": ONE,
        "context": {ONE: WORDS},
        "states": {ONE: {"on": {NAME: NAME}, "after": {"24h": NAME}}, NAME: {}},
    }


Reminder = ReminderOfEverythingThatSomebodyOwesToAnybodyForOneReasonOrOther


async def on_start(app: App) -> None:
    for key in (KEY, "reminder of all that is owed " * 15):
        one = app.get(Reminder, key)
        await one.begin()
        await app.jobs.schedule(
            one.fail, WORDS, **{ONE: WORDS}, key=ONE, retry=ONCE, tags=(ONE, NAME), metadata={ONE: WORDS}
        )
        done = await app.jobs.schedule(one.remind_by_a_method_with_a_name_of_some_length, key=NAME, after="1h")
        await app.jobs.schedule(one.fail, key="after", depends_on=(done.id,))
        await app.schedules(Reminder, key).pause(NAME, note=WORDS[:500])
        await app.get(Chart, key).start()
    hanging = app.get(Reminder, "h" * 512)
    limits = {"rate": "999999/31d", "key_rate": "1/31d", "key_concurrency": 1_000, "throttle": "1000000/h"}
    for _ in range(2):
        queue = Queue("q" * 200, concurrency=1_000, key="k" * 200, **limits)
        await app.jobs.schedule(one.remind_by_a_method_with_a_name_of_some_length, queue=queue)
    for name in (NAME, ONE):  # one runs, and the other waits behind it
        await app.jobs.schedule(hanging.hang, key=name)
