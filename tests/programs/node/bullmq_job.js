// BullMQ: jobs with results, a delayed one, one that is tried again, a flow of parent and children, repeated and
// prioritised ones; and a script of ioredis. Run as `node bullmq_job.js worker URL` or `node bullmq_job.js drive URL`, as the programs in ../scripts.
const { Queue, Worker, QueueEvents, FlowProducer } = require('bullmq');
const Redis = require('ioredis');

const [, , role, url] = process.argv;
const JOBS = Number(process.env.JOBS);
const at = new URL(url);
const connection = { host: at.hostname, port: Number(at.port), maxRetriesPerRequest: null };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function handle(job) {
  await sleep(20);
  if (job.name === 'square') return job.data.number * job.data.number;
  if (job.name === 'fails once') {
    if (job.attemptsMade < 1) throw new Error('the first time');
    return 'second';
  }
  const values = Object.values(await job.getChildrenValues());
  return values.reduce((one, two) => one + two, 0);
}

async function work() {
  const worker = new Worker('jobs', handle, { connection, lockDuration: 2000, stalledInterval: 1000, maxStalledCount: 5 });
  worker.on('error', (error) => console.error(error));
}

async function drive() {
  const queue = new Queue('jobs', { connection });
  const events = new QueueEvents('jobs', { connection });
  await events.waitUntilReady();
  const jobs = await queue.addBulk([...Array(JOBS).keys()].map((number) => ({ name: 'square', data: { number } })));
  let done = 0;
  const wait = (job) => job.waitUntilFinished(events, 60000);
  const squares = await Promise.all(jobs.map(async (job) => {
    const value = await wait(job);
    done += 1;
    if (done === JOBS / 2) console.log('half');
    return value;
  }));
  const begin = Date.now();
  const later = await wait(await queue.add('square', { number: 7 }, { delay: 1000 }));
  const waited = Date.now() - begin >= 1000;
  const again = await wait(await queue.add('fails once', {}, { attempts: 3, backoff: { type: 'fixed', delay: 50 } }));
  const flow = new FlowProducer({ connection });
  const children = [1, 2, 3].map((number) => ({ name: 'square', queueName: 'jobs', data: { number } }));
  const tree = await flow.add({ name: 'total', queueName: 'jobs', data: {}, children });
  const total = await wait(tree.job);
  await queue.upsertJobScheduler('often', { every: 200, limit: 3 }, { name: 'square', data: { number: 3 } });
  const repeats = async () => (await queue.getJobs(['completed'])).filter((job) => job.repeatJobKey === 'often');
  while ((await repeats()).length < 3) await sleep(50);
  const repeated = (await repeats()).map((job) => job.returnvalue);
  const ranked = new Queue('ranked', { connection });
  for (const priority of [3, 1, 2]) await ranked.add('ranked', { priority }, { priority });
  const taker = new Worker('ranked', null, { connection });
  const byPriority = [];
  for (let number = 0; number < 3; number++) {
    const job = await taker.getNextJob('token');
    byPriority.push(job.data.priority);
    await job.moveToCompleted('done', 'token', false);
  }
  const client = new Redis(connection);
  client.defineCommand('addto', { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
  const scripted = [await client.addto('scripted', 41), await client.addto('scripted', 1)];
  const counts = await queue.getJobCounts('completed', 'failed', 'active', 'waiting', 'delayed');
  console.log(JSON.stringify({ squares, later, waited, again, total, repeated, byPriority, scripted, counts }));
  await Promise.all([queue.close(), events.close(), flow.close(), ranked.close(), taker.close(), client.quit()]);
}

(role === 'worker' ? work() : drive()).catch((error) => { console.error(error); process.exit(1); });
