// Parts shared by screens: panels, tiles, status, sparklines, bars, empty states.

import { h, replace, replaceUnlessEqual, s, text } from "./dom.js";
import { count, things } from "./format.js";

export function panel(title, ...children) {
  const heading = title instanceof Node ? title : h("h2", {}, title);
  return h("section", { class: "panel" }, h("div", { class: "title" }, heading), children);
}

export function panelWith(title, right, ...children) {
  return h("section", { class: "panel" }, h("div", { class: "title" }, h("h2", {}, title), right), children);
}

const MEANINGS = {
  ok: "No entry has been pending for more than a minute, and the group advances or keeps up.",
  warning: "The lag grew at every sample, and no worse status applies.",
  stall: "Consumers call, but for more than a minute entries stay pending or the position does not change.",
  stop: "Entries have waited for more than a minute, and no consumer has called for a minute.",
  rewind: "The position moved back.",
};

export function status(word) {
  if (!word) return h("span", { class: "muted" }, "–");
  return h("span", { class: `status ${word}`, title: MEANINGS[word] }, h("i", { "aria-hidden": "true" }), word);
}

// Tiles: new Tiles([["streams", "Streams"], ...]).set("streams", "12", "a note").
export class Tiles {
  constructor(kinds) {
    this.cells = new Map();
    this.element = h("dl", { class: "tiles" });
    for (const [name, label, small] of kinds) {
      const value = h("dd", { class: small ? "small" : null }, "–");
      const note = h("dd", { class: "note" });
      note.className = "note";
      this.cells.set(name, { value, note });
      this.element.append(h("div", { class: "tile" }, h("dt", {}, label), value, note));
    }
  }

  set(name, value, note = "") {
    const cell = this.cells.get(name);
    if (value instanceof Node) replaceUnlessEqual(cell.value, value); else { text(cell.value, value); cell.value.title = value; }
    if (note instanceof Node) { cell.note.title = ""; replaceUnlessEqual(cell.note, note); } else { text(cell.note, note); cell.note.title = note; }
  }
}

export function spark(values, label) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return h("span", { class: "muted" }, "");
  const high = Math.max(...known, 1e-9);
  const step = 84 / (values.length - 1);
  let path = "";
  let drawing = false;
  values.forEach((value, at) => {
    if (value === null) { drawing = false; return; }
    path += `${drawing ? "L" : "M"}${(at * step).toFixed(1)} ${(21 - (20 * value) / high).toFixed(1)}`;
    drawing = true;
  });
  return s("svg", { class: "spark", viewBox: "0 0 84 22", role: "img", "aria-label": label }, s("path", { d: path }));
}

// Horizontal bars with labels and counts; rows: [label, count, class, onclick].
export function bars(rows, show) {
  const high = Math.max(1, ...rows.map((row) => row[1]));
  return h("div", { class: "bars", role: "list" }, rows.map(([label, value, kind, link]) => h("div", { class: "item", role: "listitem", "aria-label": typeof label === "string" ? `${label}: ${show(value)}` : null },
    h("span", { class: "label", title: typeof label === "string" ? label : null }, link ? h("button", { type: "button", class: "link", onclick: link }, label) : label),
    h("span", { class: `bar ${kind ?? ""}`, "aria-hidden": "true" }, h("i", { css: { width: `${(100 * value) / high}%` } })),
    h("span", { class: "count" }, show(value)))));
}

// Returns a note for histograms of a sample; null if the sample has all entries.
export function sampled(sample, total, which = "a sample of") {
  return sample < total ? h("p", { class: "hint" }, `Based on ${which} ${count(sample)} of ${things(total, "entry")}.`) : null;
}

export function nothing(title, ...advice) {
  return [h("strong", {}, title), h("span", {}, advice)];
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter((pair) => pair[1] !== null && pair[1] !== undefined)
    .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

export function field(label, control, grow = false) {
  return h("label", { class: `field${grow ? " grow" : ""}` }, label, control);
}

export function button(label, onclick, kind = "") {
  return h("button", { type: "button", class: `button ${kind}`, onclick }, label);
}

export function segments(label, choices, chosen, onchoose) {
  const buttons = choices.map(([value, title]) => h("button", { type: "button", "aria-pressed": String(value === chosen),
    onclick: (event) => {
      for (const each of buttons) each.setAttribute("aria-pressed", String(each === event.currentTarget));
      onchoose(value);
    } }, title));
  return h("div", { class: "segments", role: "group", "aria-label": label }, buttons);
}

let toasting = null;
export function toast(message) {
  const toasts = document.getElementById("toasts");
  replace(toasts, h("div", { class: "toast" }, message));
  clearTimeout(toasting);
  toasting = setTimeout(() => toasts.replaceChildren(), 6000);
}

// Debounces a function: calls it with the last arguments, `pause` milliseconds after the last of several calls.
export function debounced(callback, pause = 200) {
  let timer = null;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => callback(...given), pause); };
}

export function entryFields(fields, more) {
  return h("div", { class: "fields" }, fields.map(([name, value]) => h("span", {}, h("b", {}, name), value)),
    more ? h("span", { class: "muted" }, `and ${more} more`) : null);
}
