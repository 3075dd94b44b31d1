// Export of a range of a stream: the server writes a file within its limits, and the browser saves it.

import { download } from "../api.js";
import { dialog } from "../changes.js";
import { h, replace } from "../dom.js";
import { bytes, position } from "../format.js";
import { button, field, toast } from "../parts.js";

const FORMATS = [["parquet", "Parquet"], ["jsonl", "JSON lines"], ["csv", "CSV"]];
const KEPT_MS = 60000; // time for the browser to finish copying the file

// Returns the start of a day in the browser's time zone; with `later` 1, the start of the next day.
function midnight(day, later) {
  const at = new Date(`${day}T00:00:00`);
  at.setDate(at.getDate() + later);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString().replace(".000Z", "Z");
}

function save(file) {
  const url = URL.createObjectURL(file);
  h("a", { href: url, download: file.name }).click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}

export function exportStream(stream) {
  const day = h("input", { name: "day", type: "date" });
  const from = h("input", { name: "from", placeholder: "start", spellcheck: "false" });
  const before = h("input", { name: "before", placeholder: "end", spellcheck: "false" });
  const format = h("select", { name: "format" }, FORMATS.map(([value, title]) => h("option", { value }, title)));
  day.addEventListener("input", () => { from.value = midnight(day.value, 0); before.value = midnight(day.value, 1); });
  const status = h("p", { class: "muted", role: "status" });
  const problem = h("p", { class: "error", role: "alert", hidden: true });
  const leaving = new AbortController();
  const send = async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    go.disabled = true;
    problem.hidden = true;
    replace(status, "Writing the file…");
    try {
      const given = { stream, from: position(from.value), before: position(before.value), format: format.value };
      const file = await download("export", given, leaving.signal);
      save(file);
      toast(`Exported ${file.name}, ${bytes(file.size)}.`);
      element.close();
    } catch (failure) {
      if (leaving.signal.aborted) return;
      replace(problem, failure.message);
      problem.hidden = false;
      status.replaceChildren();
      go.disabled = false;
    }
  };
  const form = h("form", { class: "form", id: "export", onsubmit: send }, field("Day", day), field("From", from, true), field("Before", before, true), field("Format", format));
  const hint = h("p", { class: "hint" }, "From and Before accept an ID, a time, an age such as 15m, or -100 (the last 100 entries). Times without a zone are in this browser's time zone.");
  const go = h("button", { type: "submit", form: "export", class: "button primary" }, "Export");
  const element = dialog("Export entries", [form, hint, status, problem], [button("Cancel", () => element.close()), go]);
  element.addEventListener("close", () => leaving.abort());
}
