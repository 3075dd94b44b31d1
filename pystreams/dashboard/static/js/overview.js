// Overview of the server: totals, groups that need attention and all streams; its Spark queries.

import { get } from "./api.js";
import { Chart } from "./charts.js";
import { bytes, count, debounced, duration, h, nothing, panel, panelWith, rate, replaceIfChanged, seconds, short, status, things, Tiles } from "./dom.js";
import { columns, Pager, Table } from "./table.js";

const SIZE = 50;

export function streamLink(name, tab = "") {
  return h("a", { href: `#/stream/${name.key}${tab}`, title: name.text }, name.text || "(no name)");
}

const groupLink = (row) => h("a", { href: `#/group/${row.stream.key}/${row.name.key}`, title: `${row.name.text} of ${row.stream.text}` }, `${row.name.text} of ${row.stream.text}`);

export async function overview({ query }) {
  const tiles = new Tiles([["streams", "Streams"], ["rate", "Entries per second"], ["lag", "Lag of all groups"], ["behind", "Furthest behind"], ["pending", "Pending"], ["memory", "Memory"]]);
  const chartRate = new Chart("Entries added", [{ name: "rate", label: "added", show: rate }]);
  const chartLag = new Chart("Lag and pending of all groups", [{ name: "lag", label: "lag", show: short }, { name: "pending", label: "pending", show: short }]);
  const attention = h("div");
  const search = h("input", { type: "search", placeholder: "Search streams", "aria-label": "Search streams", value: query.get("search") ?? "" });
  const pager = new Pager(SIZE, () => list());
  const table = new Table({
    label: "Streams", columns: columns("streams", { name: (row) => streamLink(row.name) }), key: (row) => row.name.key, sort: "status", order: "falling",
    onsort: () => { pager.page = 0; list(); },
    empty: () => (search.value ? nothing("No stream matches.", "Search for a part of the name. Case is ignored.")
      : known ? nothing("There are no streams.", "A stream appears here with its first entry.") : nothing("The server has not answered yet.")),
  });
  search.addEventListener("input", debounced(() => { pager.page = 0; list(); }));
  const asked = { number: 0 };
  let known = false; // whether there is a sample

  async function list() {
    const number = asked.number += 1;
    const found = await get("streams", { search: search.value, sort: table.sort, order: table.order, page: pager.page, size: SIZE });
    if (number !== asked.number) return;
    known = found.at > 0;
    table.update(found.rows);
    pager.update(found.rows.length, found.total);
  }

  async function summary() {
    const found = await get("overview");
    const { server } = found;
    const totals = found.totals ?? {}; // none for a user who may see only some streams
    const entries = totals.entries === 1 ? "1 entry" : `${short(totals.entries)} entries`;
    tiles.set("streams", count(totals.streams), totals.unreadable ? `${entries}; no permission for ${things(totals.unreadable, "more stream")}` : entries);
    tiles.set("rate", rate(totals.rate), `${count(server.commands_per_second)} commands/s`);
    tiles.set("lag", count(totals.lag, totals.exact), things(totals.groups, "group"));
    tiles.set("behind", found.furthest ? seconds(found.furthest.lag_seconds) : duration(found.at ? 0 : null), found.furthest ? groupLink(found.furthest) : found.at ? "everything is delivered" : "no answer yet");
    tiles.set("pending", count(totals.pending), "not acknowledged");
    tiles.set("memory", bytes(server.memory), server.maxmemory ? `of ${bytes(server.maxmemory)}` : "no limit");
    chartRate.update(found.curves);
    chartLag.update(found.curves);
    const others = found.attention_total === null ? null : found.attention_total - found.attention.length;
    replaceIfChanged(attention, [found.attention, totals.groups, others, found.at === 0], () => (found.attention.length ? h("div", { class: "attention" }, found.attention.map((row) =>
      h("a", { href: `#/group/${row.stream.key}/${row.name.key}` }, status(row.status),
        h("span", { class: "what" }, h("strong", {}, row.name.text), h("span", { class: "muted" }, ` of ${row.stream.text}`)),
        h("span", { class: "lag" }, `${count(row.lag, row.lag_exact)} behind (${seconds(row.lag_seconds)}), ${count(row.pending)} pending`))),
    others === 0 ? null : h("a", { href: "#/groups?status=attention&sort=status", class: "more" }, others === null ? "More groups" : things(others, "more group")))
      : h("p", { class: "allwell" }, found.at ? status("ok") : null, totals.groups ? "No group needs attention." : found.at ? "There are no consumer groups yet." : "The server has not answered yet.")));
  }

  const refresh = () => Promise.all([summary(), list()]);
  await refresh();
  const element = h("div", {}, h("h1", { class: "visually-hidden" }, "Overview"), tiles.element,
    panel("Needs attention", attention), h("div", { class: "columns" }, chartRate.element, chartLag.element),
    panelWith("Streams", search, table.element, pager.element));
  return { title: "Overview", element, refresh, leave: () => { chartRate.leave(); chartLag.leave(); } };
}

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
