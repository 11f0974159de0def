#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each step from the plain to the best table is worth to a whole model: a Markdown table of perplexity and KL.

    ladder.py SO4CAL MODEL DUMP TEXT -o FOLDER [--start 40000] [--windows 3] [--rows hadamard_refined best]

DUMP is of all layers of MODEL, with q and w_o (app/transformers/dump_kv.py), and made from other text than is scored.
Fits a table per row into FOLDER unless it is there (remove FOLDER after a new build), then runs perplexity.py once,
which goes on where it stopped. Needs the Python of app/transformers. KL is in nats per token to the exact cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

PERPLEXITY = Path(__file__).resolve().parents[2] / "app/transformers/perplexity.py"

# Name: what it is, options of `so4cal fit`. Values by reconstruction and nearest unless the row is the preset itself.
_PLAIN = ["--objective", "mse", "--rounding", "nearest"]
_REFINED_KEYS = ["--objective", "mse", "--rounding", "k=refined,v=nearest"]
ROWS: dict[str, tuple[str, list[str]]] = {
    "none_absmax": ("no rotation, symmetric, absmax", ["--preset", "seed", "--rotation", "none", "--hadamard", "off"]),
    "hadamard_absmax": ("Hadamard, symmetric, absmax", ["--preset", "seed", "--rotation", "none", "--hadamard", "on"]),
    "seed": ("so4 fitted, symmetric, absmax (`--preset seed`)", ["--preset", "seed"]),
    "hadamard_nearest": ("Hadamard, offset, lloyd, mse", ["--rotation", "none", *_PLAIN, "--split", "85,0,15"]),
    "butterfly_nearest": ("butterfly fitted for reconstruction, else the same", _PLAIN),
    "metric_nearest": (
        "butterfly of K fitted for logits, nearest rounding",
        ["--objective", "k=logit,v=mse", "--rounding", "nearest"],
    ),
    "hadamard_refined": ("Hadamard, refined rounding of K", ["--rotation", "none", *_REFINED_KEYS]),
    "butterfly_refined": ("butterfly fitted for reconstruction, refined rounding of K", _REFINED_KEYS),
    "best": ("butterfly fitted for metric and rounding (`--preset best`)", ["--preset", "best"]),
    "best_block64": ("the same with blocks of 64", ["--preset", "best", "--block", "64"]),
    "best_values_feedback": (
        "best, values by feedback rounding under W_O",
        ["--preset", "best", "--rounding", "k=auto,v=feedback"],
    ),
    "best_planned": ("the same with `so4cal plan --budget 3.5`", ["--preset", "best", "--plan", "PLAN"]),
    "q4_0": ("ggml q4_0", []),
    "hadamard+q4_0": ("Hadamard, then ggml q4_0", []),
    "q8_0": ("ggml q8_0", []),
}
PAIRS = [
    ("best", "hadamard_refined"), ("best", "butterfly_refined"), ("best", "hadamard+q4_0"), ("seed", "hadamard_absmax"),
    ("metric_nearest", "hadamard_nearest"), ("metric_nearest", "butterfly_nearest"), ("best_block64", "hadamard+q4_0"),
    ("best_values_feedback", "best"), ("best_planned", "best"), ("best_planned", "hadamard+q4_0"),
]  # fmt: skip


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="ladder.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("so4cal", type=Path, metavar="SO4CAL", help="the binary")
    parser.add_argument("model", type=Path, metavar="MODEL", help="model folder or .gguf file")
    parser.add_argument("dump", type=Path, metavar="DUMP", help="dump of all layers")
    parser.add_argument("text", type=Path, metavar="TEXT", help="UTF-8 text to score")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="tables and results")
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=list(ROWS), metavar="ROW", help="default all")
    parser.add_argument("--start", default="40000", help="text tokens to skip (default %(default)s)")
    parser.add_argument("--windows", default="3", help="of 2,048 tokens (default %(default)s)")
    return parser.parse_args()


def run(*command: object) -> None:
    print("+", *command, file=sys.stderr, flush=True)
    subprocess.run(list(map(str, command)), check=True, stdout=sys.stderr)


def fit(arguments: argparse.Namespace, row: str) -> str:
    """The setting of the row for perplexity.py."""
    if not ROWS[row][1]:
        return row
    tables = arguments.output / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    table = tables / f"{row}.so4.h5"
    if not table.exists():
        options, plan = ROWS[row][1], tables / f"{row}.json"
        if "PLAN" in options:
            run(arguments.so4cal, "plan", arguments.dump, "-o", plan, "--budget", "3.5", "--force")
        run(arguments.so4cal, "fit", arguments.dump, "-o", table, *(plan if x == "PLAN" else x for x in options))
    return f"{row}={table}"


def score(arguments: argparse.Namespace, settings: list[str]) -> dict:
    results = arguments.output / arguments.text.stem
    pairs = [f"{a},{b}" for a, b in PAIRS if {a, b} <= set(arguments.rows)]
    command = [sys.executable, PERPLEXITY, arguments.model, arguments.text, "-o", results, "--start", arguments.start]
    command += ["--windows", arguments.windows, "--settings", *settings]
    command += [part for pair in pairs for part in ("--pair", pair)]
    run(*command)
    return json.loads((results / "summary.json").read_text(encoding="utf-8"))


def markdown(summary: dict, rows: list[str]) -> str:
    run = summary["run"]
    lines = [
        f"{run['model']}, {run['text']}, tokens {run['start']} to {summary['last_token']}: {summary['windows']} windows"
        f" of {run['ctx']} tokens, {summary['scored_tokens']} scored, first {run['sink']} of each exact", "",
        "| row | what | bits | perplexity | KL | top-1 |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in ["exact", *rows]:
        found, what = summary["settings"][row], ROWS[row][0] if row in ROWS else "unquantized"
        figures = f"{found['perplexity']:.2f} | {found['kl']:.4f} | {found['top1_agreement']:.3f}"
        lines.append(f"| {row} | {what} | {found['bits_per_value']:.4g} | {figures} |")
    lines += ["", "| pair | KL ratio (95 %) | perplexity ratio (95 %) |", "|---|---|---|"]
    for pair in summary["pairs"]:
        figures = [
            "{:.3f} ({:.3f} to {:.3f})".format(pair[key]["value"], *pair[key]["interval"])
            for key in ("kl_ratio", "perplexity_ratio")
        ]
        lines.append(f"| {pair['a']} / {pair['b']} | {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> int:
    arguments = parse_arguments()
    settings = [fit(arguments, row) for row in arguments.rows]
    print(markdown(score(arguments, settings), arguments.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
