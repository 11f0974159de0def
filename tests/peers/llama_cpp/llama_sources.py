# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's sources from PyPI, and this folder's programs built with them."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

PROJECT = Path(__file__).parent


def unpack_sources(folder: Path) -> Path:
    """Downloads llama-cpp-python's sdist (77 MB) into the folder unless it is there. Raises RuntimeError without network."""
    if not (found := list(folder.glob("llama_cpp_python-*/vendor/llama.cpp"))):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-python"]
        command += ["--no-build-isolation", "-d", str(folder), "llama-cpp-python"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"llama-cpp-python's sdist can't be had: {done.stderr.strip()[-300:]}")
        with tarfile.open(next(folder.glob("llama_cpp_python-*.tar.gz"))) as archive:
            archive.extractall(folder, filter="data")
        found = list(folder.glob("llama_cpp_python-*/vendor/llama.cpp"))
    return found[0]


def build(sources: Path, folder: Path, target: str, *definitions: str) -> Path:
    """The program `target`; raises RuntimeError with what the compiler said."""
    configure = ["cmake", "-S", str(PROJECT), "-B", str(folder), "-G", "Ninja", f"-DLLAMA_CPP={sources}"]
    for command in ([*configure, *definitions], ["cmake", "--build", str(folder), "--target", target]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return folder / target
