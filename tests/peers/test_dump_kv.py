# SPDX-License-Identifier: Apache-2.0
"""dump_kv.py against what transformers itself computes and caches, for a real model and tiny ones of every kind."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import dump_kv
from dump_kv import DumpOptions
from load_model import InputError, read_tokens
from tiny_models import random_tokens, tiny_model

SEQUENCES = [random_tokens(40, seed=3), random_tokens(24, seed=4)]
SEEN = ["llama", "qwen2", "qwen3", "gemma3", "gemma2", "gpt_oss", "gpt2", "gpt_neox", "qwen3_next", "gemma3n"]


class Truth:
    """What the model does with its own eager attention: its cache, and what goes in and out of output projections."""

    def __init__(self, model: Any, sequence: list[int]) -> None:
        self.attention: dict[int, np.ndarray] = {}  # [T, Hq * Dv]
        self.projected: dict[int, np.ndarray] = {}  # [T, M]
        handles = [self._watch(module) for module in model.modules() if self._has_projection(module)]
        model.set_attn_implementation("eager")
        with torch.no_grad():
            self.cache = model(torch.tensor([sequence]), use_cache=True).past_key_values
        for handle in handles:
            handle.remove()

    @staticmethod
    def _projection(module: torch.nn.Module) -> torch.nn.Module | None:
        return next((getattr(module, name) for name in ("o_proj", "c_proj", "dense") if hasattr(module, name)), None)

    def _has_projection(self, module: torch.nn.Module) -> bool:
        return hasattr(module, "layer_idx") and self._projection(module) is not None

    def _watch(self, module: Any) -> Any:
        def hook(projection: Any, inputs: Any, output: torch.Tensor) -> None:
            bias = getattr(projection, "bias", None)
            self.attention[module.layer_idx] = inputs[0][0].float().numpy()
            self.projected[module.layer_idx] = (output[0] if bias is None else output[0] - bias).float().numpy()

        return self._projection(module).register_forward_hook(hook)

    def cached(self, layer: int, side: str) -> np.ndarray:
        """[T, Hkv, D]; sliding layers cache their last rows only."""
        entry = self.cache.layers[layer]
        return (entry.keys if side == "k" else entry.values)[0].transpose(0, 1).numpy()


def attention(group: h5py.Group, rows: slice, sinks: np.ndarray | None = None) -> np.ndarray:
    """softmax(scale q k^T) v over causal keys in the window, in double, from the dump alone. [T, Hq * Dv]"""
    q, k, v = (group[name][rows].astype(np.float64) for name in "qkv")
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    logits = group.attrs["softmax_scale"] * np.einsum("ihd,jhd->hij", q, k)
    if "logit_softcap" in group.attrs:
        logits = group.attrs["logit_softcap"] * np.tanh(logits / group.attrs["logit_softcap"])
    distance = np.arange(len(q))[:, None] - np.arange(len(q))[None, :]
    visible = (distance >= 0) & (distance < group.attrs.get("sliding_window", len(q)))
    weights = np.where(visible, np.exp(logits), 0.0)  # the logits of these models are small
    total = weights.sum(-1, keepdims=True) + (0.0 if sinks is None else np.exp(sinks)[:, None, None])
    return np.einsum("hij,jhd->ihd", weights / total, v).reshape(len(q), -1)


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """`tolerance` is relative to the largest expected value."""
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def dump_tiny(model: Any, output: Path, **options: Any) -> Any:
    return dump_kv.dump(model, SEQUENCES, DumpOptions(output, **{"dtype": "f32"} | options), "tiny", "random tokens")


@pytest.fixture(scope="module")
def llama() -> Any:
    return tiny_model("llama")


@pytest.mark.parametrize("name", SEEN)
def test_dump_is_what_the_model_caches_and_computes(name: str, tmp_path: Path) -> None:
    """Float32 throughout: 1e-5 covers the order of sums in two implementations of attention over three layers."""
    model = tiny_model(name)
    dump_tiny(model, tmp_path / "dump.h5")
    with h5py.File(tmp_path / "dump.h5") as file:
        assert list(file["sequence_starts"]) == [0, 40]
        assert file.attrs["rope"] == "post" and file.attrs["axes"] == "token,head,channel"
        for sequence, rows in zip(SEQUENCES, (slice(0, 40), slice(40, 64)), strict=True):
            truth = Truth(model, sequence)
            for layer, group in ((int(name), group) for name, group in file["layers"].items()):
                for side in "kv":
                    cached = truth.cached(layer, side)
                    assert_close(group[side][rows][-len(cached) :], cached, 1e-5)
                check_attention(model, layer, group, rows, truth)


def check_attention(model: Any, layer: int, group: h5py.Group, rows: slice, truth: Truth) -> None:
    if "w_o" not in group:  # a gate stands between attention and projection, so there is nothing to compare with
        assert type(model).__name__ == "Qwen3NextForCausalLM"
        return
    has_sinks = "softmax_sink" in group.attrs
    sinks = model.model.layers[layer].self_attn.sinks.detach().double().numpy() if has_sinks else None
    output = attention(group, rows, sinks)
    assert_close(output, truth.attention[layer], 1e-5)
    assert_close(output @ group["w_o"][()].astype(np.float64).T, truth.projected[layer], 1e-5)


def test_layers_that_differ_are_told_apart(tmp_path: Path) -> None:
    dump_tiny(tiny_model("gemma3"), tmp_path / "gemma3.h5")
    with h5py.File(tmp_path / "gemma3.h5") as file:
        assert [file[f"layers/{i}"].attrs.get("sliding_window") for i in range(3)] == [8, None, 8]
    notes = dump_tiny(tiny_model("qwen3_next"), tmp_path / "next.h5").notes
    assert notes == ["layer 1 has no w_o: no projection reads the attention output as it is",
                     "layers 0, 2 have no attention that could be seen"]  # fmt: skip
    assert dump_tiny(tiny_model("gemma3n"), tmp_path / "gemma3n.h5").notes == [
        "layer 2 is left out: it keeps no keys and values of its own"
    ]
    dump_tiny(tiny_model("gpt_oss"), tmp_path / "oss.h5")
    with h5py.File(tmp_path / "oss.h5") as file:
        assert file["layers/0"].attrs["softmax_sink"] == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("deepseek_v2", r"layer 0: .*\(latent attention, MLA\)"),
        ("deepseek_v3", r"layer 0: .*\(latent attention, MLA\)"),
        ("bloom", "BloomForCausalLM: no layer called"),
        ("mamba", "MambaForCausalLM: no layer called"),
        ("llama4", "--ctx 40: the model attends within chunks of 16"),
    ],
)
def test_what_cannot_be_seen_is_refused(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=reason):
        dump_tiny(tiny_model(name), tmp_path / "dump.h5")
    assert list(tmp_path.iterdir()) == []


def test_added_bias_is_refused(llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose attention does more than a dump says: here, logits that fall with the distance (ALiBi)."""
    import kv_capture

    def biased(module: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, _: Any, **options: Any) -> Any:
        token = torch.arange(q.shape[2])
        distance = (token[:, None] - token[None, :]).float()
        bias = (-0.5 * distance).masked_fill(distance < 0, -torch.inf)
        return original(module, q, k, v, bias[None, None], **options)

    original = kv_capture.sdpa_attention_forward
    monkeypatch.setattr(kv_capture, "sdpa_attention_forward", biased)
    with pytest.raises(InputError, match="layer 0: its attention is not the softmax"):
        dump_tiny(llama, tmp_path / "dump.h5")


def test_model_is_left_as_it_was(llama: Any, tmp_path: Path) -> None:
    before = llama.config._attn_implementation
    dump_tiny(llama, tmp_path / "dump.h5")
    assert llama.config._attn_implementation == before


def test_query_rows(llama: Any, tmp_path: Path) -> None:
    dump_tiny(llama, tmp_path / "all.h5")
    dump_tiny(llama, tmp_path / "some.h5", queries=5)
    dump_tiny(llama, tmp_path / "none.h5", queries=0)
    with h5py.File(tmp_path / "all.h5") as every, h5py.File(tmp_path / "some.h5") as some:
        positions = some["layers/1/q_positions"][()]
        assert list(positions) == [6, 19, 32, 44, 57]  # (2 i + 1) 64 / 10, in both sequences
        assert positions.dtype == np.int64
        np.testing.assert_array_equal(some["layers/1/q"][()], every["layers/1/q"][()][positions])
        assert "q_positions" not in every["layers/1"]
    with h5py.File(tmp_path / "none.h5") as file:
        assert "q" not in file["layers/1"] and "q_positions" not in file["layers/1"]


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """Round to nearest even on the bits of float32."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def test_stored_types(llama: Any, tmp_path: Path) -> None:
    for dtype in ("f32", "f16", "bf16"):
        dump_tiny(llama, tmp_path / f"{dtype}.h5", dtype=dtype)
    exact, half, brain = (h5py.File(tmp_path / f"{dtype}.h5") for dtype in ("f32", "f16", "bf16"))
    with exact, half, brain:
        k = exact["layers/2/k"][()]
        assert half["layers/2/k"].dtype == np.float16
        np.testing.assert_array_equal(half["layers/2/k"][()], k.astype(np.float16))
        stored = brain["layers/2/k"].id
        datatype = stored.get_type()
        assert (datatype.get_size(), datatype.get_ebias(), datatype.get_fields()) == (2, 127, (15, 7, 8, 0, 7))
        bits = np.empty(k.shape, np.uint16)
        stored.read(h5py.h5s.ALL, h5py.h5s.ALL, bits, datatype)
        np.testing.assert_array_equal(bits, bfloat16_bits(k))


def test_filters(llama: Any, tmp_path: Path) -> None:
    dump_tiny(llama, tmp_path / "small.h5")
    dump_tiny(llama, tmp_path / "plain.h5", compress=False)
    with h5py.File(tmp_path / "small.h5") as small, h5py.File(tmp_path / "plain.h5") as plain:
        assert small["layers/0/k"].compression == "gzip" and small["layers/0/k"].shuffle
        assert plain["layers/0/k"].compression is None and not plain["layers/0/k"].shuffle
        np.testing.assert_array_equal(small["layers/0/k"][()], plain["layers/0/k"][()])


def test_same_bytes_twice(llama: Any, tmp_path: Path) -> None:
    dump_tiny(llama, tmp_path / "a.h5")
    dump_tiny(llama, tmp_path / "b.h5")
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


@pytest.mark.parametrize(
    ("scale", "dtype", "reason"),
    [(1e7, "f16", r"/layers/0/k from row 0: .* does not fit f16 .*--dtype bf16"), (float("nan"), "f32", "NaN or Inf")],
)
def test_values_that_do_not_fit(scale: float, dtype: str, reason: str, tmp_path: Path) -> None:
    """The probe does not look at magnitudes, so the error comes while rows are written; nothing may stay behind."""
    model = tiny_model("llama")
    with torch.no_grad():
        model.model.layers[0].self_attn.k_proj.weight[0] *= scale
    with pytest.raises(InputError, match=reason):
        dump_tiny(model, tmp_path / "dump.h5", dtype=dtype)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_dump_leaves_the_old_one(llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump_tiny(llama, tmp_path / "dump.h5", layers={1})
    old = (tmp_path / "dump.h5").read_bytes()
    with pytest.raises(InputError, match="already exists; use --force"):
        dump_tiny(llama, tmp_path / "dump.h5")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dump_kv.SequenceWriter, "_write_queries", interrupt)
    with pytest.raises(KeyboardInterrupt):
        dump_tiny(llama, tmp_path / "dump.h5", force=True)
    assert [file.name for file in tmp_path.iterdir()] == ["dump.h5"]
    assert (tmp_path / "dump.h5").read_bytes() == old


def test_chosen_layers(llama: Any, tmp_path: Path) -> None:
    dump_tiny(llama, tmp_path / "dump.h5", layers={0, 2})
    with h5py.File(tmp_path / "dump.h5") as file:
        assert sorted(file["layers"]) == ["0", "2"] and file.attrs["num_layers"] == 3
    with pytest.raises(InputError, match="layer 3, 7 cannot be dumped; this model's layers .* are 0, 1, 2"):
        dump_tiny(llama, tmp_path / "other.h5", layers={0, 3, 7})


def test_output_folder_is_missing(llama: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its folder does not exist"):
        dump_tiny(llama, tmp_path / "nowhere" / "dump.h5")


def test_context_beyond_the_model(llama: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--ctx 300: the model has 256 positions"):
        dump_kv.dump(llama, [random_tokens(300)], DumpOptions(tmp_path / "dump.h5"), "tiny", "")


def test_sequences_by_hand() -> None:
    text = list(range(10))
    assert dump_kv.make_sequences(text, [], 7, 3, 2) == [[2, 3, 4], [5, 6, 7], [8]]
    assert dump_kv.make_sequences(text, [99], 7, 3, 2) == [[99, 2, 3], [99, 4, 5], [99]]
    with pytest.raises(InputError, match="need 12 tokens of text, but the text has 10"):
        dump_kv.make_sequences(text, [], 10, 4, 2)


def test_layer_lists_by_hand() -> None:
    assert dump_kv.parse_layers("0-2,7") == {0, 1, 2, 7}
    for text in ("", "a", "3-1", "1-", "-1", "1,,2"):
        with pytest.raises(argparse.ArgumentTypeError):
            dump_kv.parse_layers(text)


# The real model: the command line, then its dump against the model.


@pytest.fixture
def command_line(loaders: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """main() of the script with the cached loaders."""
    for name, loader in loaders.items():
        monkeypatch.setattr(dump_kv, name, loader)
    return dump_kv.main


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plain English that is always there: the licence."""
    file = tmp_path_factory.mktemp("text") / "licence.txt"
    file.write_text((Path(__file__).resolve().parents[2] / "LICENSE").read_text(encoding="utf-8"), encoding="utf-8")
    return file


def test_command_line_on_the_real_model(
    command_line: Any, smollm2_path: Path, smollm2: Any, tokenizer: Any, text: Path, tmp_path: Path
) -> None:
    """The dump is f16: half a unit in its 11th bit, 2^-11 relative to each value, is the tolerance for the cache."""
    output = tmp_path / "dump.h5"
    command = [str(smollm2_path), str(text), "-o", str(output), "--tokens", "96", "--ctx", "64", "--start", "100"]
    assert command_line([*command, "--layers", "0,29"]) == 0
    tokens = read_tokens(tokenizer, text)[100:196]
    with h5py.File(output) as file:
        assert file.attrs["model"] == "SmolLM2-135M-Instruct.Q4_1" and file.attrs["num_layers"] == 30
        assert list(file["sequence_starts"]) == [0, 64]
        for first, last in ((0, 64), (64, 96)):
            truth = Truth(smollm2, tokens[first:last])
            for layer in (0, 29):
                group = file[f"layers/{layer}"]
                for side in "kv":
                    cached = truth.cached(layer, side)
                    atol = 2e-6 * np.abs(cached).max()  # float32 sums in another order
                    np.testing.assert_allclose(group[side][first:last], cached, rtol=2**-11, atol=atol)
                output_rows = attention(group, slice(first, last))
                assert_close(output_rows, truth.attention[layer], 5e-3)
                assert_close(output_rows @ group["w_o"][()].astype(np.float64).T, truth.projected[layer], 5e-3)


def test_short_text_and_bad_paths(
    command_line: Any, smollm2_path: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [
        ([smollm2_path, text, "--tokens", "1000000"], r"need 1000000 tokens of text, but the text has \d+"),
        ([smollm2_path, tmp_path / "absent.txt"], "absent.txt: expected a readable UTF-8 text"),
        ([tmp_path, text], "expected config.json or exactly one .gguf file, found neither"),
        ([tmp_path / "absent", text], "absent: expected a local model folder or a .gguf file, found nothing there"),
        ([text, text], "expected a model folder or a .gguf file, found another file"),
    ]
    for arguments, reason in cases:
        assert command_line([*map(str, arguments), "-o", str(tmp_path / "dump.h5")]) == 1
        message = capsys.readouterr().err
        assert message.startswith("dump_kv.py: ") and re.search(reason, message), message
    assert not (tmp_path / "dump.h5").exists()


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--tokens", "0"], ["--dtype", "f64"], ["--layers", "5-1"], ["--queries", "-1"]):
        with pytest.raises(SystemExit) as stop:
            dump_kv.main(["model", "text", "-o", "dump.h5", *option])
        assert stop.value.code == 2
    capsys.readouterr()


def test_agrees_with_a_dump_made_by_others(
    smollm2: Any, tokenizer: Any, dumps: Path, wikitext: Path, tmp_path: Path
) -> None:
    """Same model and tokens, another program: rounding to f16 leaves 2^-22 of the energy, twice, at the very most."""
    with h5py.File(dumps / "smollm2_135m.h5") as theirs:
        first, last = map(int, re.findall(r"\d+", theirs.attrs["text"].split("tokens")[1]))
        tokens = read_tokens(tokenizer, wikitext)[first : last + 1]
        options = DumpOptions(tmp_path / "ours.h5", layers={int(layer) for layer in theirs["layers"]})
        dump_kv.dump(smollm2, [tokens], options, "SmolLM2", "")
        with h5py.File(tmp_path / "ours.h5") as ours:
            for layer, group in theirs["layers"].items():
                assert ours[f"layers/{layer}"].attrs["softmax_scale"] == group.attrs["softmax_scale"]
                for name in group:
                    expected = group[name][()].astype(np.float64)
                    difference = ours[f"layers/{layer}/{name}"][()] - expected
                    assert (difference**2).sum() <= 1e-8 * (expected**2).sum(), f"layer {layer} {name}"


def test_the_shipped_sample(smollm2: Any) -> None:
    sample = Path(__file__).resolve().parents[2] / "data" / "smollm2_sample.h5"
    assert sample.stat().st_size <= 5_000_000
    with h5py.File(sample) as file:
        assert list(file["sequence_starts"]) == [0, 1280] and sorted(file["layers"]) == ["0", "15"]
        for layer, group in file["layers"].items():
            w_o = smollm2.model.layers[int(layer)].self_attn.o_proj.weight.detach().numpy()
            np.testing.assert_array_equal(group["w_o"][()], w_o.astype(np.float16))
            assert group["k"].shape == group["v"].shape == (2560, 3, 64) and group["q"].shape == (384, 9, 64)
            assert all(np.isfinite(group[name][()]).all() for name in "qkv")
