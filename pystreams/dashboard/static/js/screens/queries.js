// Spark queries, as StreamMonitor reports them: batches, rows per second, how far behind, what was lost.

import { get } from "../api.js";
import { h } from "../dom.js";
import { bytes, count, duration, rate, short } from "../format.js";
import { nothing, panel, spark, status } from "../parts.js";
import { Table } from "../table.js";

const COLUMNS = [
  { id: "query", title: "Query", head: true, class: "name", value: (row) => [row.query, row.id], cell: (row) => h("span", { title: row.id }, row.query) },
  { id: "batch", title: "Batch", right: true, value: (row) => count(row.batch) },
  { id: "state", title: "State", value: (row) => row.silent, cell: (row) => (row.silent
    ? h("span", { class: "badge warning", title: "No report for more than a minute and five times longer than usual: the query has stopped, or has nothing to read. The numbers are of its last report." }, "silent")
    : h("span", { class: "badge accent" }, "reporting")) },
  { id: "ago", title: "Reported", right: true, help: "Since its last batch", value: (row) => `${duration(row.ago_ms)} ago` },
  { id: "rows", title: "Rows/s", right: true, value: (row) => rate(row.silent ? null : row.rows_per_second) },
  { id: "took", title: "Batch took", right: true, class: "optional", value: (row) => duration(row.batch_ms) },
  { id: "trend", title: "Last batches", class: "optional", help: "Rows per second", value: (row) => row.trend, cell: (row) => spark(row.trend, "rows per second of the last batches") },
  { id: "lag", title: "Behind", right: true, help: "Entries of all its streams", value: (row) => row.lag_entries, cell: (row) => count(row.lag_entries) },
  { id: "age", title: "Oldest unread", right: true, value: (row) => duration(row.oldest_unread_ms) },
  { id: "bytes", title: "Bytes behind", right: true, class: "optional", value: (row) => bytes(row.lag_bytes) },
  { id: "pending", title: "Pending", right: true, class: "optional", value: (row) => count(row.pending) },
  { id: "lost", title: "Lost", right: true, value: (row) => row.lost, cell: (row) => (row.lost ? h("span", { class: "badge bad" }, count(row.lost)) : "0") },
];
const STREAMS = [
  { id: "query", title: "Query", head: true, class: "name", value: (row) => row.query },
  { id: "stream", title: "Stream", class: "name", value: (row) => row.stream, cell: (row) => h("a", { href: `#/stream/${row.stream.key}` }, row.stream.text) },
  { id: "position", title: "Checkpoint", class: "mono", help: "The last entry that the query has read", value: (row) => row.position },
  { id: "group", title: "Group", class: "name", value: (row) => row.group, cell: (row) => (row.group ? h("a", { href: `#/group/${row.stream.key}/${row.group.key}` }, row.group.text) : "–") },
  { id: "at", title: "Group is at", class: "mono optional", value: (row) => row.group_position ?? "–" },
  { id: "status", title: "Status", value: (row) => row.status, cell: (row) => status(row.status) },
  { id: "lag", title: "Behind", right: true, value: (row) => [row.lag, row.exact], cell: (row) => count(row.lag, row.exact) },
  { id: "rate", title: "Rows/s", right: true, class: "optional", value: (row) => rate(row.entries_per_second) },
  { id: "lost", title: "Lost", right: true, class: "optional", value: (row) => short(row.lost) },
];

export async function queries() {
  const table = new Table({ label: "Spark queries", columns: COLUMNS, key: (row) => row.id,
    empty: () => nothing("No Spark query has reported.", h("code", {}, "StreamMonitor.install(spark, url=...)"), " in a query's program keeps a report of each batch in the stream ", h("code", {}, "pystreams:queries"), ".") });
  const streams = new Table({ label: "Streams of the queries", columns: STREAMS, key: (row) => `${row.query} ${row.stream.key}`, empty: () => nothing("No streams.") });
  const second = panel("Checkpoints beside groups", streams.element);

  async function refresh() {
    const found = await get("queries");
    table.update(found.rows);
    streams.update(found.streams);
    second.hidden = found.streams.length === 0;
  }

  await refresh();
  return { title: "Spark queries", element: h("div", {}, h("h1", {}, "Spark queries"), panel("Queries", table.element), second), refresh };
}
