// The Shop of bench/sql.py for the real workerd: POST …/more inserts one row, …/many a thousand in one event, which
// says how long they took.
import { DurableObject } from "cloudflare:workers";

const INSERT = "INSERT INTO items (name, qty) VALUES (?, ?)";

export class Shop extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, name TEXT UNIQUE, qty INTEGER)");
    this.number = ctx.storage.sql.exec("SELECT count(*) AS n FROM items").one().n;
  }

  async fetch(request) {
    const count = request.url.endsWith("/many") ? 1000 : 1;
    for (let n = 0; n < count; n++) {
      this.number += 1;
      this.ctx.storage.sql.exec(INSERT, `${(this.number * 7919) % 100003} another ${this.number}`, this.number);
    }
    return Response.json({ count });
  }
}

export default {
  async fetch(request, env) {
    return env.SHOP.get(env.SHOP.idFromName("a")).fetch(request);
  },
};
