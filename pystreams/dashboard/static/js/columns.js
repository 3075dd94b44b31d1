// Columns of streams, groups, consumers and queries. The server describes the columns. The command line shows the same measures.

import { state } from "./api.js";
import { h } from "./dom.js";
import { bytes, count, rate, seconds } from "./format.js";
import { spark, status } from "./parts.js";

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
