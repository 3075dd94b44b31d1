// News of the server, and new entries of a followed stream. Pages ask every second: a browser opens only six connections
// to a host, so that a stream of events would leave none for the seventh window. A hidden page does not ask.

import { get } from "./api.js";

const PAUSE_MS = 1000;
const TAIL_PAUSE_MS = 500;
const PAUSE_AFTER_FAILURE_MS = 1500;

// Calls `callback` with each new sample of the server, and with null if the dashboard does not answer.
export class LiveSamples {
  constructor(callback) {
    this.callback = callback;
    this.number = null;
    this.seen = () => { if (!document.hidden) this.ask(); };
    document.addEventListener("visibilitychange", this.seen);
    this.seen();
  }

  async ask() {
    clearTimeout(this.timer);
    if (this.ended || this.asking) return;
    this.asking = true;
    try {
      const sample = await get("news");
      if (sample.number !== this.number && !this.ended) this.callback(sample);
      this.number = sample.number;
    } catch (failure) {
      if (failure.status !== 401 && !this.ended) this.callback(null);
      this.number = null;
    } finally {
      this.asking = false;
      if (!document.hidden) this.timer = setTimeout(() => this.ask(), PAUSE_MS);
    }
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.seen);
  }
}

// Follows a stream: `arrived` is called with entries, `failed` with a sentence. After a failure, it continues after the last
// entry. Returns a function that stops following.
export function follow(stream, where, arrived, failed) {
  let after = "";
  let timer = null;
  let ended = false;
  const ask = async () => {
    let pause = TAIL_PAUSE_MS;
    try {
      const found = await get("tail", { stream, where, after });
      if (ended) return;
      after = found.after;
      if (found.more) pause = 0;
      arrived(found);
    } catch (failure) {
      if (ended) return;
      failed(failure.message);
      pause = PAUSE_AFTER_FAILURE_MS;
    }
    timer = setTimeout(ask, pause);
  };
  ask();
  return () => { ended = true; clearTimeout(timer); };
}
