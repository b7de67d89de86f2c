// The facts, what the reader has chosen (threshold, row), and small helpers. All text of the data goes through
// textContent or createTextNode: nothing in it is ever read as markup.
const facts = JSON.parse(document.getElementById("facts").textContent);
const { scores, rows: shownRows, map } = facts;

const scoreOf = new Map(scores.rows.map((row, i) => [row, scores.values[i]]));
const labelOf = new Map(scores.rows.map((row, i) => [row, scores.labels ? scores.labels[i] : ""]));
const detailOf = new Map(shownRows.shown.map((detail) => [detail.row, detail]));
const flaggedByFit = new Set(scores.flagged);
const suspects = new Set(scores.suspects);

const state = { threshold: scores.threshold, moved: false, flagged: flaggedByFit, count: facts.n_flagged, row: null };
const listeners = { threshold: [], row: [] };
const on = (what, listener) => listeners[what].push(listener);
const tell = (what) => listeners[what].forEach((listener) => listener());

function setThreshold(threshold, moved = true) {
  state.threshold = threshold;
  state.moved = moved;
  if (!moved) {
    state.flagged = flaggedByFit;
    state.count = facts.n_flagged;
  } else {
    // Worst first, so the flagged ones are the first of the list. Where only a sample of the better rows is in the
    // file, each of them stands for several.
    let above = scores.values.findIndex((value) => value <= threshold);
    above = above < 0 ? scores.values.length : above;
    state.flagged = new Set(scores.rows.slice(0, above));
    const sampled = scores.rows.length - scores.certain;
    const weight = sampled ? (facts.n_rows - scores.certain) / sampled : 1;
    state.count = Math.min(above, scores.certain) + Math.round(weight * Math.max(0, above - scores.certain));
  }
  tell("threshold");
}

function highlight(row) {
  if (row === state.row) return;
  state.row = row;
  tell("row");
}

// A row is called by its number in the file and by its name, if it has one.
const rowName = (row, label = labelOf.get(row)) => (label && label !== `row ${row}` ? `row ${fileRow(row)} · ${label}` : `row ${fileRow(row)}`);

const $ = (id) => document.getElementById(id);
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const number = (value) => {
  if (value === null) return "missing";
  if (value === 0) return "0"; // -0 is one
  const size = Math.abs(value);
  return size && (size < 1e-4 || size >= 1e7) ? value.toExponential(2) : short.format(value).replace("-", "−");
};
const signed = (value) => (value > 0 ? `+${number(value)}` : number(value));
const whole = (value) => new Intl.NumberFormat("en").format(value);

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// A drawing of that many pixels; on narrower paper it shrinks.
const drawing = (width, height, attributes) => svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, ...attributes });

// Draw now and again whenever the width changes.
function drawn(node, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(node.clientWidth - width) < 1 || !node.clientWidth) return;
    width = node.clientWidth;
    draw(width);
  }).observe(node);
}

// Round numbers between two ends, at most about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) out.push(i * step);
  return out;
}
