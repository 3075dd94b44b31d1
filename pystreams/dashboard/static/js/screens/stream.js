// One stream: its measures and charts, and tabs for its entries, new entries, groups and changes.

import { get, state } from "../api.js";
import { Chart } from "../charts.js";
import { h } from "../dom.js";
import { bytes, count, momentOfId, rate, seconds } from "../format.js";
import { button, nothing, panel, Tiles } from "../parts.js";
import { Table } from "../table.js";
import { browse } from "./entries.js";
import { exportStream } from "./export.js";
import { groupColumns } from "./groups.js";
import { groupForm, trimForm } from "./forms.js";
import { tail } from "./tail.js";

const TABS = [["", "Entries"], ["tail", "Live"], ["groups", "Groups"], ["trim", "Trim"]];

export async function stream({ keys, query, again }) {
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

  const charts = chosen[0] === "" || chosen[0] === "groups";
  const part = await content(chosen[0], key, query, () => found, again);
  const tabs = h("nav", { class: "tabs", "aria-label": "Parts of the stream" }, TABS.filter(([name]) => name !== "trim" || state.changes).map(([name, title]) =>
    h("a", { href: `#/stream/${key}${name ? `/${name}` : ""}`, "aria-current": name === chosen[0] ? "page" : null },
      title, name === "groups" && found.groups ? ` (${found.groups})` : null)));
  const element = h("div", {},
    h("div", { class: "head" }, h("div", {}, h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Streams")), h("h1", {}, found.name.text || "(no name)")),
      h("div", { class: "row" }, found.dead_letters ? h("a", { class: "button", href: `#/letters/${key}` }, "Dead letters") : null,
        button("Export…", () => exportStream(key)))),
    tiles.element, charts ? h("div", { class: "columns" }, lengths.element, rates.element) : null, tabs, part.element);
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

function content(tab, key, query, found, again) {
  if (tab === "tail") return tail(key);
  if (tab === "groups") return ofStream(key, found, again);
  if (tab === "trim") return { element: trimForm(key, () => found().groups, again) };
  return browse(key, query);
}

function ofStream(key, found, again) {
  const table = new Table({
    label: "Groups of the stream", columns: groupColumns().filter((column) => !["stream", "trend"].includes(column.id)), key: (row) => row.name.key,
    empty: () => nothing("This stream has no consumer group.", state.changes ? "Create one below." : "A group is created by its consumers."),
  });
  const refresh = () => table.update(found().group_rows);
  refresh();
  return { element: h("div", { class: "screen" }, panel("Groups", table.element), state.changes ? groupForm(key, again) : null), refresh };
}
