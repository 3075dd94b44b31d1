// Tables. Rows are matched by their keys, and a cell is redrawn only if its value has changed, so that updates keep the
// focus and the selection. A click on a header makes the server sort the rows. The server describes the columns of streams,
// groups, consumers and queries: the command line shows the same measures.

import { state } from "./api.js";
import { bytes, count, h, rate, replace, seconds, spark, status, text } from "./dom.js";

// A column: {id, title, value: (row) => plain value, cell: (row) => node or text, right, sort, class, head}.
export class Table {
  constructor({ label, columns, key, sort = null, order = "rising", onsort = null, empty }) {
    Object.assign(this, { columns, key, sort, order, onsort, empty });
    this.rows = new Map();
    this.heads = columns.map((column) => this.head(column));
    this.body = h("tbody", { role: "rowgroup" });
    this.table = h("table", { "aria-label": label, class: "rows", role: "table" }, h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, this.heads)), this.body);
    this.nothing = h("div", { class: "empty", hidden: true });
    this.scroll = h("div", { class: "scroll" }, this.table);
    this.element = h("div", {}, this.scroll, this.nothing);
    this.label = label;
    const resized = new ResizeObserver(() => this.scrollable());
    for (const node of [this.scroll, this.table]) resized.observe(node);
    this.marks();
  }

  // Makes a table that is too wide focusable, so that the keyboard can scroll it.
  scrollable() {
    const wide = this.scroll.scrollWidth > this.scroll.clientWidth + 1;
    for (const [name, value] of Object.entries({ tabindex: "0", role: "region", "aria-label": `${this.label}, scrollable` })) {
      if (wide) this.scroll.setAttribute(name, value); else this.scroll.removeAttribute(name);
    }
  }

  head(column) {
    const inside = column.sort && this.onsort
      ? h("button", { type: "button", onclick: () => this.sorted(column) }, column.title)
      : column.title || h("span", { class: "visually-hidden" }, column.label ?? "");
    return h("th", { scope: "col", role: "columnheader", class: `${column.right ? "right " : ""}${column.class ?? ""}`, title: column.help }, inside);
  }

  sorted(column) {
    if (this.sort === column.sort) this.order = this.order === "rising" ? "falling" : "rising";
    else [this.sort, this.order] = [column.sort, column.right ? "falling" : "rising"];
    this.marks();
    this.onsort(this.sort, this.order);
  }

  marks() {
    this.columns.forEach((column, at) => {
      if (column.sort && column.sort === this.sort) {
        this.heads[at].setAttribute("aria-sort", this.order === "rising" ? "ascending" : "descending");
      } else this.heads[at].removeAttribute("aria-sort");
    });
  }

  update(rows) {
    const shown = new Map();
    let before = null;
    for (const row of rows) {
      const key = this.key(row);
      const known = this.rows.get(key) ?? this.made();
      shown.set(key, known);
      this.fill(known, row);
      const next = before ? before.nextSibling : this.body.firstChild;
      if (known.element !== next) this.body.insertBefore(known.element, next);
      before = known.element;
    }
    for (const [key, known] of this.rows) if (!shown.has(key)) known.element.remove();
    this.rows = shown;
    this.nothing.hidden = rows.length > 0;
    this.table.hidden = rows.length === 0;
    if (!rows.length) replace(this.nothing, this.empty());
  }

  made() {
    const cells = this.columns.map((column) => {
      const shape = `${column.right ? "right " : ""}${column.class ?? ""}`;
      return column.head ? h("th", { scope: "row", role: "rowheader", class: shape }) : h("td", { role: "cell", class: shape, "data-label": column.title || null });
    });
    return { element: h("tr", { role: "row" }, cells), cells, seen: [] };
  }

  fill(known, row) {
    this.columns.forEach((column, at) => {
      const seen = JSON.stringify(column.value(row)) ?? "";
      if (known.seen[at] === seen) return;
      known.seen[at] = seen;
      const cell = column.cell ? column.cell(row) : column.value(row);
      if (cell instanceof Node || Array.isArray(cell)) replace(known.cells[at], cell);
      else text(known.cells[at], String(cell ?? ""));
    });
  }
}

// "101–150 of 5,000" with buttons; total may be null if it is unknown.
export class Pager {
  constructor(size, onpage) {
    this.size = size;
    this.page = 0;
    this.label = h("span");
    const move = (by) => { this.page += by; onpage(this.page); };
    this.back = h("button", { class: "button", type: "button", onclick: () => move(-1) }, "Previous");
    this.on = h("button", { class: "button", type: "button", onclick: () => move(1) }, "Next");
    this.element = h("div", { class: "pager" }, this.label, h("div", { class: "row" }, this.back, this.on));
  }

  update(rows, total) {
    const first = this.page * this.size;
    const range = rows ? `${count(first + 1)}–${count(first + rows)}` : "0";
    text(this.label, total === null ? range : `${range} of ${count(total)}`);
    this.back.disabled = this.page === 0;
    this.on.disabled = total === null ? rows < this.size : first + rows >= total;
    this.element.hidden = this.page === 0 && this.on.disabled;
  }
}

// Pager for pages with a cursor: the next page is known only after the current one has loaded.
export class Walker {
  constructor(onmove) {
    this.starts = [""];
    this.following = null;
    this.label = h("span");
    this.back = h("button", { class: "button", type: "button", onclick: () => { this.starts.pop(); onmove(); } }, "Previous");
    this.on = h("button", { class: "button", type: "button", onclick: () => { this.starts.push(this.following); onmove(); } }, "Next");
    this.element = h("div", { class: "pager" }, this.label, h("div", { class: "row" }, this.back, this.on));
  }

  get start() { return this.starts.at(-1); }

  reset() { this.starts = [""]; }

  update(label, following) {
    this.following = following;
    text(this.label, label);
    this.back.disabled = this.starts.length === 1;
    this.on.disabled = following === null;
  }
}

const TEXTS = { bytes, count, duration: seconds, rate };

// `links`: cells that lead to other pages, by column: (row, shown) => node, where `shown` is the cell without a link.
export function columns(kind, links = {}) {
  return state.columns[kind].flatMap(({ id, title, key, form, right, help, optional, trend }) => {
    const value = (row) => (form in TEXTS ? TEXTS[form](row[key], row[`${key}_exact`]) : row[key]);
    const shown = (row) => {
      if (form === "status") return status(row[key]);
      return form in TEXTS && !row[key] ? h("span", { class: "zero" }, value(row)) : value(row);
    };
    const column = { id, title, sort: id, right, help, head: id === "name", class: form === "name" ? "name" : optional ? "optional" : "",
      value, cell: (row) => (links[id] ? links[id](row, shown(row)) : shown(row)) };
    const picture = { id: "trend", title: trend, class: "optional", value: (row) => row.trends[id],
      cell: (row) => spark(row.trends[id], `${title}, ${trend.toLowerCase()}`) };
    return trend ? [column, picture] : [column];
  });
}
