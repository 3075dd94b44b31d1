// Statistics of the fields of the last entries.

import { get } from "../api.js";
import { h } from "../dom.js";
import { count, percent, plain, things } from "../format.js";
import { nothing, panel } from "../parts.js";
import { Table } from "../table.js";

const COLUMNS = [
  { id: "name", title: "Field", head: true, class: "name", value: (row) => row.name },
  { id: "type", title: "Type", class: "muted", value: (row) => row.type },
  { id: "share", title: "Present", right: true, help: "Share of the entries that have the field", value: (row) => percent(row.share) },
  { id: "distinct", title: "Distinct", right: true, value: (row) => count(row.distinct) },
  { id: "range", title: "Smallest, median, largest", right: true, value: (row) => row.numbers, cell: (row) => (row.numbers ? `${plain(row.numbers.min)} · ${plain(row.numbers.median)} · ${plain(row.numbers.max)}` : h("span", { class: "muted" }, `up to ${count(row.longest)} bytes`)) },
  { id: "bars", title: "Distribution", class: "optional", value: (row) => row.numbers?.bars ?? null, cell: (row) => (row.numbers ? mini(row.numbers.bars) : "") },
  { id: "frequent", title: "Most frequent", class: "wrap", value: (row) => row.frequent, cell: (row) => h("div", { class: "fields" }, row.frequent.map(([value, times]) => h("span", {}, value || "(empty)", h("span", { class: "muted" }, ` ×${count(times)}`)))) },
];

function mini(bars) {
  const high = Math.max(1, ...bars);
  return h("div", { class: "mini", "aria-hidden": "true" }, bars.map((value) => h("i", { css: { height: `${(100 * value) / high}%` } })));
}

export async function fieldStatistics(key) {
  const table = new Table({ label: "Fields", columns: COLUMNS, key: (row) => row.name, empty: () => nothing("There are no fields.", "The stream has no entries.") });
  const found = await get("fields", { stream: key });
  table.update(found.fields);
  return { element: panel(`Fields of the last ${count(found.sample)} of ${things(found.length, "entry")}`, table.element) };
}
