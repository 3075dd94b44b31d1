// socket.io's adapter for streams: a client gets every broadcast, although it moves to another server midway. Its
// session and the packets that it missed come from the server of streams.
//
//     node socketio_job.js work URL NAME | publish URL

const { createServer } = require("http");
const { createAdapter } = require("@socket.io/redis-streams-adapter");
const { Redis } = require("ioredis");
const { Server } = require("socket.io");
const { io: connect } = require("socket.io-client");

const [role, url, name] = process.argv.slice(2);
const jobs = Number(process.env.JOBS);
const redis = new Redis(url);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function serve(http) {
  return new Server(http, {
    adapter: createAdapter(redis, { blockTimeInMs: 100 }),
    connectionStateRecovery: { maxDisconnectionDuration: 60000 },
  });
}

async function work() {
  const http = createServer();
  serve(http);
  http.listen(0, "127.0.0.1", () => redis.xadd("ports", "*", name, http.address().port));
}

async function publish() {
  const ports = {};
  while (Object.keys(ports).length < 2) {
    for (const [, [worker, port]] of await redis.xrange("ports", "-", "+")) ports[worker] = port;
    await pause(20);
  }
  const seen = new Set();
  const client = connect(`http://127.0.0.1:${ports["1"]}`, { reconnectionDelay: 200, transports: ["websocket"] });
  client.on("number", (number) => {
    seen.add(number);
    redis.xadd("out", "*", "result", `square:${number}:${number * number}`);
    if (seen.size === jobs / 2) {
      client.io.uri = `http://127.0.0.1:${ports["2"]}`;
      client.io.engine.close();
    }
  });
  await new Promise((resolve) => client.once("connect", resolve));
  await pause(300); // the servers read the stream from now on
  const server = serve();
  for (let number = 0; number < jobs; number++) {
    server.emit("number", number);
    await pause(20);
  }
  while (seen.size < jobs) await pause(20);
  await redis.set("recovered", String(client.recovered));
  process.exit(0);
}

(role === "work" ? work : publish)();
