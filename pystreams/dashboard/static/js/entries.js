// Entries of a stream: one value, one entry, pages in a range filtered by a condition, new entries, and the export of a range.

import { download, follow, get } from "./api.js";
import { dialog } from "./changes.js";
import { button, bytes, count, entryFields, facts, field, h, momentOfId, nothing, percent, position, replace, segments, text, things, toast } from "./dom.js";
import { Table, Walker } from "./table.js";

const LONG = 1000; // number of characters above which a value has a limited height
const CHILDREN = 100; // maximum number of a node's children shown at a time

// A JSON number with its original text, since large numbers would lose digits.
class Written {
  constructor(source) { this.source = source; }
}

// Returns the object or array in a JSON text; null for anything else.
function parsed(source) {
  if (!/^\s*[[{]/.test(source ?? "")) return null;
  try {
    return JSON.parse(source, (_, value, context) => (typeof value === "number" ? new Written(context?.source ?? String(value)) : value));
  } catch { return null; }
}

function node(name, value, opened) {
  const label = name === null ? null : h("span", { class: "muted" }, `${name}: `);
  if (value instanceof Written) return h("div", {}, label, value.source);
  if (value === null || typeof value !== "object") return h("div", {}, label, JSON.stringify(value));
  const pairs = Object.entries(value);
  const inner = h("div", { class: "inner" });
  let shown = 0;
  const more = () => {
    const page = pairs.slice(shown, shown + CHILDREN);
    shown += page.length;
    inner.append(...page.map(([key, child]) => node(key, child, false)));
    if (shown < pairs.length) {
      const next = button(`Show more (${pairs.length - shown} left)`, () => { next.remove(); more(); }, "quiet");
      inner.append(next);
    }
  };
  const fill = () => { if (!shown) more(); };
  if (opened) fill();
  return h("details", { open: opened, ontoggle: fill }, h("summary", {}, label, Array.isArray(value) ? `[${things(pairs.length, "element")}]` : `{${things(pairs.length, "field")}}`), inner);
}

const FORMATS = { avro: "Avro", protobuf: "Protobuf", msgpack: "MessagePack" };

// `shown`: the value with escapes, possibly truncated; `source`: the complete text, null if truncated or not text;
// `decoded`: {format, name, schema_id, json} for a value decoded from a format other than JSON, {problem} if decoding failed,
// null for other values.
function valueView(name, shown, source, decoded = null) {
  const view = h("div", { class: "value" });
  const json = parsed(decoded?.json ?? source);
  const plain = () => replace(view, h("div", { class: `pre${shown.length > LONG ? " clamped" : ""}`,
    ...(shown.length > LONG ? { tabindex: "0", role: "region", "aria-label": `Value of ${name}` } : {}) }, shown));
  const tree = () => replace(view, h("div", { class: "tree" }, node(null, json, true)));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(decoded?.json ?? source ?? shown);
      toast(whole ? "Copied." : "Copied the visible part.");
    } catch { toast("This browser does not allow copying. Select the text instead."); }
  };
  const whole = source !== null || decoded?.json;
  const format = decoded?.json ? [FORMATS[decoded.format] ?? decoded.format, decoded.name, decoded.schema_id === null ? null : `schema ${decoded.schema_id}`].filter(Boolean).join(", ") : null;
  const trees = [["text", decoded?.json ? "Bytes" : "Text"], ["tree", decoded?.json ? "Decoded" : "JSON"]];
  if (decoded?.json && json !== null) tree(); else plain();
  return { view, tools: h("div", { class: "row" },
    h("button", { type: "button", class: "button quiet", "aria-label": `Copy ${name}`, onclick: copy }, whole ? "Copy" : "Copy the visible part"),
    format ? h("span", { class: "badge" }, format) : null, decoded?.problem ? h("span", { class: "hint" }, decoded.problem) : null,
    json === null ? null : segments(`View of ${name}`, trees, decoded?.json ? "tree" : "text", (kind) => (kind === "tree" ? tree() : plain()))) };
}

const SIZE = 50;

// `more`: additional facts to show, as pairs of a name and a value.
export async function open(stream, id, more = []) {
  const body = h("div", { class: "screen" });
  const element = dialog(id, body, button("Close", () => element.close()), true);
  try {
    const found = await get("entry", { stream, id });
    replace(body, facts([["Time", found.time], ["Size", bytes(found.bytes)], ...more]),
      h("dl", { class: "entry", "aria-label": "Fields" }, found.fields.map(([name, value], at) => {
        const { tools, view } = valueView(name, value, found.sources[at], found.decoded[at]);
        return [h("dt", { class: "row spread" }, h("span", {}, name), tools), h("dd", {}, view)];
      })),
      found.more ? h("p", { class: "muted" }, `and ${count(found.more)} more fields`) : null);
  } catch (failure) {
    replace(body, h("p", { class: "error", role: "alert" }, failure.message));
  }
}

const entryColumns = (stream) => [
  { id: "id", title: "ID", head: true, class: "tight", value: (row) => row.id, cell: (row) => h("button", { type: "button", class: "link entry-id", title: "Show the whole entry", onclick: () => open(stream, row.id) }, row.id) },
  { id: "time", title: "Time", class: "nowrap muted optional", value: (row) => momentOfId(row.id) },
  { id: "fields", title: "Fields", class: "wrap", value: (row) => [row.fields, row.more], cell: (row) => entryFields(row.fields, row.more) },
];

// Loads one page. With a condition this is a search, which examines thousands of entries per step until the page is full.
export async function browse(key, query) {
  let order = query.get("order") ?? "falling";
  const at = h("input", { name: "at", placeholder: "ID, time, 15m, start", spellcheck: "false", value: query.get("at") ?? "" });
  const to = h("input", { name: "to", placeholder: "end of the range", spellcheck: "false", value: query.get("to") ?? "" });
  const where = h("input", { name: "where", placeholder: "amount > 100 and city == 'Lyon'", spellcheck: "false", value: query.get("where") ?? "" });
  const problem = h("p", { class: "error", role: "alert", hidden: true });
  const walker = new Walker(() => load());
  const table = new Table({
    label: "Entries", columns: entryColumns(key), key: (row) => row.id,
    empty: () => (where.value || at.value || to.value ? nothing("No entry matches.", unseen?.length ? `No entry of this range has ${unseen.join(" or ")}.` : "Change the range or the condition.")
      : nothing("The stream has no entries.", "Its entries were trimmed or deleted.")),
  });
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Part of the range that was searched" });
  const status = h("span", { class: "muted", role: "status" });
  const stop = button("Stop", () => { number += 1; search.hidden = true; });
  const search = h("div", { class: "search", hidden: true }, bar, status, stop);
  let number = 0;
  let unseen = null; // names in the condition that no searched entry has

  async function load() {
    const request = number += 1;
    const rows = [];
    let scanned = 0;
    let cursor = walker.start;
    unseen = null;
    try {
      do {
        const found = await get("entries", { stream: key, order, at: position(at.value), to: position(to.value), where: where.value, cursor, size: SIZE - rows.length });
        if (request !== number) return;
        problem.hidden = true;
        rows.push(...found.rows);
        scanned += found.scanned;
        if (found.scanned) unseen = unseen?.filter((name) => found.unseen.includes(name)) ?? found.unseen;
        cursor = found.next;
        table.update(rows);
        const words = where.value ? `${count(rows.length)} of ${things(scanned, "entry")} match${unseen?.length ? `, none has ${unseen.join(", ")}` : ""}` : things(rows.length, "entry");
        walker.update(words, cursor);
        search.hidden = !where.value || cursor === null || rows.length >= SIZE;
        bar.value = found.progress;
        text(status, `${things(scanned, "entry")} searched, ${percent(found.progress)} of the range`);
      } while (where.value && cursor !== null && rows.length < SIZE);
    } catch (failure) {
      if (request !== number) return;
      replace(problem, failure.message);
      problem.hidden = false;
      search.hidden = true;
    }
  }

  const again = () => { walker.reset(); bookmark(); return load(); };
  // Puts the search into the page's address, so that a bookmark or a copied link repeats it.
  function bookmark() {
    const given = Object.entries({ order, at: at.value, to: to.value, where: where.value }).filter(([, value]) => value);
    history.replaceState(null, "", `#/stream/${key}?${new URLSearchParams(given)}`);
  }
  const ordering = segments("Order", [["falling", "Newest first"], ["rising", "Oldest first"]], order, (value) => { order = value; again(); });
  const form = h("form", { class: "form", onsubmit: (event) => { event.preventDefault(); again(); } },
    h("div", { class: "field" }, "Order", ordering), field("From", at), field("To", to), field("Where", where, true), h("button", { type: "submit", class: "button" }, "Show"));
  if (where.value) load(); else await load(); // a search may be slow, so the screen does not wait for it
  const live = () => order === "falling" && walker.starts.length === 1 && !at.value && !to.value && !where.value && problem.hidden;
  return { element: h("section", { class: "panel" }, h("div", { class: "body" }, form, search, problem), table.element, walker.element),
    refresh: () => (live() ? load() : null), leave: () => { number += 1; } };
}

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

const FILE_FORMATS = [["parquet", "Parquet"], ["jsonl", "JSON lines"], ["csv", "CSV"]];
const KEPT_MS = 60000; // time for the browser to finish copying the file

// Returns the start of a day in the browser's time zone; with `later` 1, the start of the next day.
function midnight(day, later) {
  const at = new Date(`${day}T00:00:00`);
  at.setDate(at.getDate() + later);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString().replace(".000Z", "Z");
}

function save(file) {
  const url = URL.createObjectURL(file);
  h("a", { href: url, download: file.name }).click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}

export function exportStream(stream) {
  const day = h("input", { name: "day", type: "date" });
  const from = h("input", { name: "from", placeholder: "start", spellcheck: "false" });
  const before = h("input", { name: "before", placeholder: "end", spellcheck: "false" });
  const format = h("select", { name: "format" }, FILE_FORMATS.map(([value, title]) => h("option", { value }, title)));
  day.addEventListener("input", () => { from.value = midnight(day.value, 0); before.value = midnight(day.value, 1); });
  const status = h("p", { class: "muted", role: "status" });
  const problem = h("p", { class: "error", role: "alert", hidden: true });
  const leaving = new AbortController();
  const send = async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    go.disabled = true;
    problem.hidden = true;
    replace(status, "Writing the file…");
    try {
      const given = { stream, from: position(from.value), before: position(before.value), format: format.value };
      const file = await download("export", given, leaving.signal);
      save(file);
      toast(`Exported ${file.name}, ${bytes(file.size)}.`);
      element.close();
    } catch (failure) {
      if (leaving.signal.aborted) return;
      replace(problem, failure.message);
      problem.hidden = false;
      status.replaceChildren();
      go.disabled = false;
    }
  };
  const form = h("form", { class: "form", id: "export", onsubmit: send }, field("Day", day), field("From", from, true), field("Before", before, true), field("Format", format));
  const hint = h("p", { class: "hint" }, "From and Before accept an ID, a time, an age such as 15m, or -100 (the last 100 entries). Times without a zone are in this browser's time zone.");
  const go = h("button", { type: "submit", form: "export", class: "button primary" }, "Export");
  const element = dialog("Export entries", [form, hint, status, problem], [button("Cancel", () => element.close()), go]);
  element.addEventListener("close", () => leaving.abort());
}
