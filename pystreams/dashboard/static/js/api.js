// Requests to the dashboard's server, and news of the sampled server.
// A failed request throws a Failure with a sentence for the user. Pages ask for news every second: a browser opens only six
// connections to a host, so that a stream of events would leave none for the seventh window. A hidden page does not ask.

export class Failure extends Error {
  constructor(status, id, message) {
    super(message);
    this.status = status;
    this.id = id;
  }
}

export const state = { session: null, server: "", changes: false, operator: true, oidc: false, columns: {} };
const NAMES = ["stream", "group"]; // parameters that may be empty
const LOST = "The dashboard does not answer. It was stopped, or cannot be reached.";

let whenLoggedOut = () => {};
export function onLoggedOut(callback) { whenLoggedOut = callback; }

async function answer(path, options) {
  let response;
  let document = null;
  try {
    response = await fetch(`/api/${path}`, { credentials: "same-origin", ...options });
  } catch { throw new Failure(0, "UNREACHABLE", LOST); }
  try { document = await response.json(); } catch { /* the response of a proxy */ }
  if (response.ok && document !== null) return document;
  if (response.status === 401) whenLoggedOut();
  const problem = document?.error ?? { id: "FAILED", message: `The dashboard answered with status ${response.status}.` };
  throw new Failure(response.status, problem.id, problem.message);
}

function address(path, given = {}) {
  const known = Object.entries(given).filter(([name, value]) => value !== null && value !== undefined && (value !== "" || NAMES.includes(name)));
  const query = new URLSearchParams(known).toString();
  return query ? `${path}?${query}` : path;
}

export function get(path, given = {}) {
  return answer(address(path, given), {});
}

export function post(path, body) {
  const headers = { "content-type": "application/json" };
  if (state.session) headers["x-csrf-token"] = state.session.csrf;
  return answer(path, { method: "POST", headers, body: JSON.stringify(body) });
}

export function remember(document) {
  state.session = document.session;
  state.server = document.server;
  state.changes = Boolean(document.changes);
  state.operator = document.operator ?? true;
  state.oidc = Boolean(document.oidc);
  state.columns = document.columns;
}

const PAUSE_MS = 1000;

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
