# SPDX-License-Identifier: Apache-2.0
"""Time and peak memory of whole `so4cal fit` commands. Prints a table; seconds vary with the machine.

    fit_bench.py SO4CAL SYNTHETIC_DUMP DUMP_OF_SMOLLM2

The synthetic dump has 30 layers of 3 KV heads, head_dim 64, 4,096 tokens: 180 head-sides.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MAX_MEMORY_MB = 300


def run(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak resident MB of one command."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{' '.join(command)} failed:\n{errors.decode()}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def main() -> None:
    so4cal, make_dump, real = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        synthetic = str(Path(folder, "synthetic.h5"))
        subprocess.run([make_dump, synthetic, "30", "3", "64", "4096"], check=True)
        dumps = {"synthetic, 180 head-sides": synthetic}
        if Path(real).exists():
            dumps["SmolLM2, 12 head-sides"] = real
        else:
            print(f"SKIPPED: no {real}")
        settings = {
            "seed, expected loss": ["--preset", "seed", "--loss", "expected"],
            "seed": ["--preset", "seed"],
            "best (butterfly)": ["--preset", "best"],
        }
        print(f"{'dump':28}{'fit':24}{'median s':>9}{'min s':>8}{'peak MB':>9}   ({os.cpu_count()} cores)")
        too_big = False
        for dump, path in dumps.items():
            for name, options in settings.items():
                command = [so4cal, "fit", path, "-o", str(Path(folder, "t.so4.h5")), "--force", *options]
                runs = [run(command) for _ in range(3)]
                seconds = sorted(r[0] for r in runs)
                memory = max(r[1] for r in runs)
                too_big |= memory > MAX_MEMORY_MB
                print(f"{dump:28}{name:24}{seconds[1]:9.2f}{seconds[0]:8.2f}{memory:9.0f}", flush=True)
        if too_big:
            sys.exit(f"peak memory above {MAX_MEMORY_MB} MB")


if __name__ == "__main__":
    main()
