# SPDX-License-Identifier: Apache-2.0
"""greedy.py on a tiny model: its texts are the most likely tokens, its counts and bytes are right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache

import greedy
from codec_sets import load_codecs
from conftest import ROOT
from so4_cache import So4Cache
from tiny_models import random_tokens, tiny_model

NEW = 12


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model("qwen3")


@pytest.fixture
def command_line(model: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """main() on the tiny model; a prompt is the seed of its 10 tokens."""
    monkeypatch.setattr(greedy, "load_model", lambda *_: model)

    def tokenizer(line: str, **_: Any) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.tensor([random_tokens(10, int(line))])}

    monkeypatch.setattr(greedy, "load_tokenizer", lambda _: tokenizer)
    return greedy.main


def most_likely(model: Any, tokens: list[int]) -> list[int]:
    """Without any cache and without generate()."""
    for _ in range(NEW):
        with torch.no_grad():
            tokens = [*tokens, int(model(torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax())]
    return tokens[-NEW:]


def test_common_beginning_by_hand() -> None:
    assert greedy.common_length([1, 2, 3], [1, 2, 3]) == 3
    assert greedy.common_length([1, 2, 3], [1, 9]) == 1  # stopped where it left
    assert greedy.common_length([1, 2, 3], [9, 2, 3]) == 0


def test_continuation_is_the_most_likely_text_until_it_leaves(model: Any) -> None:
    tokens = random_tokens(10)
    prompt, expected = torch.tensor([tokens]), most_likely(model, tokens)
    assert greedy.continuation(model, prompt, DynamicCache(config=model.config), NEW) == expected
    _, codecs = load_codecs("q8_0")
    exact = So4Cache(model.config, codecs, sink=1000)
    assert greedy.continuation(model, prompt, exact, NEW, expected) == expected
    other = [*expected[:4], expected[4] + 1, *expected[5:]]
    assert greedy.continuation(model, prompt, DynamicCache(config=model.config), NEW, other) == expected[:5]


def test_counts_and_bytes(model: Any, command_line: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts are those of whole texts, of which the coarser code leaves one within 12 tokens. Bytes of the last prompt:
    3 layers, 2 sides, 2 heads, 32 channels; 10 + 12 tokens less the newest, of which 4 are exact."""
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("1\n2\n\n3\n", encoding="utf-8")
    command = ["model", str(prompts), "--settings", "q8_0", "q4_0", "--tokens", str(NEW)]
    assert command_line([*command, "--json", str(tmp_path / "out.json")]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    for name in ("q8_0", "q4_0"):
        expected = []
        for seed in (1, 2, 3):
            cache = So4Cache(model.config, load_codecs(name)[1])
            tokens = random_tokens(10, seed)
            text = greedy.continuation(model, torch.tensor([tokens]), cache, NEW)
            expected.append(next((i for i, x in enumerate(most_likely(model, tokens)) if x != text[i]), NEW))
        assert found[name]["same_tokens"] == expected
        assert found[name]["packed"] == 3 * 2 * 2 * 17 * {"q8_0": 34, "q4_0": 18}[name]
        assert found[name]["exact"] == 3 * 2 * 2 * 4 * 32 * 4 and found[name]["decoded"] == 0
    assert min(found["q4_0"]["same_tokens"]) < NEW
    printed = capsys.readouterr().out
    assert f"3 prompts, {NEW} new tokens, sink 4, recent 0; exact cache {3 * 2 * 2 * 21 * 32 * 4} bytes" in printed
    assert "q8_0: same tokens: median" in printed and "8.500 bits per packed value" in printed


def test_prompts_and_errors(command_line: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    default = greedy.parse_arguments(["model", "--settings", "q4_0"]).prompts
    assert default == ROOT / "app/transformers/prompts.txt"
    assert len(default.read_text(encoding="utf-8").splitlines()) == 20
    (tmp_path / "empty.txt").write_text("\n")
    for name, reason in (("empty.txt", "expected a prompt per line"), ("absent.txt", "expected a readable UTF-8 text")):
        assert command_line(["model", str(tmp_path / name), "--settings", "q4_0"]) == 1
        assert reason in capsys.readouterr().err
