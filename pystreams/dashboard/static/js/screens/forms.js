// Forms for changes of a stream: create a group, trim. Each form shows a plan before it changes anything.

import { change } from "../changes.js";
import { h } from "../dom.js";
import { position } from "../format.js";
import { field, panel } from "../parts.js";

export function groupForm(stream, again) {
  const group = h("input", { name: "group", required: true, spellcheck: "false" });
  const at = h("input", { name: "at", value: "start", spellcheck: "false" });
  const send = async (event) => {
    event.preventDefault();
    if (await change("create-group", { stream, group: encodeURIComponent(group.value), at: position(at.value) }, { title: "Create a group", word: "Create" })) again();
  };
  return panel("Create a group", h("form", { class: "body form", onsubmit: send }, field("Name", group), field("At (start, end, an ID, a time, 15m)", at),
    h("button", { type: "submit", class: "button" }, "Create…")));
}

export function trimForm(stream, groups, again) {
  const by = h("select", { name: "by" }, h("option", { value: "acked" }, "entries acknowledged by all groups"),
    h("option", { value: "maxlen" }, "all but the newest entries"), h("option", { value: "older" }, "entries older than"));
  const value = h("input", { name: "value", placeholder: "1000000 or 7d", spellcheck: "false" });
  const shown = field("Number, or age", value);
  const fit = () => { shown.hidden = by.value === "acked"; value.placeholder = by.value === "maxlen" ? "1000000" : "7d"; };
  by.addEventListener("change", fit);
  fit();
  const send = async (event) => {
    event.preventDefault();
    const given = { stream, by: by.value };
    if (by.value === "maxlen") given.maxlen = value.value;
    if (by.value === "older") given.older = value.value;
    if (await change("trim", given, { title: "Trim the stream", word: "Remove entries", danger: true })) again();
  };
  return panel("Trim", h("form", { class: "body form", onsubmit: send }, field("Remove", by), shown, h("button", { type: "submit", class: "button danger" }, "Trim…")));
}
