// Spark queries, from the reports of StreamMonitor: batches, rows per second, lag, lost entries.

import { get } from "../api.js";
import { columns } from "../columns.js";
import { h } from "../dom.js";
import { count, rate, short } from "../format.js";
import { nothing, panel, status } from "../parts.js";
import { Table } from "../table.js";

const SILENT = "No report for more than a minute and more than five usual intervals: the query has stopped, or has nothing to read. The numbers are from its last report.";
const CELLS = {
  name: (row) => h("span", { title: row.id }, row.query),
  state: (row) => (row.silent ? h("span", { class: "badge warning", title: SILENT }, "silent") : h("span", { class: "badge accent" }, "reporting")),
  age: (row, shown) => [shown, " ago"],
  lost: (row, shown) => (row.lost ? h("span", { class: "badge bad" }, shown) : shown),
};
const STREAMS = [
  { id: "query", title: "Query", head: true, class: "name", value: (row) => row.query },
  { id: "stream", title: "Stream", class: "name", value: (row) => row.stream, cell: (row) => h("a", { href: `#/stream/${row.stream.key}` }, row.stream.text) },
  { id: "position", title: "Checkpoint", class: "mono nowrap", help: "The last entry that the query has read", value: (row) => row.position },
  { id: "group", title: "Group", class: "name", value: (row) => row.group, cell: (row) => (row.group ? h("a", { href: `#/group/${row.stream.key}/${row.group.key}` }, row.group.text) : "–") },
  { id: "difference", title: "Difference", help: "Difference between the checkpoint and the position of the group, and its effect on a restart", value: (row) => row.difference,
    cell: (row) => h("span", { class: row.difference ? "bad" : null, title: row.group_position ? `The group is at ${row.group_position}.` : null }, row.difference || "none") },
  { id: "status", title: "Status", value: (row) => row.status, cell: (row) => status(row.status) },
  { id: "lag", title: "Behind", right: true, value: (row) => count(row.lag, row.lag_exact) },
  { id: "rate", title: "Rows/s", right: true, class: "optional", value: (row) => rate(row.entries_per_second) },
  { id: "lost", title: "Lost", right: true, class: "optional", value: (row) => short(row.lost) },
];

export async function queries() {
  const table = new Table({ label: "Spark queries", columns: columns("queries", CELLS), key: (row) => row.id,
    empty: () => nothing("No Spark query has reported.", h("code", {}, "StreamMonitor.install(spark, url=...)"), " in a query's program writes a report of each batch to the stream ", h("code", {}, "pystreams:queries"), ".") });
  const streams = new Table({ label: "Streams of the queries", columns: STREAMS, key: (row) => `${row.query} ${row.stream.key}`, empty: () => nothing("No streams.") });
  const second = panel("Checkpoints next to groups", streams.element);

  async function refresh() {
    const found = await get("queries");
    table.update(found.rows);
    streams.update(found.streams);
    second.hidden = found.streams.length === 0;
  }

  await refresh();
  return { title: "Spark queries", element: h("div", {}, h("h1", {}, "Spark queries"), panel("Queries", table.element), second), refresh };
}
