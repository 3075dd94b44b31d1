// Libraries of Node.js that keep queues, limits, sessions and locks on a server; the program uses a little of each.
// Run as `node libraries.js URL`, it prints the results of all libraries as one line of JSON.
const Bull = require('bull');
const BeeQueue = require('bee-queue');
const Redis = require('ioredis');
const { RedisStore } = require('connect-redis');
const { RateLimiterRedis } = require('rate-limiter-flexible');
const { createClient } = require('redis');
const Redlock = require('redlock').default;

const url = process.argv[2];
const { hostname: host, port } = new URL(url);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function bull() {
  const queue = new Bull('bull', url);
  queue.process(2, async ({ data, attemptsMade }) => {
    if (data.fails && attemptsMade < 1) throw new Error('the first time');
    return data.number * 2;
  });
  const result = async (data, options) => (await queue.add(data, options)).finished();
  const done = await Promise.all([1, 2, 3].map((number) => result({ number })));
  done.push(await result({ number: 5 }, { delay: 300 }));
  done.push(await result({ number: 6, fails: true }, { attempts: 3, backoff: 50 }));
  done.push(await result({ number: 7 }, { priority: 3 }));
  await queue.add({ number: 8 }, { repeat: { every: 100000 } });
  const repeated = await queue.getRepeatableJobs();
  await queue.removeRepeatableByKey(repeated[0].key);
  await queue.pause();
  const waiting = await queue.add({ number: 9 });
  await queue.resume();
  done.push(await waiting.finished());
  const { completed, failed } = await queue.getJobCounts();
  await queue.clean(0, 'completed');
  await queue.obliterate({ force: true });
  await queue.close();
  return { done, repeated: repeated.length, completed, failed };
}

async function beeQueue() {
  const queue = new BeeQueue('bee', { redis: { host, port: Number(port) }, activateDelayedJobs: true });
  queue.process(async (job) => job.data.number * 2);
  const result = (job) => new Promise((resolve, reject) => job.on('succeeded', resolve).on('failed', reject).save());
  const now = await result(queue.createJob({ number: 2 }));
  const later = await result(queue.createJob({ number: 4 }).delayUntil(Date.now() + 300));
  const { succeeded } = await queue.checkHealth();
  await queue.close();
  return { now, later, succeeded };
}

async function rateLimiter() {
  const storeClient = new Redis(url);
  const limiter = new RateLimiterRedis({ storeClient, points: 2, duration: 100, blockDuration: 100 });
  const left = [];
  for (let turn = 0; turn < 4; turn += 1) {
    left.push(await limiter.consume('user').then((one) => one.remainingPoints, () => 'refused'));
  }
  await limiter.penalty('other', 3);
  await limiter.reward('other', 1);
  const { consumedPoints } = await limiter.get('other');
  await limiter.delete('user');
  storeClient.disconnect();
  return { left, consumedPoints };
}

async function connectRedis() {
  const client = await createClient({ url }).connect();
  const store = new RedisStore({ client, prefix: 'session:' });
  await store.set('a', { cookie: {}, name: 'x' });
  await store.touch('a', { cookie: {}, name: 'x' });
  const { name } = await store.get('a');
  const found = { name, length: await store.length(), ids: await store.ids() };
  await store.clear();
  await client.quit();
  return found;
}

async function redlock() {
  const client = new Redis(url);
  const locks = new Redlock([client], { retryCount: 0 });
  const lock = await locks.acquire(['x', 'y'], 20000);
  const second = await locks.acquire(['x'], 1000).then(() => 'locked', () => 'refused');
  await (await lock.extend(30000)).release();
  const used = await locks.using(['x'], 20000, async () => 7);
  client.disconnect();
  return { second, used };
}

async function nodeRedis() {
  const client = await createClient({ url, RESP: 3 }).connect();
  const listener = await client.duplicate().connect();
  await client.hSet('h', { a: '1', b: '2' });
  await client.zAdd('z', [{ score: 1, value: 'a' }, { score: 2.5, value: 'b' }]);
  await client.sAdd('s', ['a']);
  const heard = new Promise((resolve) => { listener.subscribe('channel', resolve).then(() => client.publish('channel', 'm')); });
  const keys = [];
  for await (const some of client.scanIterator({ MATCH: '[hzs]' })) keys.push(...[some].flat());
  const found = {
    heard: await heard,
    keys: keys.sort(),
    hash: await client.hGetAll('h'),
    scores: await client.zRangeWithScores('z', 0, -1),
    members: [...await client.sMembers('s')],
    transaction: await client.multi().incr('n').get('n').exec(),
    first: await client.zPopMin('z'),
    none: await client.blPop('none', 0.05),
    script: await client.eval('return {KEYS[1], 1}', { keys: ['k'], arguments: [] }),
  };
  await listener.quit();
  await client.quit();
  return found;
}

async function main() {
  const libraries = { bull, beeQueue, rateLimiter, connectRedis, redlock, nodeRedis };
  const found = {};
  for (const [name, run] of Object.entries(libraries)) {
    const tooLate = sleep(30000).then(() => { throw new Error(`${name} takes too long`); });
    tooLate.catch(() => {});
    found[name] = await Promise.race([run(), tooLate]);
  }
  console.log(JSON.stringify(found));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
