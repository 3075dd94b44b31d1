// Overview: the numbers of all streams together, what needs attention, and all streams in pages.

import { get } from "../api.js";
import { Chart } from "../charts.js";
import { h, replace } from "../dom.js";
import { bytes, count, duration, rate, short, things } from "../format.js";
import { nothing, panelWith, panel, debounced, spark, status, Tiles } from "../parts.js";
import { Pager, Table } from "../table.js";

const SIZE = 50;

export function zero(value, shown) {
  return value ? shown : h("span", { class: "zero" }, shown);
}

export function streamLink(name, tab = "") {
  return h("a", { href: `#/stream/${name.key}${tab}`, title: name.text }, name.text || "(no name)");
}

export const STREAM_COLUMNS = [
  { id: "name", title: "Stream", sort: "name", class: "name", head: true, value: (row) => row.name, cell: (row) => streamLink(row.name) },
  { id: "status", title: "Status", sort: "status", value: (row) => row.status, cell: (row) => status(row.status) },
  { id: "length", title: "Length", sort: "length", right: true, value: (row) => row.length, cell: (row) => zero(row.length, count(row.length)) },
  { id: "rate", title: "Rate", sort: "rate", right: true, value: (row) => rate(row.rate), cell: (row) => zero(row.rate, rate(row.rate)) },
  { id: "trend", title: "Last hour", class: "optional", value: (row) => row.trend, cell: (row) => spark(row.trend ?? [], "rate over the last hour") },
  { id: "lag", title: "Lag", sort: "lag", right: true, help: "Entries that the slowest group has yet to read; ~ is an estimate", value: (row) => [row.lag, row.exact], cell: (row) => zero(row.lag, count(row.lag, row.exact)) },
  { id: "behind", title: "Behind", sort: "behind", right: true, help: "Age of the first entry that the slowest group has yet to read", value: (row) => duration(row.behind_ms), cell: (row) => zero(row.behind_ms, duration(row.behind_ms)) },
  { id: "pending", title: "Pending", sort: "pending", right: true, help: "Entries that were delivered and not acknowledged", value: (row) => row.pending, cell: (row) => zero(row.pending, count(row.pending)) },
  { id: "groups", title: "Groups", sort: "groups", right: true, class: "optional", value: (row) => row.groups, cell: (row) => zero(row.groups, count(row.groups)) },
  { id: "newest", title: "Newest", sort: "newest", right: true, class: "optional", help: "Age of the last entry", value: (row) => duration(row.newest_ms) },
  { id: "bytes", title: "Size", sort: "bytes", right: true, class: "optional", help: "Memory, as the server estimates it", value: (row) => bytes(row.bytes) },
];

export async function overview({ query }) {
  const tiles = new Tiles([["streams", "Streams"], ["rate", "Entries per second"], ["lag", "Lag of all groups"], ["behind", "Furthest behind"], ["pending", "Pending"], ["memory", "Memory"]]);
  const chartRate = new Chart("Entries added", [{ name: "rate", label: "added", show: rate }]);
  const chartLag = new Chart("Lag and pending of all groups", [{ name: "lag", label: "lag", show: short }, { name: "pending", label: "pending", show: short }]);
  const attention = h("div");
  const search = h("input", { type: "search", placeholder: "Search streams", "aria-label": "Search streams", value: query.get("search") ?? "" });
  const pager = new Pager(SIZE, () => list());
  const table = new Table({
    label: "Streams", columns: STREAM_COLUMNS, key: (row) => row.name.key, sort: "status", order: "falling",
    onsort: () => { pager.page = 0; list(); },
    empty: () => (search.value ? nothing("No stream has this in its name.", "Search for a part of the name, in any case.")
      : nothing("There are no streams.", "A stream appears here with its first entry.")),
  });
  search.addEventListener("input", debounced(() => { pager.page = 0; list(); }));
  const asked = { number: 0 };

  async function list() {
    const number = asked.number += 1;
    const found = await get("streams", { search: search.value, sort: table.sort, order: table.order, page: pager.page, size: SIZE });
    if (number !== asked.number) return;
    table.update(found.rows);
    pager.update(found.rows.length, found.total);
  }

  async function summary() {
    const found = await get("overview");
    const { server } = found;
    const totals = found.totals ?? {}; // no sums: this user may see some of very many streams
    tiles.set("streams", count(totals.streams), totals.entries === 1 ? "1 entry" : `${short(totals.entries)} entries`);
    tiles.set("rate", rate(totals.rate), `${short(server.commands_per_second)} other commands/s`);
    tiles.set("lag", count(totals.lag, totals.exact), things(totals.groups, "group"));
    tiles.set("behind", duration(totals.behind_ms ?? 0), totals.behind_ms ? "first undelivered" : "all is delivered");
    tiles.set("pending", count(totals.pending), "not acknowledged");
    tiles.set("memory", bytes(server.memory), server.maxmemory ? `of ${bytes(server.maxmemory)}` : "no limit");
    chartRate.update(found.curves);
    chartLag.update(found.curves);
    replace(attention, found.attention.length ? h("div", { class: "attention" }, found.attention.map((row) =>
      h("a", { href: `#/group/${row.stream.key}/${row.name.key}` }, status(row.status),
        h("span", { class: "what" }, h("strong", {}, row.name.text), h("span", { class: "muted" }, ` of ${row.stream.text}`)),
        h("span", { class: "lag" }, `${count(row.lag, row.exact)} behind (${duration(row.behind_ms)}), ${count(row.pending)} pending`))))
      : h("p", { class: "allwell" }, status("ok"), totals.groups ? "All groups get on." : "There are no consumer groups yet."));
  }

  const refresh = () => Promise.all([summary(), list()]);
  await refresh();
  const element = h("div", {}, h("h1", { class: "visually-hidden" }, "Overview"), tiles.element,
    panel("Needs attention", attention), h("div", { class: "columns" }, chartRate.element, chartLag.element),
    panelWith("Streams", search, table.element, pager.element));
  return { title: "Overview", element, refresh, leave: () => { chartRate.leave(); chartLag.leave(); } };
}
