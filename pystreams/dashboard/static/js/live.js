// Server-sent events: samples of the server, and the entries of a followed stream.
// A hidden page closes its connection, since browsers allow only a few connections per host.

import { address, HERE } from "./api.js";

export class LiveSamples {
  constructor(callback) {
    this.callback = callback;
    this.source = null;
    this.seen = () => (document.hidden ? this.close() : this.open());
    document.addEventListener("visibilitychange", this.seen);
    if (!document.hidden) this.open();
  }

  open() {
    if (this.source) return;
    this.source = new EventSource(`/api${HERE}/events`);
    this.source.addEventListener("sample", (event) => this.callback(JSON.parse(event.data)));
    this.source.addEventListener("error", () => {
      this.callback(null);
      if (this.source && this.source.readyState === EventSource.CLOSED) { // refused: retry after a longer pause
        this.close();
        this.timer = setTimeout(() => { if (!document.hidden) this.open(); }, 3000);
      }
    });
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  end() {
    this.close();
    document.removeEventListener("visibilitychange", this.seen);
  }
}

// Follows a stream: `arrived` is called with entries, `failed` with a sentence. After a disconnection, it continues after the
// last entry. Returns a function that stops following.
export function follow(stream, where, arrived, failed) {
  let after = "";
  let source = null;
  let timer = null;
  let ended = false;
  const open = () => {
    source = new EventSource(`/api${HERE}/${address("tail", { stream, where, after })}`);
    source.addEventListener("entries", (event) => {
      const document = JSON.parse(event.data);
      after = document.after || after;
      arrived(document);
    });
    source.addEventListener("failure", (event) => { failed(JSON.parse(event.data).message); again(); });
    source.addEventListener("error", () => { failed("The connection was lost. Trying again."); again(); });
  };
  const again = () => {
    source.close();
    clearTimeout(timer);
    if (!ended) timer = setTimeout(open, 1500);
  };
  open();
  return () => { ended = true; clearTimeout(timer); source.close(); };
}
