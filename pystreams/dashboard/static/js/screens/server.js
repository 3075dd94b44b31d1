// The server: memory, persistence, replication, traffic, and refusals of its ACL.

import { get } from "../api.js";
import { Chart } from "../charts.js";
import { h, replace } from "../dom.js";
import { bytes, count, duration, moment, rate, short, things } from "../format.js";
import { facts, nothing, panel, segments, Tiles } from "../parts.js";
import { Table } from "../table.js";

const NAMES = {
  used_memory: ["Used", bytes], used_memory_peak: ["Peak", bytes], used_memory_rss: ["Resident", bytes], maxmemory: ["Limit", (value) => (value === "0" ? "none" : bytes(value))], maxmemory_policy: ["Policy"],
  loading: ["Loading", yes], aof_enabled: ["Append-only file", (value) => (value === "1" ? "on" : "off")], aof_last_write_status: ["Last write"], aof_last_bgrewrite_status: ["Last rewrite"],
  aof_rewrite_in_progress: ["Rewriting now", yes], aof_current_size: ["File size", bytes], rdb_last_save_time: ["Last snapshot", (value) => (Number(value) > 0 ? moment(Number(value) * 1000) : "never")], rdb_changes_since_last_save: ["Changes since", count],
  rdb_bgsave_in_progress: ["Saving now", yes], rdb_last_bgsave_status: ["Last save"],
  role: ["Role"], connected_slaves: ["Replicas", count], master_host: ["Master"], master_port: ["Master port"], master_link_status: ["Link"], master_last_io_seconds_ago: ["Last contact", (value) => duration(value * 1000)],
  master_repl_offset: ["Offset", count], slave_repl_offset: ["Read up to", count], repl_backlog_size: ["Backlog", bytes],
  total_connections_received: ["Connections", count], rejected_connections: ["Refused", count], total_commands_processed: ["Commands", count], instantaneous_ops_per_sec: ["Now", rate],
  total_net_input_bytes: ["Received", bytes], total_net_output_bytes: ["Sent", bytes], total_error_replies: ["Error replies", count], evicted_keys: ["Evicted keys", count], expired_keys: ["Expired keys", count],
};

function yes(value) { return value === "1" ? "yes" : "no"; }

function section(lines) {
  const rows = Object.entries(lines).filter(([, value]) => value !== null).map(([line, value]) => {
    const [label, show = String] = NAMES[line] ?? [line];
    return [label, show === count || show === bytes || show === rate ? show(Number(value)) : show(value)];
  });
  return rows.length ? facts(rows) : h("p", { class: "muted" }, "Not reported by the server.");
}

const REFUSALS = [
  { id: "user", title: "User", head: true, class: "name", value: (row) => row.user },
  { id: "reason", title: "May not", value: (row) => row.reason, cell: (row) => MAY_NOT[row.reason] ?? row.reason },
  { id: "object", title: "What", class: "wrap mono", value: (row) => row.object },
  { id: "count", title: "Times", right: true, value: (row) => count(row.count) },
  { id: "ago", title: "Last", right: true, value: (row) => `${duration(row.ago_ms)} ago` },
  { id: "client", title: "Client", class: "nowrap optional mono", value: (row) => row.client },
];
const MAY_NOT = { command: "call the command", key: "use the key", channel: "use the channel", auth: "log in" };
export async function server() {
  const tiles = new Tiles([["product", "Server", true], ["uptime", "Running for"], ["clients", "Clients"], ["commands", "Commands/s"], ["memory", "Memory"], ["role", "Role"]]);
  const commands = new Chart("Commands per second, without this dashboard", [{ name: "commands", label: "commands", show: short }]);
  const memory = new Chart("Memory", [{ name: "memory", label: "memory", show: bytes }]);
  const parts = Object.fromEntries(["memory", "persistence", "replication", "traffic"].map((name) => [name, h("div", { class: "body" })]));
  let permitted = true;
  const table = new Table({ label: "Refusals", columns: REFUSALS, key: (row) => row.id, empty: () => (permitted ? nothing("Nothing was refused.")
    : nothing("Not permitted.", "The server refuses ACL LOG to this user. ACL SETUSER grants it.")) });
  const nodes = h("span");
  let node = "";

  async function refresh() {
    const [found, seen] = await Promise.all([get("server", { node }), get("overview")]);
    const { facts: known } = found;
    if (found.nodes.length > 1 && !nodes.firstChild) replace(nodes, segments("Node", found.nodes.map((each) => [each, each]), found.node, (each) => { node = each; refresh(); }));
    tiles.set("product", known.product, known.address);
    tiles.set("uptime", duration(known.uptime_seconds === null ? null : known.uptime_seconds * 1000), known.mode ?? "");
    tiles.set("clients", count(known.clients));
    tiles.set("commands", short(known.commands_per_second), `and ${short(known.own_commands_per_second)} by this dashboard`);
    tiles.set("memory", bytes(known.memory), known.maxmemory ? `of ${bytes(known.maxmemory)}` : "no limit");
    tiles.set("role", known.role ?? "–", things(found.replicas.length, "replica"));
    commands.update(seen.curves);
    memory.update(seen.curves);
    for (const [name, part] of Object.entries(parts)) replace(part, section(found.sections[name]), name === "replication" && found.replicas.length ? h("ul", {}, found.replicas.map((line) => h("li", { class: "mono" }, line))) : null);
    permitted = found.refusals !== null;
    table.update(found.refusals ?? []);
  }

  await refresh();
  const element = h("div", {}, h("div", { class: "head" }, h("h1", {}, "Server"), nodes), tiles.element, h("div", { class: "columns" }, commands.element, memory.element),
    h("div", { class: "columns" }, panel("Memory", parts.memory), panel("Persistence", parts.persistence), panel("Replication", parts.replication), panel("Traffic", parts.traffic)),
    panel("Refused by the ACL", table.element));
  return { title: "Server", element, refresh, leave: () => { commands.leave(); memory.leave(); } };
}
