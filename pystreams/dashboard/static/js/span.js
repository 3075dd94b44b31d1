// The period of the charts: an hour, or a longer period if the dashboard keeps a history on disk.

import { state } from "./api.js";
import { h } from "./dom.js";
import { segments } from "./parts.js";

const PERIODS = [["1h", "1 hour", 1], ["6h", "6 hours", 6], ["24h", "1 day", 24], ["168h", "1 week", 168]];
let chosen = "1h";

const known = () => PERIODS.filter(([, , hours]) => hours === 1 || hours * 3600000 <= state.spanMs);

// Returns the period as a request parameter.
export function span() { return known().some(([value]) => value === chosen) ? chosen : "1h"; }

// Returns buttons that choose the period for all screens; null if there is only one period.
export function spans(onchange) {
  if (known().length < 2) return null;
  return h("div", { class: "row end" }, segments("Period of the charts", known().map(([value, title]) => [value, title]), span(), (value) => { chosen = value; onchange(); }));
}
