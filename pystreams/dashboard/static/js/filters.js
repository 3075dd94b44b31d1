// Saved filters of a stream, in this browser: a name, the order, the range and the condition.

import { HERE } from "./api.js";
import { dialog } from "./changes.js";
import { h, replace } from "./dom.js";
import { button, field, toast } from "./parts.js";

const MOST = 50;

function read(stream) {
  try {
    const found = JSON.parse(localStorage.getItem(`filters${HERE} ${stream}`) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch { return []; }
}

function write(stream, saved) {
  try { localStorage.setItem(`filters${HERE} ${stream}`, JSON.stringify(saved.slice(0, MOST))); } catch { toast("This browser does not store data for this page."); }
}

// A list of saved filters, with buttons to save and delete. `current()` returns the form's filter, `use(filter)` sets it.
export function filters(stream, current, use) {
  const list = h("select", { "aria-label": "Saved filters" });
  const remove = button("Delete filter", () => {
    write(stream, read(stream).filter((filter) => filter.name !== list.value));
    show();
  }, "quiet");
  const element = h("div", { class: "row" });

  function show(name = "") {
    const saved = read(stream);
    replace(list, h("option", { value: "" }, "Saved filters"), saved.map((filter) => h("option", { value: filter.name }, filter.name)));
    list.value = name;
    remove.hidden = !name;
    replace(element, saved.length ? [list, remove] : null, button("Save filter…", save, "quiet"));
  }

  function save() {
    const name = h("input", { name: "name", required: true, maxlength: 60, value: list.value });
    const form = h("form", { class: "form", id: "filter", onsubmit: (event) => {
      event.preventDefault();
      write(stream, [...read(stream).filter((filter) => filter.name !== name.value), { ...current(), name: name.value }]);
      show(name.value);
      box.close();
    } }, field("Name", name, true));
    const box = dialog("Save the filter", [form, h("p", { class: "hint" }, "The filter is saved in this browser, for this stream.")],
      [button("Cancel", () => box.close()), h("button", { type: "submit", form: "filter", class: "button primary" }, "Save")]);
    name.focus();
  }

  list.addEventListener("change", () => {
    remove.hidden = !list.value;
    const filter = read(stream).find((each) => each.name === list.value);
    if (filter) use(filter);
  });
  show();
  return element;
}
