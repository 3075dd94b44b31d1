// One value of an entry: its text, of limited height; copied as it is; as a tree if it is JSON.

import { h, replace } from "./dom.js";
import { things } from "./format.js";
import { button, segments, toast } from "./parts.js";

const LONG = 1000; // characters
const CHILDREN = 100; // of a node that are shown at a time

// A number of JSON as it was written: large ones would lose digits.
class Written {
  constructor(source) { this.source = source; }
}

// The object or array that a text is; null if it is something else.
function parsed(source) {
  if (!/^\s*[[{]/.test(source ?? "")) return null;
  try {
    return JSON.parse(source, (_, value, context) => (typeof value === "number" ? new Written(context?.source ?? String(value)) : value));
  } catch { return null; }
}

function node(name, value, opened) {
  const label = name === null ? null : h("span", { class: "muted" }, `${name}: `);
  if (value instanceof Written) return h("div", {}, label, value.source);
  if (value === null || typeof value !== "object") return h("div", {}, label, JSON.stringify(value));
  const pairs = Object.entries(value);
  const inner = h("div", { class: "inner" });
  let shown = 0;
  const more = () => {
    const page = pairs.slice(shown, shown + CHILDREN);
    shown += page.length;
    inner.append(...page.map(([key, child]) => node(key, child, false)));
    if (shown < pairs.length) {
      const next = button(`Show more (${pairs.length - shown} left)`, () => { next.remove(); more(); }, "quiet");
      inner.append(next);
    }
  };
  const fill = () => { if (!shown) more(); };
  if (opened) fill();
  return h("details", { open: opened, ontoggle: fill }, h("summary", {}, label, Array.isArray(value) ? `[${things(pairs.length, "element")}]` : `{${things(pairs.length, "field")}}`), inner);
}

// `shown`: the value with escapes, perhaps cut; `source`: the whole of it as it is, null if it is cut or no text.
export function valueView(name, shown, source) {
  const place = h("div", {});
  const json = parsed(source);
  const plain = () => replace(place, h("div", { class: `pre${shown.length > LONG ? " clamped" : ""}`,
    ...(shown.length > LONG ? { tabindex: "0", role: "region", "aria-label": `Value of ${name}` } : {}) }, shown));
  const tree = () => replace(place, h("div", { class: "tree" }, node(null, json, true)));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(source ?? shown);
      toast(source === null ? "Copied the shown text." : "Copied.");
    } catch { toast("This browser does not let the page copy. Select the text instead."); }
  };
  plain();
  return h("div", { class: "value" }, h("div", { class: "row" },
    h("button", { type: "button", class: "button quiet", "aria-label": `Copy ${name}`, onclick: copy }, source === null ? "Copy what is shown" : "Copy"),
    json === null ? null : segments(`View of ${name}`, [["text", "Text"], ["tree", "JSON"]], "text", (kind) => (kind === "tree" ? tree() : plain()))), place);
}
