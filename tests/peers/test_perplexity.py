# SPDX-License-Identifier: Apache-2.0
"""perplexity.py: its sums against formulas, its command line on the real model, stopping and going on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import perplexity
from codec_sets import load_codecs
from load_model import InputError
from tiny_models import random_tokens, tiny_model
from window_scores import RoundTrip, WindowScore, compare, mean_scores, score_window, window_logits

ROOT = Path(__file__).resolve().parents[2]


def test_scores_by_hand() -> None:
    """Two tokens of a vocabulary of two. Exact: (3/4, 1/4), setting: (1/4, 3/4); next token is 0. The second token
    has no next one, so that its logits don't count. KL = 3/4 ln 3 + 1/4 ln 1/3 = 1/2 ln 3."""
    exact = torch.log(torch.tensor([[3.0, 1.0], [9.0, 1.0]]))
    logits = torch.log(torch.tensor([[1.0, 3.0], [1.0, 9.0]]))
    _, codecs = load_codecs("q8_0")
    score = score_window([1, 0], exact, logits, RoundTrip(codecs, 4))
    assert (score.tokens, score.agree) == (1, 0)
    assert score.nll == pytest.approx(np.log(4), rel=1e-6) and score.kl == pytest.approx(np.log(3) / 2, rel=1e-6)
    own = score_window([1, 0], exact, exact, None)
    assert own == WindowScore(1, pytest.approx(np.log(4 / 3), rel=1e-6), 0.0, 1, 0, 0)


def test_long_windows_are_scored_in_parts() -> None:
    """300 tokens, more than two parts: the same sums as torch's own losses in one go, in double."""
    generator = torch.Generator().manual_seed(3)
    exact, logits = (torch.randn((300, 50), generator=generator) for _ in range(2))
    tokens = torch.randint(50, (300,), generator=generator)
    _, codecs = load_codecs("q8_0")
    score = score_window(tokens.tolist(), exact, logits, RoundTrip(codecs, 4))
    log_p, log_q = (x[:-1].double().log_softmax(-1) for x in (exact, logits))
    kl = torch.nn.functional.kl_div(log_q, log_p, reduction="sum", log_target=True)
    nll = torch.nn.functional.nll_loss(log_q, tokens[1:], reduction="sum")
    assert score.kl == pytest.approx(float(kl), rel=1e-5) and score.nll == pytest.approx(float(nll), rel=1e-5)
    assert score.agree == int((log_p.argmax(-1) == log_q.argmax(-1)).sum())


def windows(nll: list[float], kl: list[float]) -> list[WindowScore]:
    return [WindowScore(10, n, k, 5, 14, 32) for n, k in zip(nll, kl, strict=True)]


def test_means_and_intervals_by_hand() -> None:
    a, b = windows([20, 40], [2, 6]), windows([10, 30], [1, 3])
    means = mean_scores(a, 32)
    assert means["nll"] == 3 and means["kl"] == 0.4 and means["top1_agreement"] == 0.5
    assert means["bits_per_value"] == 3.5 and means["perplexity"] == pytest.approx(np.exp(3))
    assert mean_scores([WindowScore(10, 1, 0, 10, 0, 0)], 32)["bits_per_value"] == 32
    pair = compare(a, b, 2000, 1)
    assert pair["kl_ratio"] == {"value": 2.0, "interval": [2.0, 2.0]}  # 2 in every window, so in every sample
    assert pair["nll_difference"] == {"value": 1.0, "interval": [1.0, 1.0]}
    kl = pair["kl_difference"]  # .1 and .3 in the two windows: a sample has one of them twice, or both
    assert kl["value"] == pytest.approx(0.2) and kl["interval"] == pytest.approx([0.1, 0.3])
    assert pair == compare(a, b, 2000, 1)
    assert "kl_ratio" not in compare(a, windows([1, 1], [0, 0]), 10, 1)


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "gemma2"])
def test_round_trip_reaches_attention(name: str) -> None:
    """Nothing to pack, all tokens are sinks: equal logits. At 8.5 bits they move, but little. Nothing stays behind."""
    model, tokens = tiny_model(name), random_tokens(40)
    _, codecs = load_codecs("q8_0")
    exact = window_logits(model, tokens, None)
    assert torch.equal(window_logits(model, tokens, RoundTrip(codecs, 40)), exact)
    round_trip = RoundTrip(codecs, 4)
    moved = (window_logits(model, tokens, round_trip) - exact).abs().max() / exact.abs().max()
    assert 0 < moved < 0.05
    assert round_trip.packed_values == 3 * 2 * 2 * 36 * 32 and round_trip.packed_bytes == 3 * 2 * 2 * 36 * 34
    assert torch.equal(window_logits(model, tokens, None), exact)


@pytest.fixture
def command_line(loaders: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """main() of the script with the cached loaders."""
    for name, loader in loaders.items():
        monkeypatch.setattr(perplexity, name, loader)
    return perplexity.main


def test_command_line_stops_and_goes_on(
    command_line: Any, smollm2_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """Three windows of 64 tokens of the licence; interrupted in the middle; the files end as those of one run."""
    folder = tmp_path / "results"
    command = [str(smollm2_path), str(ROOT / "LICENSE"), "-o", str(folder), "--ctx", "64", "--start", "50"]
    command += ["--settings", "q4_0", "hadamard+q4_0", "--pair", "hadamard+q4_0,q4_0"]
    score, calls = perplexity.score_window, []

    def interrupted(*arguments: Any) -> WindowScore:
        calls.append(arguments)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return score(*arguments)

    monkeypatch.setattr(perplexity, "score_window", interrupted)
    assert command_line([*command, "--windows", "3"]) == 130
    before = {file.name: json.loads(file.read_text()) for file in folder.iterdir()}
    assert sorted(before) == ["exact.json", "hadamard+q4_0.json", "q4_0.json"]
    assert command_line([*command, "--windows", "3"]) == 0
    assert len(calls) == 5 + 9 - 4  # only what was missing
    capsys.readouterr()
    assert command_line([*command, "--windows", "3"]) == 0
    printed = capsys.readouterr()
    assert len(calls) == 10 and "tokens 50 to 241: 3 windows of at most 64, 189 tokens scored" in printed.out
    summary = json.loads((folder / "summary.json").read_text())
    settings = summary["settings"]
    assert settings["exact"]["kl"] == 0 and settings["exact"]["top1_agreement"] == 1
    assert all(np.isfinite(list(row.values())).all() for row in settings.values())
    assert settings["q4_0"]["bits_per_value"] == 4.5
    assert 0 < settings["hadamard+q4_0"]["kl"] < settings["q4_0"]["kl"] < 1
    assert 1 < settings["exact"]["perplexity"] < settings["q4_0"]["perplexity"] < 100
    low, high = summary["pairs"][0]["kl_ratio"]["interval"]
    assert 0 < low <= summary["pairs"][0]["kl_ratio"]["value"] <= high
    for name, content in before.items():
        windows_after = json.loads((folder / name).read_text())["windows"]
        assert content["windows"].items() <= windows_after.items() and len(windows_after) == 3
    assert command_line([*command, "--windows", "3", "--sink", "0"]) == 1
    assert re.search("exact.json: holds results of another run", capsys.readouterr().err)


def test_bad_arguments(command_line: Any, smollm2_path: Path, tmp_path: Path, capsys: Any) -> None:
    command = [str(smollm2_path), str(ROOT / "LICENSE"), "-o", str(tmp_path / "out"), "--settings"]
    cases = [
        (["q5_1"], "setting q5_1: expected one of exact, q4_0, "),
        (["q4_0", "q4_0"], "q4_0 is there twice"),
        (["q4_0", "--pair", "q4_0,best"], "--pair: best is none of the settings exact, q4_0"),
        (["q4_0", "--tokens", "65", "--ctx", "64"], "the last window has 1 tokens, too few to score"),
    ]
    for options, reason in cases:
        assert command_line([*command, *options]) == 1
        assert reason in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    for options in (["q4_0", "--pair", "a"], ["q4_0", "--tokens", "9", "--windows", "2"]):
        with pytest.raises(SystemExit) as stop:
            command_line([*command, *options])
        assert stop.value.code == 2
    capsys.readouterr()


def test_layers_that_share_a_cache_are_refused(
    command_line: Any, smollm2_path: Path, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(perplexity, "load_model", lambda *_: tiny_model("gemma3n"))
    command = [str(smollm2_path), str(ROOT / "LICENSE"), "-o", str(tmp_path / "out"), "--settings", "q8_0"]
    assert command_line([*command, "--ctx", "16", "--windows", "1"]) == 1
    assert "found that layers 2 read those of other layers" in capsys.readouterr().err


def test_damaged_results_are_refused(tmp_path: Path) -> None:
    (tmp_path / "best.json").write_text('{"what": {}, "windows": 3}')
    with pytest.raises(InputError, match="best.json: holds results of another run"):
        perplexity.Results(tmp_path, "best", {}, force=False)
    assert perplexity.Results(tmp_path, "best", {}, force=True).get(0, [1]) is None
