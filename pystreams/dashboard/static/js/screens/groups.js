// All groups, by default the largest lag first.

import { get } from "../api.js";
import { columns } from "../columns.js";
import { h } from "../dom.js";
import { debounced, nothing, panelWith, segments } from "../parts.js";
import { Pager, Table } from "../table.js";
import { streamLink } from "./overview.js";

const SIZE = 50;

export function groupColumns() {
  return columns("groups", {
    name: (row) => h("a", { href: `#/group/${row.stream.key}/${row.name.key}`, title: row.name.text }, row.name.text || "(no name)"),
    stream: (row) => streamLink(row.stream),
    pending: (row, shown) => (row.pending ? h("a", { href: `#/pending/${row.stream.key}/${row.name.key}` }, shown) : shown),
  });
}

export async function groups({ query }) {
  let chosen = query.get("status") ?? "any";
  const search = h("input", { type: "search", placeholder: "Search groups and streams", "aria-label": "Search groups and streams", value: query.get("search") ?? "" });
  const pager = new Pager(SIZE, () => refresh());
  const again = () => { pager.page = 0; refresh(); };
  const table = new Table({
    label: "Consumer groups", columns: groupColumns(), key: (row) => `${row.stream.key} ${row.name.key}`, sort: query.get("sort") ?? "lag", order: "falling", onsort: again,
    empty: () => (search.value || chosen !== "any" ? nothing("No group matches.", "Change the search or the status.")
      : nothing("There are no consumer groups.", "A group is created by its consumers, or on the page of a stream under Groups.")),
  });
  search.addEventListener("input", debounced(again));
  const filter = segments("Status", [["any", "any"], ["attention", "not ok"], ...["warning", "stall", "stop", "rewind"].map((word) => [word, word])], chosen, (word) => { chosen = word; again(); });
  let number = 0;

  async function refresh() {
    const request = number += 1;
    const found = await get("groups", { search: search.value, sort: table.sort, order: table.order, status: chosen, page: pager.page, size: SIZE });
    if (request !== number) return;
    table.update(found.rows);
    pager.update(found.rows.length, found.total);
  }

  await refresh();
  return { title: "Groups", element: h("div", {}, h("div", { class: "head" }, h("h1", {}, "Consumer groups"), filter),
    panelWith("Groups", search, table.element, pager.element)), refresh };
}
