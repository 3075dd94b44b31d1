// Dead letters: the streams that contain them, their reasons and origins, and actions to replay and remove them.

import { get, state } from "../api.js";
import { change } from "../changes.js";
import { h, replace, replaceIfChanged } from "../dom.js";
import { count, momentOfId, seconds, things } from "../format.js";
import { bars, button, entryFields, nothing, panel, sampled } from "../parts.js";
import { Table, Walker } from "../table.js";
import { open } from "./entries.js";

const SIZE = 50;

export function letters(context) {
  return context.keys[0] ? ofStream(context.keys[0]) : holders();
}

async function holders() {
  const table = new Table({
    label: "Streams of dead letters", key: (row) => row.name.key, columns: [
      { id: "name", title: "Stream", head: true, class: "name", value: (row) => row.name, cell: (row) => h("a", { href: `#/letters/${row.name.key}` }, row.name.text) },
      { id: "length", title: "Letters", right: true, value: (row) => count(row.length) },
      { id: "newest", title: "Newest", right: true, value: (row) => seconds(row.newest_seconds) },
    ],
    empty: () => nothing("There are no dead letters.", "A query with consume=shared moves entries that it cannot process to the stream of its option ", h("code", {}, "deadLetterStream"), "."),
  });
  const refresh = async () => table.update((await get("letters")).rows);
  await refresh();
  return { title: "Dead letters", element: h("div", {}, h("h1", {}, "Dead letters"), panel("Streams with dead letters", table.element)), refresh };
}

async function ofStream(stream) {
  const chosen = new Set();
  let reason = "";
  let origin = null;
  const reasons = h("div", { class: "body" });
  const origins = h("div", { class: "body" });
  const filter = h("span", { class: "row" });
  const title = h("h2", {}, "Letters");
  const picked = h("span", { class: "muted" });
  const walker = new Walker(() => load());
  const table = new Table({
    label: "Dead letters", key: (row) => row.id, columns: [
      ...(state.changes ? [{ id: "pick", title: "", label: "Chosen", class: "tight", value: (row) => [row.id, chosen.has(row.id)], cell: (row) =>
        h("input", { type: "checkbox", checked: chosen.has(row.id), "aria-label": `Choose ${row.id}`, onchange: (event) => { if (event.target.checked) chosen.add(row.id); else chosen.delete(row.id); marks(); } }) }] : []),
      { id: "time", title: "Given up", head: true, class: "nowrap", value: (row) => row.id, cell: (row) => h("button", { type: "button", class: "link", title: row.id, onclick: () => open(stream, row.id) }, momentOfId(row.id)) },
      { id: "stream", title: "From", class: "name", value: (row) => row.stream, cell: (row) => h("a", { href: `#/stream/${row.stream.key}` }, row.stream.text) },
      { id: "reason", title: "Reason", class: "wrap", value: (row) => row.reason },
      { id: "deliveries", title: "Deliveries", right: true, class: "optional", value: (row) => row.deliveries, cell: (row) => count(row.deliveries) },
      { id: "fields", title: "Fields", class: "wrap optional", value: (row) => row.fields, cell: (row) => entryFields(row.fields, 0) },
    ],
    empty: () => nothing("No dead letter matches.", "Clear the filter, or choose another stream."),
  });

  function marks() {
    replace(picked, chosen.size ? `${count(chosen.size)} chosen` : reason || origin ? "All that match" : "All");
    replace(filter, reason ? h("button", { type: "button", class: "button", onclick: () => narrow("", origin) }, `Reason: ${reason} ×`) : null,
      origin ? h("button", { type: "button", class: "button", onclick: () => narrow(reason, null) }, `From: ${origin.text} ×`) : null);
  }

  function narrow(why, from) {
    reason = why;
    origin = from;
    chosen.clear();
    walker.reset();
    marks();
    load();
  }

  async function overview() {
    const found = await get("letters/overview", { stream });
    replace(title, things(found.length, found.sample < found.length ? "entry" : "letter"));
    const partly = () => sampled(found.looked, found.length, "the last");
    replaceIfChanged(reasons, [found.reasons, found.looked, found.length], () => [found.reasons.length ? bars(found.reasons.map(([label, value]) => [label, value, "", () => narrow(label, origin)]), count) : h("p", { class: "muted" }, "No letters."), partly()]);
    replaceIfChanged(origins, [found.origins, found.looked, found.length], () => [found.origins.length ? bars(found.origins.map((each) => [each.name.text, each.count, "", () => narrow(reason, each.name)]), count) : h("p", { class: "muted" }, "No letters."), partly()]);
  }

  async function load() {
    const found = await get("letters/page", { stream, reason, origin: origin?.key, at: walker.start, size: SIZE });
    table.update(found.rows);
    walker.update(things(found.rows.length, "letter"), found.next);
  }

  async function act(action, wanted) {
    const which = chosen.size ? { ids: [...chosen] } : reason || origin ? { ...(reason ? { reason } : {}), ...(origin ? { origin: origin.key } : {}) } : { all: true };
    if (await change(action, { stream, ...which }, wanted)) {
      chosen.clear();
      walker.reset();
      marks();
      await Promise.all([overview(), load()]);
    }
  }

  marks();
  await Promise.all([overview(), load()]);
  const name = decodeURIComponent(stream);
  const actions = state.changes ? h("div", { class: "row" }, picked, button("Replay…", () => act("replay", { title: "Replay dead letters", word: "Replay" }), "primary"),
    button("Remove…", () => act("purge", { title: "Remove dead letters", word: "Remove", danger: true }), "danger")) : null;
  const element = h("div", {}, h("div", {}, h("p", { class: "crumbs" }, h("a", { href: "#/letters" }, "Dead letters")), h("h1", {}, name)),
    h("div", { class: "columns" }, panel("By reason", reasons), panel("By stream", origins)),
    h("section", { class: "panel" }, h("div", { class: "title" }, h("div", { class: "row" }, title, filter), actions), table.element, walker.element));
  return { title: "Dead letters", element, refresh: () => (chosen.size || walker.starts.length > 1 ? overview() : Promise.all([overview(), load()])) };
}
