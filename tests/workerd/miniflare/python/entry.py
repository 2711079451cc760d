"""Plays the steps of a scenario of binding_scenarios.py on Wakeful's bindings; worker.js is its twin."""

import asyncio
import json
from datetime import timedelta

from workers import Response, WorkerEntrypoint, WorkflowEntrypoint
from workers.workflows import NonRetryableError

LOG = []


def told(value):
    if isinstance(value, bytes):
        return {"bytes": list(value)}
    if type(value).__name__ == "Map":
        return {"map": [[key, told(one)] for key, one in value.items()]}
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items()}
    return [told(one) for one in value] if isinstance(value, list) else value


async def kv(ns, step, memory):
    method, *args = step
    if method == "list" and args and args[0].get("cursor") == "$":
        args[0]["cursor"] = memory["cursor"]
    found = await getattr(ns, method)(*args)
    if method != "list":
        return told(found)
    memory["cursor"] = found.get("cursor")
    return {"names": told(found["keys"]), "complete": found.list_complete, "more": "cursor" in found}


def result(found):
    meta = found.meta
    told_of = {"changes": meta.changes, "last": meta.last_row_id, "changed": meta.changed_db}
    return {"success": found.success, "results": told(found.results), **told_of}


async def d1(db, step, memory):
    method, sql, params, more = [*step, None, None][:4]
    if method == "exec":
        return {"count": (await db.exec(sql)).count}
    if method == "batch":
        return [result(one) for one in await db.batch([db.prepare(text).bind(*values) for text, values in sql])]
    made = db.prepare(sql).bind(*(params or ()))
    if method == "first":
        return told(await made.first(more))
    if method == "raw":
        return told(await made.raw(more))
    return result(await getattr(made, method)())


def known(one):
    return {
        "key": one.key,
        "size": one.size,
        "etag": one.etag,
        "http": told(one.httpMetadata),
        "custom": told(one.customMetadata),
    }


async def r2(bucket, step, memory):
    method, *args = step
    if method == "list":
        if args and args[0].get("cursor") == "$":
            args[0]["cursor"] = memory["cursor"]
        found = await bucket.list(*args)
        memory["cursor"] = found.get("cursor")
        return {
            "keys": [one.key for one in found.objects],
            "groups": list(found.delimitedPrefixes),
            "more": found.truncated,
        }
    found = await getattr(bucket, method)(*args)
    if found is None:
        return None
    return {**known(found), "text": await found.text()} if hasattr(found, "text") else known(found)


async def queue(q, step, memory):
    method, *args = step
    if method == "log":
        return [list(one) for one in LOG]
    await getattr(q, method)(*args)
    return None


ERRORS = {"TypeError": TypeError, "Error": RuntimeError, "NonRetryableError": NonRetryableError}


class Plan(WorkflowEntrypoint):
    """What its params say, line by line."""

    async def run(self, event, step):
        found = []
        for act, *args in event["payload"].get("plan") or []:
            if act != "try":
                found.append(told(await self.act(event, step, act, *args)))
                continue
            try:
                found.append(told(await self.act(event, step, *args)))
            except Exception as error:
                found.append(f"caught {getattr(error, 'name', type(error).__name__)}")
        return found

    async def act(self, event, step, act, name=None, *args):
        value, config = [*args, None, None][:2]
        if act == "do":
            return await step.do(name, config, lambda: value)
        if act == "attempts":
            return await step.do(
                name, config, lambda ctx: self.fail("Error", "again", ctx.attempt < value) or ctx.attempt
            )
        if act == "context":
            return await step.do(name, lambda ctx: [ctx["step"]["name"], ctx["step"]["count"], ctx["attempt"]])
        if act == "fail":
            usual = {"retries": {"limit": 0, "delay": 0}}
            return await step.do(name, args[2] if len(args) > 2 else usual, lambda: self.fail(value, config))
        if act == "slow":
            return await step.do(name, config, lambda: asyncio.sleep(value / 1000))
        if act == "sleep":
            return await step.sleep(name, value)
        if act == "until":
            return await step.sleep_until(name, event["timestamp"] + timedelta(milliseconds=value))
        if act == "wait":
            came = await step.wait_for_event(name, value, *args[1:])
            return [came["type"], came["payload"]]
        if act == "event":
            return [*sorted(event)[:3], event["payload"].get("note")]
        return self.fail(name, value)

    def fail(self, kind, message, does=True):
        if does:
            raise ERRORS[kind](message)


async def workflow(flow, step, memory):
    method, id, *args = step
    if method == "create":
        return (await flow.create(id=id, **(args[0] if args else {}))).id
    if method == "createBatch":
        return [one.id for one in await flow.create_batch(id)]
    instance = await flow.get(id)
    if method == "get":
        return instance.id
    if method != "status":
        return told(await getattr(instance, method)(*args))
    found = await instance.status()
    return {
        "status": found.status,
        "output": told(found.output),
        "failed": found.error and found.error.name.removeprefix("Runtime"),
    }


KINDS = {"kv": kv, "d1": d1, "r2": r2, "queue": queue, "workflow": workflow}


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        asked = await request.json()
        play, binding, memory, answers = KINDS[asked["kind"]], getattr(self.env, asked["kind"].upper()), {}, []
        for step in asked["steps"]:
            if step[0] == "wait":
                await asyncio.sleep(step[1] / 1000)
                continue
            try:
                answers.append(await play(binding, step, memory))
            except Exception as error:
                name = getattr(error, "name", type(error).__name__)
                answers.append({"error": name, "message": getattr(error, "message", str(error))})
        return Response(json.dumps(answers))

    async def queue(self, batch):
        bodies = [told(one.body) for one in batch.messages]
        LOG.append([bodies, [one.attempts for one in batch.messages]])
        first = batch.messages[0].attempts == 1
        does = [one.get("do") if isinstance(one, dict) else None for one in bodies]
        for one, do in zip(batch.messages, does, strict=True):
            for word in do.split(", ") if do in ("ack", "retry", "ack, retry", "retry, ack") else ():
                one.ack() if word == "ack" else one.retry(one.body.get("options"))
            if do == "retry once" and one.attempts == 1:
                one.retry(one.body.get("options"))
        if "all again" in does and first:
            batch.retryAll()
        if "all done" in does:
            batch.ackAll()
            batch.retryAll()
        if "raise" in does or ("raise once" in does and first):
            raise ValueError("no")
