// All groups, the furthest behind first.

import { get } from "../api.js";
import { h } from "../dom.js";
import { count, duration, rate } from "../format.js";
import { debounced, nothing, panelWith, segments, spark, status } from "../parts.js";
import { Pager, Table } from "../table.js";
import { streamLink, zero } from "./overview.js";

const SIZE = 50;

export const GROUP_COLUMNS = [
  { id: "name", title: "Group", sort: "name", class: "name", head: true, value: (row) => [row.name, row.stream.key], cell: (row) => h("a", { href: `#/group/${row.stream.key}/${row.name.key}`, title: row.name.text }, row.name.text || "(no name)") },
  { id: "stream", title: "Stream", sort: "stream", class: "name", value: (row) => row.stream, cell: (row) => streamLink(row.stream) },
  { id: "status", title: "Status", sort: "status", value: (row) => row.status, cell: (row) => status(row.status) },
  { id: "lag", title: "Lag", sort: "lag", right: true, help: "Entries that are not delivered; ~ is an estimate", value: (row) => [row.lag, row.exact], cell: (row) => zero(row.lag, count(row.lag, row.exact)) },
  { id: "trend", title: "Last hour", class: "optional", value: (row) => row.trend, cell: (row) => spark(row.trend ?? [], "lag over the last hour") },
  { id: "behind", title: "Behind", sort: "behind", right: true, help: "Age of the first entry that is not delivered", value: (row) => duration(row.behind_ms), cell: (row) => zero(row.behind_ms, duration(row.behind_ms)) },
  { id: "delivered", title: "Delivered", sort: "delivered", right: true, class: "optional", help: "Entries that the group was given, in the last seconds", value: (row) => row.rate, cell: (row) => zero(row.rate, rate(row.rate)) },
  { id: "pending", title: "Pending", sort: "pending", right: true, value: (row) => row.pending, cell: (row) => (row.pending ? h("a", { href: `#/pending/${row.stream.key}/${row.name.key}` }, count(row.pending)) : zero(0, "0")) },
  { id: "consumers", title: "Consumers", sort: "consumers", right: true, class: "optional", value: (row) => row.consumers, cell: (row) => zero(row.consumers, count(row.consumers)) },
  { id: "idle", title: "Idle", sort: "idle", right: true, class: "optional", help: "Since a consumer last called", value: (row) => duration(row.idle_ms) },
];

export async function groups({ query }) {
  let chosen = query.get("status") ?? "any";
  const search = h("input", { type: "search", placeholder: "Search groups and streams", "aria-label": "Search groups and streams", value: query.get("search") ?? "" });
  const pager = new Pager(SIZE, () => refresh());
  const again = () => { pager.page = 0; refresh(); };
  const table = new Table({
    label: "Consumer groups", columns: GROUP_COLUMNS, key: (row) => `${row.stream.key} ${row.name.key}`, sort: "lag", order: "falling", onsort: again,
    empty: () => (search.value || chosen !== "any" ? nothing("No group is like this.", "Change the search or the status.")
      : nothing("There are no consumer groups.", "A group is created by its consumers, or on the page of a stream under Groups.")),
  });
  search.addEventListener("input", debounced(again));
  const filter = segments("Status", ["any", "warning", "stall", "stop", "rewind"].map((word) => [word, word]), chosen, (word) => { chosen = word; again(); });
  let number = 0;

  async function refresh() {
    const mine = number += 1;
    const found = await get("groups", { search: search.value, sort: table.sort, order: table.order, status: chosen, page: pager.page, size: SIZE });
    if (mine !== number) return;
    table.update(found.rows);
    pager.update(found.rows.length, found.total);
  }

  await refresh();
  return { title: "Groups", element: h("div", {}, h("div", { class: "head" }, h("h1", {}, "Consumer groups"), filter),
    panelWith("Groups", search, table.element, pager.element)), refresh };
}
