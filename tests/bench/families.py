# SPDX-License-Identifier: Apache-2.0
"""What each family of rotations is worth, per offset and grid, as a Markdown table.

    families.py SO4CAL DUMP...

Error of the fitted table on test tokens over that of a Hadamard transform with the same offset, grid and scale:
geometric mean over all heads and sides of all dumps, and the worst head. 3 bits, blocks of 32.
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

FAMILIES = ["none", "planar", "left", "so4", "butterfly"]
CODECS = {"symmetric, absmax": ["--grid", "symmetric", "--scale", "absmax"], "lloyd, mse": ["--grid", "lloyd", "--scale", "mse"]}
SPLITS = ["70,15,15", "70,0,30"]


def ratios(so4cal: str, dump: str, options: list[str]) -> list[float]:
    """calibrated / hadamard_offset NMSE of every head of one dump."""
    with tempfile.TemporaryDirectory() as folder:
        table, report = str(Path(folder, "t.so4.h5")), str(Path(folder, "r.json"))
        subprocess.run([so4cal, "fit", dump, "-o", table, *options], check=True, capture_output=True)
        subprocess.run([so4cal, "report", table, dump, "-o", report], check=True, capture_output=True)
        heads = json.loads(Path(report).read_text())["heads"]
        return [h["errors"]["calibrated"]["nmse"] / h["errors"]["hadamard_offset"]["nmse"] for h in heads]


def main() -> None:
    so4cal, *dumps = sys.argv[1:]
    for split in SPLITS:
        columns = [(offset, codec) for offset in ("none", "mean") for codec in CODECS]
        print(f"\n`--split {split}`, {len(dumps)} dumps\n")
        print("| rotation | " + " | ".join(f"offset {offset}, {codec}" for offset, codec in columns) + " |")
        print("|---" * (len(columns) + 1) + "|")
        for family in FAMILIES:
            cells = []
            for offset, codec in columns:
                options = ["--preset", "seed", "--split", split, "--rotation", family, "--offset", offset, *CODECS[codec]]
                options += ["--block", "32"]
                all_heads = [r for dump in dumps for r in ratios(so4cal, dump, options)]
                mean = math.exp(sum(map(math.log, all_heads)) / len(all_heads))
                cells.append(f"{mean:.3f} (worst {max(all_heads):.2f})")
            print(f"| {family} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
