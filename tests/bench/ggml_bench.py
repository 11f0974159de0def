#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The codec beside ggml's types in one run: prints ggml_bench's Markdown table.

    ggml_bench.py BENCH_BUILD -o FOLDER

BENCH_BUILD is the build folder of the bench preset. Downloads llama.cpp's sources from PyPI into FOLDER and builds ggml
there, which takes some minutes the first time. Needs the packages of tests/peers/requirements.txt.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers" / "llama_cpp"))
from llama_sources import build, unpack_sources  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path, metavar="BENCH_BUILD", help="build folder of the bench preset")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="sources and build of ggml")
    arguments = parser.parse_args()
    library = arguments.bench.resolve() / "libso4cal_lib.a"
    if not library.exists():
        sys.exit(f"{library}: no such file, expected the bench preset's library: cmake --workflow --preset bench")
    arguments.output.mkdir(parents=True, exist_ok=True)
    try:
        sources = unpack_sources(arguments.output.resolve())
        program = build(sources, arguments.output.resolve() / "build", "ggml_bench", f"-DSO4CAL_LIB={library}")
    except RuntimeError as error:
        sys.exit(str(error))
    return subprocess.run([program], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
