// SPDX-License-Identifier: Apache-2.0
// Puts the report together: `report` is what `so4cal report -o r.json` writes, `channels` belongs to its heads.
"use strict";

const {report, channels} = JSON.parse(document.getElementById("data").textContent);
const METRICS = {
  nmse: ["NMSE (error / energy)", "log"],
  nmse_centred: ["NMSE, centred (error / energy around the mean)", "log"],
  sqnr_db: ["SQNR, dB (higher is better)", "linear"],
  max_abs: ["largest error of a channel", "log"],
  logit_nmse: ["logit NMSE (shift-free)", "log"],
  logit_error: ["logit error (sum of squares, shift-free)", "log"],
  attention_kl: ["attention KL, nats", "log"],
  attention_top1: ["attention top-1 agreement (higher is better)", "linear"],
  output_nmse_head: ["output error before W_O", "log"],
  output_nmse_wo: ["output error after W_O", "log"],
};
const BASELINES = Object.keys(report.model.k.errors);
const byId = id => document.getElementById(id);
const state = {metric: "nmse", before: "hadamard", after: "calibrated", chosen: report.heads[0]};

function fillSelect(id, options, key) {
  const select = byId(id);
  for (const [value, label] of options) select.append(element("option", {value}, label));
  select.value = state[key];
  select.addEventListener("change", () => { state[key] = select.value; drawMaps(); });
}

function drawMaps(focused) {
  const {metric, before, after} = state;
  const heads = report.heads, value = baseline => errorOf(baseline, metric);
  const ratio = h => (known(value(before)(h)) && known(value(after)(h)) && value(before)(h) !== 0 ? value(after)(h) / value(before)(h) : null);
  const scale = colourScale([...heads.map(value(before)), ...heads.map(value(after))], METRICS[metric][1]);
  const ratios = colourScale(heads.map(ratio), "ratio");
  byId("legends").replaceChildren(legend(scale, `${METRICS[metric][0]}:`), legend(ratios, "after / before:"));
  const rows = ["k", "v"].map(side => {
    const own = heads.filter(h => h.side === side), name = side === "k" ? "Keys" : "Values";
    const map = (of, colours, caption) => heatMap(own, of, colours, `${name}, ${caption}`, state.chosen, choose);
    return element("div", {class: "maps"}, map(value(before), scale, `before: ${before}`), map(value(after), scale, `after: ${after}`),
                   map(ratio, ratios, "after / before"));
  });
  byId("maps").replaceChildren(...rows);
  if (focused !== undefined && focused >= 0) byId("maps").querySelectorAll("svg")[focused].focus();
}

function choose(head) {
  const focused = [...byId("maps").querySelectorAll("svg")].indexOf(document.activeElement);
  state.chosen = head;
  drawMaps(focused);
  drawHead();
}

function drawHead() {
  const head = state.chosen, codec = head.codec;
  byId("h-head").textContent = `One head: ${nameOf(head)}`;
  byId("channels").replaceChildren(channelPanels(channels[report.heads.indexOf(head)]));
  const keys = Object.keys(head.errors.calibrated).filter(key => BASELINES.some(b => head.errors[b][key] !== null));
  fillTable("head", [["error", ...BASELINES], ...keys.map(key => [key, ...BASELINES.map(b => number(head.errors[b][key]))])]);
  byId("channels").append(element("p", {class: "hint"},
    `${head.family}, ${head.chosen}; ${codec.bits}-bit ${codec.grid} codes, ${codec.scale} scale, blocks of ${codec.block}, ${codec.rounding} rounding` +
    (head.damping === null ? "" : `, damping ${number(head.damping)}`) + (head.rounds === null ? "" : `, ${head.rounds} rounds`) + "."));
  table.mark(head);
}

function fillModel() {
  const keys = ["nmse", "nmse_centred", "logit_nmse", "attention_kl", "attention_top1", "output_nmse_head", "output_nmse_wo"];
  const shown = keys.filter(key => ["k", "v", "kv"].some(side => report.model[side].errors.calibrated[key] !== null));
  const rows = [["stored", "as", ...shown]];
  for (const side of ["k", "v", "kv"])
    for (const b of BASELINES) rows.push([side, b, ...shown.map(key => number(report.model[side].errors[b][key]))]);
  fillTable("model", rows, [0, 1]);
  byId("notes").replaceChildren(...report.notes.map(note => element("li", {}, `Not measured: ${note}`)));
}

function fillLead() {
  const count = verdict => report.heads.filter(h => h.verdict === verdict).length;
  const files = report.dumps.map(d => d.name).join(", "), tokens = report.heads[0].tokens;
  const source = report.test_tokens_from === "table" ? `${tokens.test} test tokens that the fit never saw`
                                                     : `all ${tokens.test} tokens but the sinks, of a dump that the fit did not use`;
  byId("lead").textContent = `${report.table.model || "Model not named"}; table ${report.table.name}, dump ${files}: ${source}. ` +
    `The rotation helped ${count("helped")} of ${report.heads.length} heads, harmed ${count("harmed")}, made no difference to ${count("no difference")}.`;
  document.title = `so4cal report: ${report.table.name}`;
}

const CONTEXT = 4096;  // tokens that the tables are spread over
function fillBits() {
  const groups = new Map();
  for (const h of report.heads) {
    const key = JSON.stringify([h.side, h.codec.bits, h.codec.block, h.codec.grid, h.codec.scale]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(h);
  }
  const rows = [["side", "codes", "heads", "bits of a code", "bits of scales per value", "bits per value stored", "table bytes per head",
                 `bits per value with tables, ${CONTEXT} tokens`]];
  for (const heads of groups.values()) {
    const {side, codec} = heads[0], bytes = heads.reduce((sum, h) => sum + h.table_bytes, 0) / heads.length;
    const channelsOf = channels[report.heads.indexOf(heads[0])].raw.length;
    rows.push([side, `${codec.grid}, ${codec.scale}, blocks of ${codec.block}`, String(heads.length), String(codec.bits), number(16 / codec.block),
               number(codec.bits_per_value), fixed(0)(bytes), number(codec.bits_per_value + 8 * bytes / (channelsOf * CONTEXT))]);
  }
  fillTable("bits", rows, [0, 1]);
  byId("bits-hint").textContent = `Bits per value are row bytes only: codes and fp16 scales. Tables, ` +
    `${report.heads.reduce((sum, h) => sum + h.table_bytes, 0)} bytes in all, are paid once per model, not per token; the last column spreads ` +
    `them over one sequence of ${CONTEXT} tokens. They include the metric of the rounding, which only the encoder needs.`;
}

function fillOrigin() {
  const {tool, table: from} = report, tokens = report.heads[0].tokens;
  const rows = [["what", "value"], ["so4cal", `${tool.version}, ${tool.simd_target}`],
                ["table", `${from.name}, format ${from.format_version}, fitted by ${from.tool_version} on ${from.simd_target}, seed ${from.seed}`],
                ["layers of the table", `${from.layers.length} of ${from.num_model_layers ?? "an unknown number"}`],
                ["tokens", `fit ${tokens.fit ?? "–"}, validation ${tokens.validation ?? "–"}, test ${tokens.test}`]];
  for (const d of report.dumps) rows.push(["dump", `${d.name}, ${d.size} bytes, ${d.hash}`]);
  fillTable("origin", rows, [0, 1]);
  byId("options").textContent = JSON.stringify({options: from.options, counts: from.counts}, null, 1);
}

const measured = Object.entries(METRICS).filter(([key]) => report.heads.some(h => known(h.errors.calibrated[key])));
fillLead();
fillModel();
fillSelect("metric", measured.map(([key, [label]]) => [key, label]), "metric");
fillSelect("before", BASELINES.map(b => [b, b]), "before");
fillSelect("after", BASELINES.map(b => [b, b]), "after");
const table = new HeadsTable(report.heads, choose);
drawMaps();
drawHead();
fillBits();
fillOrigin();
