// Formatting of numbers and times. "–" means unknown.

const COUNT = new Intl.NumberFormat("en-US");
const COMPACT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
export const NONE = "–";

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
