// One stream and its groups, one group with its consumers, all groups, and the forms that change them.

import { get, state } from "./api.js";
import { change } from "./changes.js";
import { Chart } from "./charts.js";
import { button, bytes, count, debounced, field, h, momentOfId, nothing, panel, panelWith, percent, position, rate, replace, seconds, segments, short, status, things, Tiles } from "./dom.js";
import { browse } from "./entries.js";
import { streamLink } from "./overview.js";
import { columns, Pager, Table } from "./table.js";

const SIZE = 50;

function groupColumns() {
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
      : nothing("There are no consumer groups.", "A group is created by its consumers.")),
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

const TABS = [["", "Entries"], ["groups", "Groups"]];

export async function stream({ keys, query }) {
  const [key, tab = ""] = keys;
  let found = await get("stream", { stream: key });
  const tiles = new Tiles([["length", "Length"], ["rate", "Rate"], ["size", "Size"], ["newest", "Newest entry"], ["oldest", "Oldest entry"], ["removed", "Removed"]]);
  const lengths = new Chart("Length", [{ name: "length", label: "length", show: count }]);
  const rates = new Chart("Entries added", [{ name: "rate", label: "added", show: rate }]);
  const chosen = TABS.find(([name]) => name === tab) ?? TABS[0];

  function show() {
    tiles.set("length", count(found.length), found.gaps ? "with gaps: entries were deleted" : `${count(found.added)} ever added`);
    tiles.set("rate", rate(found.rate), `${rate(found.average_rate)} on average`);
    tiles.set("size", bytes(found.bytes), `${bytes(found.average_bytes)} per entry`);
    tiles.set("newest", seconds(found.newest_seconds), found.last_id ? momentOfId(found.last_id) : "no entry");
    tiles.set("oldest", seconds(found.oldest_seconds), found.first_id ? momentOfId(found.first_id) : "no entry");
    tiles.set("removed", count(found.removed), "trimmed or deleted");
    lengths.update(found.curves);
    rates.update(found.curves);
  }
  show();

  const part = chosen[0] === "groups" ? ofStream(() => found) : await browse(key, query);
  const tabs = h("nav", { class: "tabs", "aria-label": "Parts of the stream" }, TABS.map(([name, title]) =>
    h("a", { href: `#/stream/${key}${name ? `/${name}` : ""}`, "aria-current": name === chosen[0] ? "page" : null },
      title, name === "groups" && found.groups ? ` (${found.groups})` : null)));
  const element = h("div", {},
    h("div", { class: "head" }, h("div", {}, h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Streams")), h("h1", {}, found.name.text || "(no name)")),
      found.dead_letters ? h("a", { class: "button", href: `#/letters/${key}` }, "Dead letters") : null),
    tiles.element, h("div", { class: "columns" }, lengths.element, rates.element), tabs, part.element);
  return {
    title: found.name.text,
    element,
    refresh: async (sample) => {
      found = await get("stream", { stream: key });
      show();
      await part.refresh?.(sample);
    },
    leave: () => { lengths.leave(); rates.leave(); part.leave?.(); },
  };
}

function ofStream(found) {
  const table = new Table({
    label: "Groups of the stream", columns: groupColumns().filter((column) => !["stream", "trend"].includes(column.id)), key: (row) => row.name.key,
    empty: () => nothing("This stream has no consumer group.", "A group is created by its consumers."),
  });
  const refresh = () => table.update(found().group_rows);
  refresh();
  return { element: panel("Groups", table.element), refresh };
}

const PRESETS = [["start", "Start"], ["1h", "An hour ago"], ["15m", "15 minutes ago"], ["-100", "Back 100"], ["+1", "Skip one"], ["end", "End"]];

export async function group({ keys: [stream, name], again }) {
  let found = null;
  const given = { stream, group: name };
  const tiles = new Tiles([["status", "Status"], ["lag", "Lag"], ["behind", "Behind"], ["delivered", "Delivered"], ["pending", "Pending"], ["position", "Position", true]]);
  const lags = new Chart("Lag and pending", [{ name: "lag", label: "lag", show: short }, { name: "pending", label: "pending", show: short }]);
  const behind = new Chart("Time behind", [{ name: "behind", label: "behind", show: seconds }]);
  const meter = h("div", { class: "meter", role: "img" });
  const way = h("p", { class: "muted" });
  const note = h("p", { class: "muted" });
  const pager = new Pager(SIZE, () => refresh());
  const table = new Table({
    label: "Consumers", columns: consumerColumns(given, again), key: (row) => row.name.key, sort: "pending", order: "falling", onsort: () => { pager.page = 0; refresh(); },
    empty: () => nothing("The group has no consumers.", "A consumer appears when it first reads as a member of the group."),
  });

  async function refresh() {
    found = await get("group", { ...given, sort: table.sort, order: table.order, page: pager.page, size: SIZE });
    tiles.set("status", status(found.status), found.idle_seconds === null ? "no consumer" : `${things(found.consumers, "consumer")}, last call ${seconds(found.idle_seconds)} ago`);
    tiles.set("lag", count(found.lag, found.lag_exact), found.lag_exact ? "entries to be delivered" : "an estimate");
    tiles.set("behind", seconds(found.lag_seconds), found.lag_seconds ? "first undelivered entry" : "everything is delivered");
    tiles.set("delivered", rate(found.delivered_per_second), progress(found));
    tiles.set("pending", count(found.pending), found.oldest_pending ? `first one idle ${seconds(found.oldest_pending_idle_seconds)}` : "everything is acknowledged");
    tiles.set("position", h("span", { class: "mono", title: found.position }, found.position), momentOfId(found.position) || (found.position === "0-0" ? "before the first entry" : ""));
    const share = found.length ? Math.max(0, Math.min(1, 1 - (found.lag ?? 0) / found.length)) : 1;
    replace(meter, h("i", { css: { width: `${100 * share}%` } }));
    meter.setAttribute("aria-label", `${percent(share)} of the stream is delivered`);
    replace(way, `Delivered: ${percent(share)} of the stream's ${things(found.length, "entry")}. The stream ends at `, h("span", { class: "mono" }, found.end), ".");
    replace(note, found.query ? `A Spark query (${found.query.prefix}, consume=${found.query.consume}) uses this group.` : "");
    note.hidden = !found.query;
    lags.update(found.curves);
    behind.update(found.curves);
    table.update(found.consumer_rows);
    pager.update(found.consumer_rows.length, found.consumers);
  }

  await refresh();
  const element = h("div", {},
    h("div", { class: "head" },
      h("div", {}, h("p", { class: "crumbs" }, h("a", { href: "#/groups" }, "Groups"), " / ", h("a", { href: `#/stream/${stream}` }, found.stream.text || "(no name)")), h("h1", {}, found.name.text || "(no name)")),
      h("div", { class: "row" }, h("a", { class: "button", href: `#/pending/${stream}/${name}` }, "Pending entries"),
        state.changes ? button("Remove…", async () => { if (await change("remove-group", given, { title: "Remove the group", word: "Remove", danger: true })) location.hash = `#/stream/${stream}/groups`; }, "danger") : null)),
    tiles.element, panel("Progress through the stream", h("div", { class: "body" }, meter, way, note)),
    h("div", { class: "columns" }, lags.element, behind.element), panel("Consumers", table.element, pager.element), state.changes ? seek(given, refresh) : null);
  return { title: found.name.text, element, refresh, leave: () => { lags.leave(); behind.leave(); } };
}

function progress(found) {
  if (!found.lag || found.delivered_per_second === null) return "";
  return found.catch_up_seconds === null ? "does not catch up" : `catches up in ${seconds(found.catch_up_seconds)}`;
}

function consumerColumns(given, again) {
  const remove = (row) => button("Remove…", async () => {
    if (await change("remove-consumer", { ...given, consumer: row.name.key }, { title: "Remove the consumer", word: "Remove", danger: true })) again();
  }, "quiet");
  const known = columns("consumers", {
    name: (row) => row.name.text || "(no name)",
    pending: (row, shown) => (row.pending ? h("a", { href: `#/pending/${given.stream}/${given.group}?consumer=${encodeURIComponent(row.name.key)}` }, shown) : shown),
  });
  return state.changes ? [...known, { id: "do", title: "", label: "Change", right: true, value: () => "", cell: remove }] : known;
}

function seek(given, refresh) {
  const to = h("input", { name: "to", required: true, placeholder: "start, end, an ID, a time, 15m, +10, -10", spellcheck: "false" });
  const send = async (event) => {
    event?.preventDefault();
    if (await change("seek", { ...given, to: position(to.value) }, { title: "Move the group", word: "Move it", danger: true })) refresh();
  };
  const presets = PRESETS.map(([value, title]) => button(title, () => { to.value = value; send(); }));
  return panel("Move the group", h("div", { class: "body" }, h("form", { class: "form", onsubmit: send }, field("To", to, true), h("button", { type: "submit", class: "button primary" }, "Preview…")),
    h("div", { class: "row" }, presets), h("p", { class: "hint" }, "The next entry that the group reads is the first entry at or after the position. Pending entries stay pending.")));
}
