# SPDX-License-Identifier: Apache-2.0
"""Loads a causal language model and its tokenizer from a local folder or a GGUF file, and text as token ids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

# Read while the libraries are imported: no network (everything is in the given folder), no progress bars.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TQDM_DISABLE"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

MODEL_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "auto": "auto"}


class InputError(Exception):
    """Bad input. The message says which file, layer or option, what was expected and found, and what to do."""


def locate(path: Path) -> tuple[Path, str | None]:
    """The folder to load from, and the name of the GGUF file in it or None for a folder in transformers' format."""
    if path.is_file():
        if path.suffix != ".gguf":
            raise InputError(f"{path}: expected a model folder or a .gguf file, found another file")
        return path.parent, path.name
    if not path.is_dir():
        raise InputError(f"{path}: expected a local model folder or a .gguf file, found nothing there")
    if (path / "config.json").exists():
        return path, None
    gguf_files = sorted(file.name for file in path.glob("*.gguf"))
    if len(gguf_files) != 1:
        found = ", ".join(gguf_files) or "neither"
        raise InputError(f"{path}: expected config.json or exactly one .gguf file, found {found}; give the file itself")
    return path, gguf_files[0]


def _from_pretrained(auto_class: Any, path: Path, **options: Any) -> Any:
    folder, gguf_file = locate(path)
    if gguf_file is not None:
        options["gguf_file"] = gguf_file
    try:
        return auto_class.from_pretrained(folder, local_files_only=True, **options)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        reason = str(error).strip() or type(error).__name__
        raise InputError(f"{path}: transformers {transformers.__version__} cannot load it: {reason}") from error


def load_model(path: Path, model_dtype: str = "f32", device: str = "cpu") -> Any:
    """The model in evaluation mode. `model_dtype` is one of MODEL_DTYPES, `device` a name that torch knows."""
    model = _from_pretrained(transformers.AutoModelForCausalLM, path, dtype=MODEL_DTYPES[model_dtype])
    return model.to(device).eval()


def load_tokenizer(path: Path) -> Any:
    return _from_pretrained(transformers.AutoTokenizer, path)


def read_tokens(tokenizer: Any, text_file: Path) -> list[int]:
    """All token ids of a UTF-8 text, without special tokens."""
    try:
        text = text_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{text_file}: expected a readable UTF-8 text: {error}") from error
    return tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


def leading_bos(tokenizer: Any, choice: str) -> list[int]:
    """[BOS] or []: `choice` is yes, no, or auto (as the tokenizer itself would start a text)."""
    bos = tokenizer.bos_token_id
    if choice == "no" or (choice == "auto" and (bos is None or tokenizer("a")["input_ids"][:1] != [bos])):
        return []
    if bos is None:
        raise InputError("--bos yes: this tokenizer has no BOS token; use --bos no")
    return [bos]
