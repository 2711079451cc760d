// The Worker of bench/workers.py for the real workerd; src/entry.py is its twin.
import { DurableObject } from "cloudflare:workers";

let fired = [0, 0];

export class Counter extends DurableObject {
  async fetch(request) {
    const url = new URL(request.url);
    if (url.pathname.endsWith("/socket")) {
      const [client, server] = Object.values(new WebSocketPair());
      this.ctx.acceptWebSocket(server);
      return new Response(null, { status: 101, webSocket: client });
    }
    if (url.pathname.endsWith("/alarm")) {
      await this.ctx.storage.setAlarm(Number(url.search.slice(1)));
      return new Response("set");
    }
    const value = ((await this.ctx.storage.get("value")) ?? 0) + 1;
    await this.ctx.storage.put("value", value);
    return new Response(String(value));
  }

  async webSocketMessage(ws, message) {
    ws.send(message);
  }

  async alarm() {
    await this.ctx.storage.put("fired", 1);
    fired = [fired[0] + 1, Date.now()];
  }
}

export default {
  async fetch(request, env) {
    const name = new URL(request.url).pathname.split("/")[1];
    if (name === "fired") return Response.json(fired);
    return await env.COUNTERS.getByName(name).fetch(request);
  },
};
