"""Plays the steps of a scenario of binding_scenarios.py on Wakeful's bindings; worker.js is its twin."""

import asyncio
import json

from workers import Response, WorkerEntrypoint

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


KINDS = {"kv": kv, "d1": d1, "r2": r2, "queue": queue}


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
