// All servers of this dashboard. The numbers are from each server's last sample, so an unreachable server does not delay the page.

import { get } from "../api.js";
import { h } from "../dom.js";
import { bytes, count, duration, rate, short, things } from "../format.js";
import { nothing, panel, Tiles } from "../parts.js";
import { Table } from "../table.js";

const EVERY_MS = 2000;
const NONE = "–";

const health = (row) => {
  if (row.user === null) return ["", "Not logged in"];
  if (row.problem !== null) return ["stop", row.number ? `No answer for ${duration(row.age_ms)}` : "Connecting"];
  return ["ok", "Connected"];
};
const bad = (row) => (row.totals ? (row.totals.statuses.stop ?? 0) + (row.totals.statuses.stall ?? 0) : null);
const sum = (rows, name) => rows.reduce((total, row) => total + (row.totals?.[name] ?? 0), 0);

const COLUMNS = [
  { id: "name", title: "Server", head: true, class: "name", value: (row) => [row.name, row.path], cell: (row) => h("a", { href: `${row.path || "/"}#/` }, row.name) },
  { id: "state", title: "State", value: (row) => health(row), cell: (row) => {
    const [kind, words] = health(row);
    return kind ? h("span", { class: `status ${kind}`, title: row.problem }, h("i", { "aria-hidden": "true" }), words) : h("a", { href: `${row.path || "/"}#/` }, words);
  } },
  { id: "streams", title: "Streams", right: true, value: (row) => count(row.totals?.streams) },
  { id: "rate", title: "Entries/s", right: true, value: (row) => rate(row.totals?.rate) },
  { id: "lag", title: "Lag", right: true, value: (row) => count(row.totals?.lag, row.totals?.exact) },
  { id: "behind", title: "Behind", right: true, value: (row) => (row.totals ? duration(row.totals.behind_ms ?? 0) : NONE) },
  { id: "pending", title: "Pending", right: true, value: (row) => count(row.totals?.pending) },
  { id: "bad", title: "Stalled groups", right: true, value: (row) => bad(row), cell: (row) => (bad(row) ? h("span", { class: "badge bad" }, count(bad(row))) : count(bad(row))) },
  { id: "memory", title: "Memory", right: true, class: "optional", value: (row) => bytes(row.server?.memory) },
  { id: "product", title: "Product", class: "nowrap optional", value: (row) => row.server?.product ?? "" },
  { id: "rights", title: "Rights", class: "nowrap optional", value: (row) => (row.user === null ? "" : `${row.user}, ${row.changes ? "may change" : "read-only"}`) },
];

export async function servers() {
  const tiles = new Tiles([["servers", "Servers"], ["streams", "Streams"], ["rate", "Entries per second"], ["lag", "Lag"], ["pending", "Pending"], ["bad", "Stalled groups"]]);
  const table = new Table({ label: "Servers", columns: COLUMNS, key: (row) => row.path, empty: () => nothing("There are no servers.") });

  async function refresh() {
    const { rows } = await get("servers");
    const well = rows.filter((row) => row.user !== null && row.problem === null);
    tiles.set("servers", `${well.length} of ${rows.length}`, "connected");
    tiles.set("streams", count(sum(well, "streams")), `${short(sum(well, "entries"))} entries`);
    tiles.set("rate", rate(sum(well, "rate")));
    tiles.set("lag", count(sum(well, "lag"), well.every((row) => row.totals?.exact ?? true)), things(sum(well, "groups"), "group"));
    tiles.set("pending", count(sum(well, "pending")), "not acknowledged");
    tiles.set("bad", count(well.reduce((total, row) => total + (bad(row) ?? 0), 0)), "stopped or stalled");
    table.update(rows);
  }

  await refresh();
  const timer = setInterval(() => { if (!document.hidden) refresh().catch(() => {}); }, EVERY_MS);
  return { title: "All servers", element: h("div", {}, h("h1", {}, "All servers"), tiles.element, panel("Servers", table.element)), leave: () => clearInterval(timer) };
}
