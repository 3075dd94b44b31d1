// Pending entries of a group by age, deliveries and consumer, and dead letters by reason and stream, with actions on both.

import { get, state } from "./api.js";
import { change } from "./changes.js";
import { bars, button, count, duration, entryFields, field, h, momentOfId, nothing, panel, replace, replaceIfChanged, sampled, seconds, things } from "./dom.js";
import { open } from "./entries.js";
import { Table, Walker } from "./table.js";

const SIZE = 50;
const OLD = { "1–10 min": "warning", "10–60 min": "warning", "1–24 h": "bad", "> 1 day": "bad" };
const OFTEN = { "3–4": "warning", "5–9": "bad", "10–19": "bad", "20 +": "bad" };

export async function pending({ keys: [stream, group], query }) {
  const given = { stream, group };
  const chosen = new Set();
  const idle = h("input", { name: "idle", placeholder: "10m", size: 8, spellcheck: "false", value: query.get("idle") ?? "" });
  const deliveries = h("input", { name: "deliveries", inputmode: "numeric", placeholder: "2", size: 6, value: query.get("deliveries") ?? "" });
  const consumer = h("select", { name: "consumer" }, h("option", { value: "" }, "any"));
  const problem = h("p", { class: "error", role: "alert", hidden: true });
  const ages = h("div", { class: "body" });
  const often = h("div", { class: "body" });
  const whose = h("div", { class: "body" });
  const title = h("h2", {}, "Entries");
  const walker = new Walker(() => load());
  const picked = h("span", { class: "muted" });
  const to = h("input", { name: "to", placeholder: "consumer", "aria-label": "Claim for", size: 14, spellcheck: "false" });

  const filters = () => ({ idle: idle.value.trim(), deliveries: deliveries.value.trim(), consumer: consumer.value });
  const table = new Table({
    label: "Pending entries", key: (row) => row.id, columns: [
      ...(state.changes ? [{ id: "pick", title: "", label: "Chosen", class: "tight", value: (row) => [row.id, chosen.has(row.id)], cell: (row) =>
        h("input", { type: "checkbox", checked: chosen.has(row.id), "aria-label": `Choose ${row.id}`, onchange: (event) => { if (event.target.checked) chosen.add(row.id); else chosen.delete(row.id); marks(); } }) }] : []),
      { id: "id", title: "ID", head: true, value: (row) => row.id, cell: (row) => h("button", { type: "button", class: "link entry-id", title: "Show the entry", onclick: () => open(stream, row.id, [["Consumer", row.consumer.text || "–"], ["Idle", duration(row.idle_ms)], ["Deliveries", count(row.deliveries)]]) }, row.id) },
      { id: "consumer", title: "Consumer", class: "name", value: (row) => row.consumer, cell: (row) => row.consumer.text || h("span", { class: "muted" }, row.idle_ms === null ? "none" : "(no name)") },
      { id: "idle", title: "Idle", right: true, help: "Time since the last delivery", value: (row) => row.idle_ms, cell: (row) => (row.idle_ms === null ? h("span", { class: "muted", title: "Given back: the next claim by any consumer includes this entry." }, "given back") : duration(row.idle_ms)) },
      { id: "deliveries", title: "Deliveries", right: true, value: (row) => row.deliveries, cell: (row) => (row.deliveries >= 5 ? h("span", { class: "badge bad" }, count(row.deliveries)) : count(row.deliveries)) },
    ],
    empty: () => nothing("No pending entry matches.", "The group has acknowledged its entries, or the filter is too narrow."),
  });

  function marks() {
    replace(picked, chosen.size ? `${count(chosen.size)} chosen` : "All that match the filter");
  }

  async function overview() {
    const found = await get("pending", given);
    replace(title, things(found.total, "pending entry"));
    const partly = () => sampled(found.sample, found.total);
    replace(ages, bars(found.ages.map(([label, value]) => [label, value, OLD[label]]), count), partly());
    replace(often, bars(found.deliveries.map(([label, value]) => [label, value, OFTEN[label]]), count), partly());
    const owners = [...(found.given_back ? [["given back", found.given_back]] : []), ...found.consumers.slice(0, 8).map((each) => [each.name.text || "(no name)", each.pending])];
    replace(whose, owners.length ? bars(owners, count) : h("p", { class: "muted" }, "No pending entries."));
    const now = consumer.value || (query.get("consumer") ?? "");
    replace(consumer, h("option", { value: "" }, "any"), found.consumers.map((each) => h("option", { value: each.name.key }, each.name.text)));
    consumer.value = now;
  }

  let number = 0;
  async function load() {
    const request = number += 1;
    try {
      const found = await get("pending/entries", { ...given, ...filters(), after: walker.start, size: SIZE });
      if (request !== number) return;
      problem.hidden = true;
      table.update(found.rows);
      walker.update(things(found.rows.length, "entry"), found.next);
    } catch (failure) {
      if (request !== number) return;
      replace(problem, failure.message);
      problem.hidden = false;
    }
  }

  async function act(action, wanted, more = {}) {
    const which = chosen.size ? { ids: [...chosen] } : Object.fromEntries(Object.entries(filters()).filter(([, value]) => value));
    const all = Object.keys(which).length === 0 ? { all: true } : {};
    if (await change(action, { ...given, ...which, ...all, ...more }, wanted)) {
      chosen.clear();
      marks();
      await Promise.all([overview(), load()]);
    }
  }

  const claim = () => {
    if (!to.value) { to.focus(); return; }
    act("claim", { title: "Claim entries", word: "Claim" }, { to: encodeURIComponent(to.value) });
  };
  const actions = state.changes ? h("div", { class: "row" }, picked, button("Acknowledge…", () => act("ack", { title: "Acknowledge entries", word: "Acknowledge", danger: true })),
    button("Give back…", () => act("nack", { title: "Give entries back", word: "Give back" })), to, button("Claim…", claim)) : null;
  const form = h("form", { class: "form", onsubmit: (event) => { event.preventDefault(); walker.reset(); load(); } },
    field("Idle for at least", idle), field("Delivered at least", deliveries), field("Consumer", consumer), h("button", { type: "submit", class: "button" }, "Filter"));
  marks();
  await overview();
  await load();
  const facts = await get("group", { ...given, size: 1 });
  const element = h("div", {},
    h("div", {}, h("p", { class: "crumbs" }, h("a", { href: `#/stream/${stream}` }, facts.stream.text || "(no name)"), " / ", h("a", { href: `#/group/${stream}/${group}` }, facts.name.text || "(no name)")), h("h1", {}, "Pending entries")),
    h("div", { class: "columns three" }, panel("Idle for", ages), panel("Deliveries", often), panel("Consumers", whose)),
    h("section", { class: "panel" }, h("div", { class: "title" }, title, actions), h("div", { class: "body" }, form, problem), table.element, walker.element));
  const quiet = () => !chosen.size && walker.starts.length === 1 && problem.hidden && !element.contains(document.activeElement?.closest("select"));
  return { title: "Pending entries", element, refresh: () => (quiet() ? Promise.all([overview(), load()]) : overview()) };
}

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
