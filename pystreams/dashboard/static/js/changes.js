// Changes in two steps: the server returns a plan, and carries it out if the user confirms. A long change takes several requests.

import { post } from "./api.js";
import { h, replace } from "./dom.js";
import { count } from "./format.js";
import { button, toast } from "./parts.js";

// Opens a dialog with content and actions, and returns its element.
export function dialog(title, inside, actions, wide = false) {
  const id = `dialog-${Math.random().toString(36).slice(2)}`;
  const element = h("dialog", { "aria-labelledby": id, class: wide ? "wide" : null },
    h("div", { class: "inside" }, h("h1", { id }, title), inside), h("div", { class: "actions" }, actions));
  document.body.append(element);
  element.addEventListener("close", () => element.remove());
  element.showModal();
  return element;
}

// Requests the plan, shows it, and carries it out if the user confirms. Returns whether anything was changed.
export async function change(action, given, { title, word, danger = false }) {
  const body = h("div", {}, h("p", { class: "muted" }, "Preparing a preview…"));
  const progress = h("p", { class: "muted", role: "status" });
  let confirm = null;
  let finish;
  const finished = new Promise((resolve) => { finish = resolve; });
  const cancel = button("Cancel", () => element.close());
  const go = button(word, carryOut, danger ? "danger" : "primary");
  go.disabled = true;
  const element = dialog(title, [body, progress], [cancel, go]);
  let acted = false;
  element.addEventListener("close", () => finish(acted));

  async function carryOut() {
    go.disabled = true;
    let total = 0;
    try {
      let answer;
      do {
        answer = await post(`changes/${action}`, { ...given, confirm });
        acted = true;
        total += answer.count;
        if (answer.more) replace(progress, `${count(total)} so far…`);
      } while (answer.more && element.open);
      toast(answer.more ? `Stopped after ${count(total)}.` : answer.done);
      element.close();
    } catch (failure) {
      progress.replaceChildren();
      if (failure.id === "PLAN_OUTDATED") await prepare("It has changed since the preview, and nothing was changed. This is the new preview:");
      else refuse(failure);
    }
  }

  function refuse(failure) { replace(body, h("p", { class: "error", role: "alert" }, failure.message)); }

  async function prepare(reason = null) {
    try {
      const plan = await post(`changes/${action}`, given);
      confirm = plan.confirm;
      replace(body, reason ? h("p", { class: "error", role: "alert" }, reason) : null, h("p", {}, plan.plan), compare(plan.facts),
        plan.notes.length ? h("ul", {}, plan.notes.map((note) => h("li", {}, note))) : null);
      go.disabled = false;
      (danger ? cancel : go).focus();
    } catch (failure) {
      refuse(failure);
    }
  }

  await prepare();
  return finished;
}

function compare(rows) {
  if (!rows.length) return null;
  return h("table", { class: "compare" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, h("span", { class: "visually-hidden" }, "Value")), h("th", { scope: "col" }, "Now"), h("th", { scope: "col" }, "After"))),
    h("tbody", {}, rows.map(([name, before, after]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "mono" }, before), h("td", { class: "mono" }, after)))));
}
