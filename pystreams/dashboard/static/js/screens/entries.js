// Entries of a stream in pages: from a position on or back, filtered by a condition; each can be opened whole.

import { get } from "../api.js";
import { dialog } from "../changes.js";
import { h, replace } from "../dom.js";
import { bytes, count, momentOfId, position, things } from "../format.js";
import { button, entryFields, facts, field, nothing, segments } from "../parts.js";
import { Table, Walker } from "../table.js";
import { valueView } from "../values.js";

const SIZE = 50;

export async function open(stream, id) {
  const body = h("div", { class: "screen" });
  const element = dialog(id, body, button("Close", () => element.close()), true);
  try {
    const found = await get("entry", { stream, id });
    replace(body, facts([["Time", found.time], ["Size", bytes(found.bytes)]]),
      h("dl", { class: "entry", "aria-label": "Fields" }, found.fields.map(([name, value], at) => [h("dt", {}, name), h("dd", {}, valueView(name, value, found.sources[at]))])),
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

export async function browse(key, query) {
  let order = query.get("order") ?? "falling";
  const at = h("input", { name: "at", placeholder: "ID, time, 15m, start", spellcheck: "false", value: query.get("at") ?? "" });
  const where = h("input", { name: "where", placeholder: "amount > 100 and city == 'Lyon'", spellcheck: "false", value: query.get("where") ?? "" });
  const problem = h("p", { class: "error", role: "alert", hidden: true });
  const walker = new Walker(() => load());
  const table = new Table({
    label: "Entries", columns: entryColumns(key), key: (row) => row.id,
    empty: () => (where.value || at.value ? nothing("No entry here is like this.", "Go on with Next, or change the position or the condition.")
      : nothing("The stream has no entries.", "What was in it was trimmed or deleted.")),
  });
  let number = 0;

  async function load() {
    const mine = number += 1;
    try {
      const found = await get("entries", { stream: key, order, at: walker.start || position(at.value), where: where.value, size: SIZE });
      if (mine !== number) return;
      problem.hidden = true;
      table.update(found.rows);
      const scanned = where.value ? `${count(found.rows.length)} of ${things(found.scanned, "entry")} looked at` : things(found.rows.length, "entry");
      walker.update(scanned, found.next);
    } catch (failure) {
      if (mine !== number) return;
      replace(problem, failure.message);
      problem.hidden = false;
    }
  }

  const again = () => { walker.reset(); return load(); };
  const form = h("form", { class: "form", onsubmit: (event) => { event.preventDefault(); again(); } },
    h("div", { class: "field" }, "Order", segments("Order", [["falling", "Newest first"], ["rising", "Oldest first"]], order, (value) => { order = value; again(); })),
    field("From", at), field("Where", where, true), h("button", { type: "submit", class: "button" }, "Show"));
  await load();
  const live = () => order === "falling" && walker.starts.length === 1 && !at.value && !where.value && problem.hidden;
  return { element: h("section", { class: "panel" }, h("div", { class: "body" }, form, problem), table.element, walker.element),
    refresh: () => (live() ? load() : null) };
}
