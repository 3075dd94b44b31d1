// Creation of elements, formatting of numbers and times ("–" means unknown), and parts that screens share.
// Strings always become text nodes: no code of the dashboard writes HTML.

const SVG = "http://www.w3.org/2000/svg";

// h("a", {class: "name", href: "#/", onclick: f, css: {width: "3%"}}, child, ...). Children: nodes, strings, arrays, null.
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

function s(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "css") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "value") element.value = value;
    else if (name === "dataset") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

const identity = (control) => control.getAttribute("href") ?? control.getAttribute("aria-label") ?? control.getAttribute("name") ?? control.textContent;

// Replaces the children of an element. The focus moves from a link or control to its successor, so that periodic updates
// do not disturb keyboard users.
export function replace(element, ...children) {
  const fragment = append(document.createDocumentFragment(), children);
  const focused = document.activeElement;
  const wanted = focused !== element && element.contains(focused) ? identity(focused) : null;
  element.replaceChildren(fragment);
  if (wanted !== null) {
    [...element.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].find((control) => identity(control) === wanted)?.focus({ preventScroll: true });
  }
  return element;
}

// Replaces the only child of an element, unless the new child is equal: a click that has started on the old child would
// be lost.
function replaceUnlessEqual(element, child) {
  if (!element.firstChild?.isEqualNode(child)) replace(element, child);
}

const seen = new WeakMap();

// Replaces the children of an element only if their value has changed, since a click that has started on the old
// children would be lost.
export function replaceIfChanged(element, value, make) {
  const words = JSON.stringify(value);
  if (seen.get(element) === words) return;
  seen.set(element, words);
  replace(element, make());
}

// Sets the text of an element only if it has changed, so that a selection is kept.
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

const ICONS = {
  overview: "M2 9h5V2H2zM9 14h5V7H9zM2 14h5v-3H2zM9 2v3h5V2z",
  groups: "M2 4h12M2 8h8M2 12h5",
  letters: "M2 4h12v9H2zM2 4l6 5 6-5",
  queries: "M9 1L3 9h4l-1 6 6-8H8z",
  audit: "M8 4v4l3 2M8 1.5a6.5 6.5 0 100 13 6.5 6.5 0 000-13z",
};

export function icon(name) {
  const path = s("path", { d: ICONS[name], fill: "none", stroke: "currentColor", "stroke-width": 1.5,
    "stroke-linecap": "round", "stroke-linejoin": "round" });
  return s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, path);
}

const COUNT = new Intl.NumberFormat("en-US");
const COMPACT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const NONE = "–";

const unknown = (value) => value === null || value === undefined || Number.isNaN(value);

export function count(value, exact = true) {
  return unknown(value) ? NONE : `${exact ? "" : "~"}${COUNT.format(Math.round(value))}`;
}

// Abbreviates a number.
export function short(value) {
  if (unknown(value)) return NONE;
  return Math.abs(value) < 100000 ? COUNT.format(Math.round(value * 10) / 10) : COMPACT.format(value);
}

export function bytes(value) {
  if (unknown(value)) return NONE;
  if (value < 1024) return `${Math.round(value)} B`;
  let amount = value;
  for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
    amount /= 1024;
    if (amount < 1024 || unit === "TiB") return `${amount < 10 ? amount.toFixed(1) : Math.round(amount)} ${unit}`;
  }
  return NONE;
}

export function rate(value) {
  if (unknown(value)) return NONE;
  if (value >= 10 || value === 0) return `${COUNT.format(Math.round(value))}/s`;
  return value >= 0.01 ? `${value.toPrecision(2)}/s` : `${(value * 3600).toPrecision(2)}/h`;
}

const UNITS = [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]];

export function duration(ms) {
  if (unknown(ms)) return NONE;
  if (ms < 1) return "0s";
  if (ms < 10000) return `${(ms / 1000).toFixed(1)}s`;
  const seconds = Math.round(ms / 1000);
  for (const [size, unit, smaller, small] of UNITS) {
    if (seconds >= size) {
      const rest = Math.floor((seconds % size) / smaller);
      return `${Math.floor(seconds / size)}${unit}${rest ? ` ${rest}${small}` : ""}`;
    }
  }
  return `${seconds}s`;
}

export function seconds(value) {
  return duration(unknown(value) ? null : value * 1000);
}

const two = (value) => String(value).padStart(2, "0");

export function clock(ms, seconds = true) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? `:${two(at.getSeconds())}` : ""}`;
}

// Returns milliseconds since 1970 as date and time; empty if they are not a number, or after the year 9999.
export function moment(ms) {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime()) || ms > 253402300799999) return "";
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

// Returns a position that a user typed, as the server accepts it. Dates and times without a zone are in the browser's zone, and are converted to UTC.
export function position(text) {
  const given = text.trim();
  if (!/^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?$/.test(given)) return given;
  const at = new Date(given.length === 10 ? `${given}T00:00` : given.replace(" ", "T"));
  return Number.isNaN(at.getTime()) ? given : at.toISOString();
}

// Returns the time of an ID; empty for 0-0, which is the start of a stream, not a time.
export function momentOfId(id) {
  return id === "0-0" ? "" : moment(Number(id.split("-")[0]));
}

export function percent(share) {
  return unknown(share) ? NONE : `${share >= 0.1 || share === 0 ? Math.round(share * 100) : (share * 100).toFixed(1)}%`;
}

export function things(value, noun) {
  if (value === 1) return `1 ${noun}`;
  return `${count(value)} ${noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;
}

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
