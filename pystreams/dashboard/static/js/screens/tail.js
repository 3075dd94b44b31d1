// New entries of a stream as they arrive. The page keeps the last `KEPT` entries.

import { replace, h, text } from "../dom.js";
import { things } from "../format.js";
import { follow } from "../live.js";
import { button, field, nothing } from "../parts.js";
import { Table } from "../table.js";
import { entryColumns } from "./entries.js";

const KEPT = 300;

export async function tail(key) {
  const where = h("input", { name: "where", placeholder: "amount > 100", spellcheck: "false" });
  const status = h("span", { class: "muted", role: "status" }, "Connecting…");
  const table = new Table({ label: "New entries", columns: entryColumns(key), key: (row) => row.id,
    empty: () => nothing("No new entries yet.", "New entries appear here automatically.") });
  const box = h("div", { class: "tail", tabindex: "0", role: "region", "aria-label": "New entries" }, table.element);
  let rows = [];
  let seen = 0;
  let paused = false;
  let end = null;
  table.update([]);

  function arrived(document) {
    seen += document.rows.length + document.skipped;
    if (!paused) {
      rows = [...document.rows.slice().reverse(), ...rows].slice(0, KEPT);
      table.update(rows);
    }
    text(status, seen ? `${things(seen, "entry")} arrived${paused ? " (paused)" : ""}` : "Waiting for entries…");
  }

  const begin = () => { end?.(); end = follow(key, where.value, arrived, (message) => replace(status, message)); };
  const seenOrNot = () => { if (document.hidden) { end?.(); end = null; } else if (!end) begin(); };
  document.addEventListener("visibilitychange", seenOrNot);
  const pause = button("Pause", () => { paused = !paused; text(pause, paused ? "Continue" : "Pause"); });
  const clear = button("Clear", () => { rows = []; table.update(rows); });
  begin();
  const form = h("form", { class: "form", onsubmit: (event) => { event.preventDefault(); rows = []; seen = 0; table.update(rows); begin(); } },
    field("Where", where, true), h("button", { type: "submit", class: "button" }, "Follow"), pause, clear, status);
  return { element: h("section", { class: "panel" }, h("div", { class: "body" }, form), box),
    leave: () => { end?.(); document.removeEventListener("visibilitychange", seenOrNot); } };
}
