// SPDX-License-Identifier: Apache-2.0
// The sortable table of all heads.
"use strict";

function errorOf(baseline, key) { return head => head.errors[baseline][key]; }

const COLUMNS = [
  {label: "layer", value: h => h.layer, text: h => String(h.layer)},
  {label: "side", value: h => h.side, text: h => h.side, left: true},
  {label: "head", value: h => h.kv_head, text: h => String(h.kv_head)},
  {label: "map", value: h => h.chosen, text: h => h.chosen, left: true},
  {label: "rounding", value: h => h.codec.rounding, text: h => h.codec.rounding, left: true},
  {label: "verdict", value: h => h.verdict, text: h => h.verdict ?? "not measured", left: true},
  {label: "interval", value: h => (h.interval ? h.interval[1] : null),
   text: h => (h.interval ? `${h.interval[0].toFixed(3)} – ${h.interval[1].toFixed(3)}` : "–")},
  {label: "decided by", value: h => h.decision_metric, text: h => h.decision_metric, left: true},
  {label: "NMSE none", value: errorOf("none", "nmse")},
  {label: "hadamard+o", value: errorOf("hadamard_offset", "nmse")},
  {label: "calibrated", value: errorOf("calibrated", "nmse")},
  {label: "logit hadamard+o", value: errorOf("hadamard_offset", "logit_nmse")},
  {label: "logit calibrated", value: errorOf("calibrated", "logit_nmse")},
  {label: "KL hadamard+o", value: errorOf("hadamard_offset", "attention_kl")},
  {label: "KL calibrated", value: errorOf("calibrated", "attention_kl")},
  {label: "output hadamard+o", value: errorOf("hadamard_offset", "output_nmse_wo")},
  {label: "output calibrated", value: errorOf("calibrated", "output_nmse_wo")},
  {label: "headroom dB", value: h => h.headroom_db, text: h => fixed(2)(h.headroom_db)},
];

class HeadsTable {
  constructor(heads, choose) {
    this.columns = COLUMNS.filter(column => heads.some(h => column.value(h) !== null));
    this.lines = heads.map(head => ({head, row: this.row(head, choose)}));
    this.headers = this.columns.map((column, i) => this.header(column, i));
    this.body = element("tbody", {}, ...this.lines.map(line => line.row));
    document.getElementById("heads").replaceChildren(element("thead", {}, element("tr", {}, ...this.headers)), this.body);
  }

  header(column, index) {
    const button = element("button", {type: "button"}, column.label);
    button.addEventListener("click", () => this.sort(index));
    return element("th", {scope: "col", "aria-sort": "none", ...(column.left ? {class: "text"} : {})}, button);
  }

  row(head, choose) {
    const cells = this.columns.map(column => cell((column.text ?? (h => number(column.value(h))))(head), column.left, false));
    const button = element("button", {type: "button", "aria-label": `show ${nameOf(head)}`}, String(head.layer));
    button.addEventListener("click", () => choose(head));
    cells[0].replaceChildren(button);
    this.columns.forEach((column, i) => {
      if (column.label === "verdict" && head.verdict) cells[i].classList.add(head.verdict.replace(" ", "-"));
    });
    return element("tr", {}, ...cells);
  }

  // Ascending first, then the other way round; what was not measured comes last both ways.
  sort(index) {
    const descending = this.headers[index].getAttribute("aria-sort") === "ascending";
    const value = this.columns[index].value, sign = descending ? -1 : 1;
    this.lines.sort((a, b) => {
      const x = value(a.head), y = value(b.head);
      if (x === null || y === null) return (x === null) - (y === null);
      return sign * (x < y ? -1 : x > y ? 1 : 0);
    });
    this.headers.forEach((th, i) => th.setAttribute("aria-sort", i !== index ? "none" : descending ? "descending" : "ascending"));
    this.body.replaceChildren(...this.lines.map(line => line.row));
  }

  mark(head) { for (const line of this.lines) line.row.classList.toggle("chosen", line.head === head); }
}
