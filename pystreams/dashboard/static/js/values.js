// One value of an entry: its text in a box of limited height, a copy button, and a tree if the value is JSON or was decoded.

import { h, replace } from "./dom.js";
import { things } from "./format.js";
import { button, segments, toast } from "./parts.js";

const LONG = 1000; // number of characters above which a value has a limited height
const CHILDREN = 100; // maximum number of a node's children shown at a time

// A JSON number with its original text, since large numbers would lose digits.
class Written {
  constructor(source) { this.source = source; }
}

// Returns the object or array in a JSON text; null for anything else.
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

const FORMATS = { avro: "Avro", protobuf: "Protobuf", msgpack: "MessagePack" };

// `shown`: the value with escapes, possibly truncated; `source`: the complete text, null if truncated or not text;
// `decoded`: {format, name, schema_id, json} for a value decoded from a format other than JSON, {problem} if decoding failed,
// null for other values.
export function valueView(name, shown, source, decoded = null) {
  const view = h("div", { class: "value" });
  const json = parsed(decoded?.json ?? source);
  const plain = () => replace(view, h("div", { class: `pre${shown.length > LONG ? " clamped" : ""}`,
    ...(shown.length > LONG ? { tabindex: "0", role: "region", "aria-label": `Value of ${name}` } : {}) }, shown));
  const tree = () => replace(view, h("div", { class: "tree" }, node(null, json, true)));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(decoded?.json ?? source ?? shown);
      toast(whole ? "Copied." : "Copied the visible part.");
    } catch { toast("This browser does not allow copying. Select the text instead."); }
  };
  const whole = source !== null || decoded?.json;
  const format = decoded?.json ? [FORMATS[decoded.format] ?? decoded.format, decoded.name, decoded.schema_id === null ? null : `schema ${decoded.schema_id}`].filter(Boolean).join(", ") : null;
  const trees = [["text", decoded?.json ? "Bytes" : "Text"], ["tree", decoded?.json ? "Decoded" : "JSON"]];
  if (decoded?.json && json !== null) tree(); else plain();
  return { view, tools: h("div", { class: "row" },
    h("button", { type: "button", class: "button quiet", "aria-label": `Copy ${name}`, onclick: copy }, whole ? "Copy" : "Copy the visible part"),
    format ? h("span", { class: "badge" }, format) : null, decoded?.problem ? h("span", { class: "hint" }, decoded.problem) : null,
    json === null ? null : segments(`View of ${name}`, trees, decoded?.json ? "tree" : "text", (kind) => (kind === "tree" ? tree() : plain()))) };
}
