// SPDX-License-Identifier: Apache-2.0
// Elements, numbers and colours. Text from the data goes through textContent only.
"use strict";

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "rect", "text", "line", "title", "g"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  for (const child of children) node.append(child);
  return node;
}

function known(value) { return typeof value === "number" && Number.isFinite(value); }

// Four significant digits; a dash where nothing was measured.
function number(value) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return Number.isInteger(value) ? String(value) : value.toPrecision(4);
}

function fixed(digits) { return value => (known(value) ? value.toFixed(digits) : "–"); }

function cell(text, isText, head) {
  const node = element(head ? "th" : "td", isText ? {class: "text"} : {});
  node.textContent = text;
  return node;
}

// rows: lists of texts, the first list is the header, columns in `texts` are left-aligned.
function fillTable(id, rows, texts = [0]) {
  const table = document.getElementById(id);
  const line = (row, head) => element("tr", {}, ...row.map((text, i) => cell(text, texts.includes(i), head)));
  table.replaceChildren(element("thead", {}, line(rows[0], true)), element("tbody", {}, ...rows.slice(1).map(row => line(row, false))));
  for (const head of table.querySelectorAll("thead th")) head.scope = "col";
}

// Viridis, and a diverging scale from blue to orange: both safe for the colour-blind.
const SEQUENTIAL = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const DIVERGING = ["#08519c", "#4292c6", "#9ecae1", "#f2f2f2", "#fdae6b", "#e6550d", "#8c2d04"];

function colour(stops, share) {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
  const channel = (hex, c) => parseInt(hex.slice(1 + 2 * c, 3 + 2 * c), 16);
  const mixed = [0, 1, 2].map(c => Math.round(channel(stops[i], c) * (1 - at + i) + channel(stops[i + 1], c) * (at - i)));
  return `rgb(${mixed.join(",")})`;
}

// Maps values to colours. kind: linear, log, or ratio (logarithmic and symmetric about 1).
function colourScale(values, kind) {
  let usable = values.filter(v => known(v) && (kind === "linear" || v > 0));
  if (usable.length === 0) usable = [1];
  const map = kind === "linear" ? v => v : v => Math.log(Math.max(v, Number.MIN_VALUE));
  let low = Infinity, high = -Infinity;
  for (const v of usable) { low = Math.min(low, map(v)); high = Math.max(high, map(v)); }
  if (kind === "ratio") { high = Math.max(Math.abs(low), Math.abs(high), Math.log(1.01)); low = -high; }
  const back = kind === "linear" ? v => v : Math.exp, width = high - low || 1, stops = kind === "ratio" ? DIVERGING : SEQUENTIAL;
  return {low: back(low), high: back(high), stops, colourOf: v => (known(v) ? colour(stops, (map(v) - low) / width) : null)};
}

function legend(scale, text) {
  const bar = element("i", {style: `background: linear-gradient(90deg, ${scale.stops.join(", ")})`, "aria-hidden": "true"});
  return element("div", {class: "legend"}, element("span", {}, text), number(scale.low), bar, number(scale.high),
                 element("svg", {width: 12, height: 12, "aria-hidden": "true"}, element("rect", {width: 12, height: 12, class: "missing"})),
                 "not measured");
}
