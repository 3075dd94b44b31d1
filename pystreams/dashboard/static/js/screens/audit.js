// The audit log: user, time, origin and content of each change, with values before and after.

import { get } from "../api.js";
import { h, replace } from "../dom.js";
import { moment, things } from "../format.js";
import { debounced, nothing, panelWith } from "../parts.js";
import { Table, Walker } from "../table.js";

const SIZE = 50;
const RESULTS = { begun: "No result recorded", failed: "Failed", done: "Done" };

const COLUMNS = [
  { id: "time", title: "Time", head: true, class: "nowrap", value: (row) => moment(Date.parse(row.time)) },
  { id: "user", title: "User", class: "name", value: (row) => row.user },
  { id: "from", title: "From", class: "nowrap mono optional", value: (row) => row.from },
  { id: "plan", title: "Change", class: "wrap", value: (row) => [row.plan, row.stream], cell: (row) => (row.key ? h("a", { href: `#/stream/${row.key}` }, row.plan) : row.plan) },
  { id: "values", title: "Before and after", class: "wrap", value: (row) => row.changes, cell: (row) => row.changes.map(([name, before, after]) =>
    h("div", {}, h("span", { class: "muted" }, `${name}: `), h("span", { class: "mono" }, before), " → ", h("span", { class: "mono" }, after))) },
  { id: "result", title: "Result", class: "wrap", value: (row) => [row.event, row.result], cell: (row) => [row.event === "done" ? null : h("span", { class: "badge bad" }, RESULTS[row.event] ?? row.event),
    row.result.split("\n").map((line) => h("div", {}, line))] },
];

export async function audit() {
  const search = h("input", { type: "search", placeholder: "Search changes", "aria-label": "Search changes" });
  const note = h("p", { class: "hint" });
  const walker = new Walker(() => load());
  const table = new Table({ label: "Changes", columns: COLUMNS, key: (row) => row.id,
    empty: () => (search.value ? nothing("No change matches the search.", "Older changes may be on the next page.") : nothing("No changes are recorded.", "A change made in this dashboard appears here.")) });
  let number = 0;

  async function load() {
    const request = number += 1;
    const found = await get("audit", { at: walker.start, search: search.value, size: SIZE });
    if (request !== number) return;
    replace(note, found.rows === null ? "This dashboard keeps no audit log: it was started with --state none." : found.file ? `The log is ${found.file}.` : "");
    table.update(found.rows ?? []);
    walker.update(things((found.rows ?? []).length, "change"), found.next);
  }

  search.addEventListener("input", debounced(() => { walker.reset(); load(); }));
  await load();
  return { title: "Changes", element: h("div", {}, h("h1", {}, "Changes"), note, panelWith("Audit log", search, table.element, walker.element)),
    refresh: () => (walker.starts.length === 1 ? load() : null) };
}
