// Creation of elements. Strings always become text nodes: no code of the dashboard writes HTML.

const SVG = "http://www.w3.org/2000/svg";

// h("a", {class: "name", href: "#/", onclick: f, css: {width: "3%"}}, child, ...). Children: nodes, strings, arrays, null.
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

export function s(tag, props = {}, ...children) {
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

export function append(element, children) {
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
export function replaceUnlessEqual(element, child) {
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
  servers: "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z",
  audit: "M8 4v4l3 2M8 1.5a6.5 6.5 0 100 13 6.5 6.5 0 000-13z",
  server: "M2 3h12v4H2zM2 9h12v4H2zM4.5 5h.01M4.5 11h.01",
  sun: "M8 5a3 3 0 100 6 3 3 0 000-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  moon: "M13.5 9.5A6 6 0 016.5 2.5a6 6 0 107 7z",
};

export function icon(name) {
  const path = s("path", { d: ICONS[name], fill: "none", stroke: "currentColor", "stroke-width": 1.5,
    "stroke-linecap": "round", "stroke-linejoin": "round" });
  return s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, path);
}
