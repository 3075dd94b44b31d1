// Drive a server through a client of Node.js, and print what each call gave, one JSON value a line:
//   node drive.js ioredis|redis PORT
// Calls are the same for every server, so that two outputs can be compared. Nothing here knows which server it is.
"use strict";

const [library, port] = [process.argv[2], Number(process.argv[3])];

function tell(name, value) {
  console.log(JSON.stringify([name, value === undefined ? null : value]));
}

async function attempt(name, work) {
  try {
    tell(name, await work());
  } catch (error) {
    tell(name, { error: String(error.message) });
  }
}

async function withIoredis() {
  const Redis = require("ioredis");
  const client = new Redis({ port, connectionName: "driver", db: 3 });
  const waiting = client.duplicate();
  await client.flushall();
  await attempt("ping", () => client.ping());
  for (let number = 1; number <= 4; number++) {
    await attempt("xadd", () => client.xadd("s", `${number}-1`, "n", number, "text", "ü\r\n"));
  }
  await attempt("xadd again", () => client.xadd("s", "1-1", "n", 1));
  await attempt("xlen", () => client.xlen("s"));
  await attempt("xrange", () => client.xrange("s", "-", "+", "COUNT", 2));
  await attempt("xrevrange", () => client.xrevrange("s", "+", "-"));
  await attempt("xread", () => client.xread("COUNT", 2, "STREAMS", "s", "1-1"));
  await attempt("xgroup", () => client.xgroup("CREATE", "s", "g", 0));
  await attempt("xgroup again", () => client.xgroup("CREATE", "s", "g", 0));
  await attempt("xreadgroup", () => client.xreadgroup("GROUP", "g", "c", "COUNT", 3, "STREAMS", "s", ">"));
  await attempt("xpending", () => client.xpending("s", "g"));
  await attempt("xack", () => client.xack("s", "g", "1-1", "2-1"));
  await attempt("xclaim", () => client.xclaim("s", "g", "d", 0, "3-1"));
  await attempt("xautoclaim", () => client.xautoclaim("s", "g", "e", 0, "0-0"));
  await attempt("xinfo", () => client.xinfo("GROUPS", "s"));
  await attempt("pipeline", () => {
    const pipeline = client.pipeline();
    for (let number = 0; number < 500; number++) pipeline.xadd("p", `${number + 1}-0`, "f", "v".repeat(number % 7));
    return pipeline.xlen("p").exec();
  });
  await attempt("multi", () => client.multi().xadd("s", "9-1", "f", "v").xlen("s").exec());
  await attempt("buffers", () => client.xrangeBuffer("s", "9-1", "9-1").then((found) => found.length));
  const reply = waiting.xread("BLOCK", 20000, "STREAMS", "b", "$");
  while (!/blocked_clients:1/.test(await client.info("clients"))) await new Promise(setImmediate);
  await client.xadd("b", "1-1", "f", "woken");
  await attempt("woken", () => reply);
  const subscriber = client.duplicate();
  const message = new Promise((resolve) => subscriber.on("message", (channel, text) => resolve([channel, text])));
  await attempt("subscribe", () => subscriber.subscribe("news"));
  await attempt("publish", () => client.publish("news", "hello"));
  await attempt("message", () => message);
  await attempt("no such command", () => client.call("NONSENSE", "a"));
  const monitor = await client.monitor();
  const line = new Promise((resolve) => monitor.on("monitor", (time, words, source, db) => resolve([words, db])));
  await client.get("watched");
  await attempt("monitor", () => line);
  for (const one of [monitor, subscriber, waiting, client]) one.disconnect();
}

async function withRedis() {
  const { createClient, commandOptions } = require("redis");
  const client = createClient({ socket: { port, host: "127.0.0.1" }, name: "driver", database: 3 });
  await client.connect();
  await client.flushAll();
  await attempt("ping", () => client.ping());
  for (let number = 1; number <= 4; number++) {
    await attempt("xAdd", () => client.xAdd("s", `${number}-1`, { n: String(number), text: "ü\r\n" }));
  }
  await attempt("xAdd trimmed", () =>
    client.xAdd("s", "5-1", { n: "5" }, { TRIM: { strategy: "MAXLEN", strategyModifier: "=", threshold: 4 } }),
  );
  await attempt("xLen", () => client.xLen("s"));
  await attempt("xRange", () => client.xRange("s", "-", "+", { COUNT: 2 }));
  await attempt("xRevRange", () => client.xRevRange("s", "+", "-"));
  await attempt("xRead", () => client.xRead([{ key: "s", id: "2-1" }], { COUNT: 2 }));
  await attempt("xGroupCreate", () => client.xGroupCreate("s", "g", "0"));
  await attempt("xGroupCreate again", () => client.xGroupCreate("s", "g", "0"));
  await attempt("xReadGroup", () => client.xReadGroup("g", "c", [{ key: "s", id: ">" }], { COUNT: 3 }));
  await attempt("xPending", () => client.xPending("s", "g"));
  await attempt("xAck", () => client.xAck("s", "g", ["2-1"]));
  await attempt("xClaim", () => client.xClaim("s", "g", "d", 0, "3-1"));
  await attempt("xAutoClaim", () => client.xAutoClaim("s", "g", "e", 0, "0-0"));
  await attempt("xInfoGroups", () => client.xInfoGroups("s"));
  await attempt("xInfoStream", () => client.xInfoStream("s").then((found) => [found.length, found.lastEntry]));
  await attempt("xTrim", () => client.xTrim("s", "MAXLEN", 1));
  await attempt("xDel", () => client.xDel("s", "5-1"));
  await attempt("pipeline", () =>
    Promise.all(Array.from({ length: 500 }, (_, at) => client.xAdd("p", `${at + 1}-0`, { f: "v".repeat(at % 7) }))),
  );
  await attempt("multi", () => client.multi().xAdd("s", "9-1", { f: "v" }).xLen("s").exec());
  const reply = client.xRead(commandOptions({ isolated: true }), [{ key: "b", id: "$" }], { BLOCK: 20000 });
  while (!/blocked_clients:1/.test(await client.info("clients"))) await new Promise(setImmediate);
  await client.xAdd("b", "1-1", { f: "woken" });
  await attempt("woken", () => reply);
  await client.quit();
}

(library === "ioredis" ? withIoredis() : withRedis()).catch((error) => {
  console.error(error);
  process.exit(1);
});
