// Pages of a stream's entries in a range, filtered by a condition. Each entry can be opened.

import { get } from "../api.js";
import { dialog } from "../changes.js";
import { h, replace, text } from "../dom.js";
import { bytes, count, momentOfId, percent, position, things } from "../format.js";
import { button, entryFields, facts, field, nothing, segments } from "../parts.js";
import { Table, Walker } from "../table.js";
import { valueView } from "../values.js";

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

export const entryColumns = (stream) => [
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
