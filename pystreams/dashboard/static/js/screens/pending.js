// Pending entries of a group by age, deliveries and consumer, with actions to acknowledge, claim and give back.

import { get, state } from "../api.js";
import { change } from "../changes.js";
import { h, replace } from "../dom.js";
import { count, duration, things } from "../format.js";
import { bars, button, field, nothing, panel, sampled } from "../parts.js";
import { Table, Walker } from "../table.js";
import { open } from "./entries.js";

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
