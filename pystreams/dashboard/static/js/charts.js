// Charts over time, drawn by uPlot, each with a description in words for screen readers.

import { clock, h, replace, seconds, text } from "./dom.js";

const HEIGHT = 160;
const DARK = matchMedia("(prefers-color-scheme: dark)");
const [MARGIN, CHARACTER] = [48, 7.2]; // the smallest width of the vertical axis, and the width of a character, in pixels
// Distances between ticks: whole numbers, so that no two ticks have the same text, and for durations those that are
// written with one unit.
const STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const DAY = 86400;
const SECOND_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, ...STEPS.slice(0, 15).map((step) => step * DAY)];

function colour(name) {
  const probe = h("span", { class: name, hidden: true });
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// series: [{name, label, show}]; `show` formats a value.
export class Chart {
  constructor(title, series) {
    this.title = title;
    this.series = series;
    this.values = series.map(() => h("span", { class: "value" }));
    this.when = h("span", { class: "muted" });
    const legend = series.map((line, at) => h("span", { class: "nowrap" }, h("span", { class: `legendmark c${at + 1}`, "aria-hidden": "true" }),
      series.length > 1 ? h("span", { class: "muted" }, `${line.label} `) : null, this.values[at]));
    this.plot = h("div", { class: "plot", role: "img", "aria-label": `${title}: nothing yet` });
    this.element = h("section", { class: "panel" },
      h("div", { class: "title" }, h("h2", {}, title), h("div", { class: "legend row" }, this.when, legend)),
      h("div", { class: "chart" }, this.plot));
    this.data = null;
    this.drawn = null;
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.plot);
    this.themed = () => { this.drop(); this.draw(); };
    DARK.addEventListener("change", this.themed);
  }

  update(curves) {
    const first = this.series.map((line) => curves[line.name]).reduce((a, b) => (b.at.length > a.at.length ? b : a));
    const columns = this.series.map((line) => aligned(curves[line.name], first.at));
    this.data = [first.at, ...columns];
    this.latest();
    this.draw();
  }

  latest() {
    this.series.forEach((line, at) => text(this.values[at], line.show(last(this.data[at + 1]))));
    text(this.when, "");
    const minutes = Math.max(1, Math.round(((this.data[0].at(-1) ?? 0) - (this.data[0][0] ?? 0)) / 60));
    const words = this.series.map((line, at) => {
      const known = this.data[at + 1].filter((value) => value !== null);
      if (!known.length) return `${line.label}: nothing yet`;
      return `${line.label}: now ${line.show(known.at(-1))}, lowest ${line.show(Math.min(...known))}, highest ${line.show(Math.max(...known))}`;
    });
    this.plot.setAttribute("aria-label", `${this.title}, last ${minutes} minutes. ${words.join("; ")}`);
  }

  draw() {
    if (!this.data) return;
    if (this.data[0].length < 2) {
      if (!this.drawn) replace(this.plot, h("div", { class: "nothing" }, "The first points appear in a few seconds."));
      return;
    }
    if (this.drawn) { this.drawn.setData(this.data); return; }
    if (!this.plot.clientWidth) return;
    this.plot.replaceChildren();
    const grid = { stroke: colour("grid-line"), width: 1 };
    const axis = { stroke: colour("muted"), font: "12px system-ui, sans-serif", grid, ticks: { show: false } };
    const { show } = this.series[0];
    this.drawn = new window.uPlot({
      width: this.plot.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, points: { size: 6 } },
      padding: [8, 20, 0, 0],
      scales: { y: { range: (_, low, high) => [Math.min(0, low), Math.max(high * 1.1, 1)] } },
      axes: [
        { ...axis, grid: { show: false }, space: 70, size: 30, values: (_, ticks) => ticks.map((at) => clock(at * 1000, false)), incrs: [60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400] },
        { ...axis, size: (_, ticks) => widest(ticks ?? []), space: 34, incrs: show === seconds ? SECOND_STEPS : STEPS, values: (_, ticks) => ticks.map((value) => show(value)) },
      ],
      series: [{}, ...this.series.map((line, at) => {
        const stroke = colour(`c${at + 1}`);
        const filling = this.series.length === 1 ? stroke.replace("rgb(", "rgba(").replace(")", ", 0.10)") : null;
        return { label: line.label, stroke, width: 1.6, fill: filling, points: { show: false } };
      })],
      hooks: { setCursor: [(plot) => this.pointed(plot.cursor.idx)] },
    }, this.data, this.plot);
  }

  pointed(at) {
    if (at === null || at === undefined) { this.latest(); return; }
    this.series.forEach((line, index) => text(this.values[index], line.show(this.data[index + 1][at])));
    text(this.when, clock(this.data[0][at] * 1000));
  }

  resize() {
    const width = this.plot.clientWidth;
    if (!width) return;
    if (!this.drawn) this.draw();
    else if (Math.abs(this.drawn.width - width) > 1) this.drawn.setSize({ width, height: HEIGHT });
  }

  drop() {
    this.drawn?.destroy();
    this.drawn = null;
  }

  leave() {
    this.watch.disconnect();
    DARK.removeEventListener("change", this.themed);
    this.drop();
  }
}

// Returns the width of an axis for the texts of its ticks.
function widest(ticks) {
  return Math.max(MARGIN, 20 + CHARACTER * Math.max(0, ...ticks.map((tick) => tick.length)));
}

function last(values) {
  for (let at = values.length - 1; at >= 0; at -= 1) if (values[at] !== null) return values[at];
  return null;
}

// Returns a curve's value at each of `times`. The times end like the curve's times; values before the curve's start are null.
function aligned(curve, times) {
  const missing = Math.max(0, times.length - curve.at.length);
  return [...new Array(missing).fill(null), ...curve.values];
}
