// SPDX-License-Identifier: Apache-2.0
// Heat maps, layers from left to right and heads from top to bottom, and the channels of one head.
"use strict";

const MARGIN = 26;

// heads: of one side. value(head) -> number or null. Calls choose(head) on click and arrow keys.
function heatMap(heads, value, scale, caption, chosen, choose) {
  const layers = [...new Set(heads.map(h => h.layer))].sort((a, b) => a - b);
  const rows = Math.max(...heads.map(h => h.kv_head)) + 1;
  const size = Math.max(4, Math.min(36, Math.floor(330 / layers.length))), height = Math.min(22, Math.max(14, size));
  const column = new Map(layers.map((layer, i) => [layer, i]));
  const svg = element("svg", {width: Math.max(MARGIN + layers.length * size + 2, 100), height: rows * height + 30, tabindex: 0, role: "img",
                              "aria-label": `${caption}: ${describe(heads, value)}`});
  for (const head of heads) {
    const fill = scale.colourOf(value(head));
    const place = {x: MARGIN + column.get(head.layer) * size, y: head.kv_head * height, width: size, height};
    const rect = element("rect", {...place, class: fill === null ? "cell missing" : "cell", ...(fill === null ? {} : {fill})},
                         element("title", {}, `${nameOf(head)}: ${number(value(head))}`));
    rect.addEventListener("click", () => choose(head));
    svg.append(rect);
    if (head === chosen) svg.append(element("rect", {...place, class: "mark"}));
  }
  const mark = svg.querySelector(".mark");
  if (mark) svg.append(mark);  // above its neighbours
  axisLabels(svg, layers, rows, size, height);
  svg.addEventListener("keydown", event => move(event, heads, layers, chosen, choose));
  return element("figure", {}, element("figcaption", {}, caption), svg);
}

function nameOf(head) { return `layer ${head.layer}, ${head.side} head ${head.kv_head}`; }

function describe(heads, value) {
  const values = heads.map(value).filter(known);
  return values.length ? `${values.length} heads, ${number(Math.min(...values))} to ${number(Math.max(...values))}` : "not measured";
}

function axisLabels(svg, layers, rows, size, height) {
  const every = Math.ceil(24 / size);
  layers.forEach((layer, i) => {
    if (i % every === 0) svg.append(element("text", {x: MARGIN + (i + 0.5) * size, y: rows * height + 12, "text-anchor": "middle"}, layer));
  });
  for (let row = 0; row < rows; ++row)
    svg.append(element("text", {x: MARGIN - 4, y: (row + 0.5) * height + 4, "text-anchor": "end"}, row));
  svg.append(element("text", {x: MARGIN, y: rows * height + 25}, "layer, head"));
}

function move(event, heads, layers, chosen, choose) {
  const step = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
  if (!step) return;
  event.preventDefault();
  const from = heads.includes(chosen) ? chosen : heads[0];
  const layer = layers[layers.indexOf(from.layer) + step[0]];
  const next = heads.find(h => h.layer === layer && h.kv_head === from.kv_head + step[1]);
  if (next) choose(next);
}

// Root mean square of every channel as bars, both panels with one scale.
function channelPanels(channels) {
  const top = Math.max(...channels.raw, ...channels.rotated, Number.MIN_VALUE);
  const panel = (values, kind, caption) => {
    const width = 520, height = 130, step = (width - 40) / values.length;
    const svg = element("svg", {width, height: height + 18, viewBox: `0 0 ${width} ${height + 18}`, role: "img",
                                "aria-label": `${caption}, largest ${number(Math.max(...values))}`});
    values.forEach((v, i) => svg.append(element(
      "rect", {x: 40 + i * step, y: height - (height - 12) * v / top, width: Math.max(step - 0.5, 0.5), height: (height - 12) * v / top, class: kind},
      element("title", {}, `channel ${i}: ${number(v)}`))));
    svg.append(element("line", {x1: 40, x2: width, y1: height, y2: height, class: "axis"}),
               element("text", {x: 36, y: 16, "text-anchor": "end"}, number(top)),
               element("text", {x: 36, y: height, "text-anchor": "end"}, "0"),
               element("text", {x: 40, y: height + 13}, "channel 0"),
               element("text", {x: width, y: height + 13, "text-anchor": "end"}, String(values.length - 1)));
    return element("figure", {}, element("figcaption", {}, caption), svg);
  };
  return element("div", {class: "row"}, panel(channels.raw, "raw", "Before: RMS of every channel"),
                 panel(channels.rotated, "rotated", "After offset and rotation"));
}
