# SPDX-License-Identifier: Apache-2.0
"""Merged and folded models in llama.cpp, built from the sources in llama-cpp-python's sdist. Only with SO4CAL_LONG: the
build takes some minutes, and the sdist is 77 MB."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "llama_cpp"))
import llama_sources  # noqa: E402

pytestmark = pytest.mark.skipif(not os.environ.get("SO4CAL_LONG"), reason="builds llama.cpp: run with --long")

# Where stock llama.cpp insists on knowing every tensor, and how it is told not to.
LOADER = ("src/llama-model.cpp", "ml.done_getting_tensors();", "ml.done_getting_tensors(true);")
TEXT = "The key to a small cache is to round what does not matter, and to turn the rest until it does not matter either."


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """llama_logits with llama.cpp as it is, and with one that passes over tensors that it does not know."""
    folder = tmp_path_factory.mktemp("llama_cpp")
    try:
        sources = llama_sources.unpack_sources(folder)
    except RuntimeError as error:
        pytest.skip(str(error))
    stock = shutil.copy(llama_sources.build(sources, folder / "build", "llama_logits"), folder / "stock")
    file, strict, lenient = sources / LOADER[0], LOADER[1], LOADER[2]
    code = file.read_text()
    assert code.count(strict) == 1, "llama.cpp's loader has changed: look at what it does with unknown tensors"
    file.write_text(code.replace(strict, lenient))
    return {"stock": Path(stock), "lenient": llama_sources.build(sources, folder / "build", "llama_logits")}


def logits(engine: Path, model: Path, out: Path, cache: str = "f32") -> np.ndarray:
    done = run(engine, model, TEXT, out, cache)
    assert done.returncode == 0, done.stderr[-2000:]
    return np.fromfile(out, np.float32)


def test_merged_model(engines: dict[str, Path], smollm2_gguf: Path, smollm2_table: Path, tmp_path: Path) -> None:
    merged = tmp_path / "merged.gguf"
    done = run(os.environ["SO4CAL_BINARY"], "export", smollm2_table, "-o", merged, "--merge", smollm2_gguf)
    assert done.returncode == 0, done.stderr
    before = logits(engines["stock"], smollm2_gguf, tmp_path / "before")
    assert before.size > 0 and np.isfinite(before).all()
    # Stock llama.cpp wants to know every tensor: formats/ENGINES.md says so.
    refused = run(engines["stock"], merged, TEXT, tmp_path / "after")
    assert refused.returncode == 1 and "wrong number of tensors" in refused.stderr
    assert np.array_equal(logits(engines["lenient"], merged, tmp_path / "after"), before)
