# SPDX-License-Identifier: Apache-2.0
"""so4_cache.py and what it stands on: head table bytes, the codec, transformers' own caches, ggml's."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from transformers import DynamicCache

from codec import CodecLibrary, find_library
from codec_sets import GgmlCodecs, TableCodecs, decode_heads, encode_heads, load_codecs
from ggml_blocks import Q4_0, Q8_0, hadamard
from load_model import InputError
from so4_cache import So4Cache
from table_heads import TableHeads, read_table
from table_math import hadamard_matrix, map_of_head
from tiny_models import random_tokens, tiny_model

FAMILIES = ["butterfly", "so4", "left", "planar", "none", "dense", "metric", "d128"]


@pytest.fixture(scope="module")
def library() -> CodecLibrary:
    try:
        return CodecLibrary()
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def samples() -> Path:
    """What the program write_sample_table made, by CTest or before by hand."""
    folder = os.environ.get("SO4CAL_SAMPLES")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SO4CAL_SAMPLES: expected the folder that write_sample_table filled")
    return Path(folder)


def exported_bytes(header: Path) -> dict[tuple[int, str, int], bytes]:
    pattern = r"so4cal_layer(\d+)_([kv])_head(\d+)\[\d+\] = \{([^}]*)\}"
    found = re.findall(pattern, header.read_text(encoding="utf-8"))
    return {(int(i), side, int(head)): bytes(map(int, re.findall(r"\d+", text))) for i, side, head, text in found}


@pytest.mark.parametrize("family", FAMILIES)
def test_head_table_bytes_are_those_of_the_c_export(family: str, samples: Path) -> None:
    """Samples have every family, identity and fitted heads, signs in some heads, offsets, metrics, two head_dims."""
    table = read_table(samples / f"{family}.h5")
    ours = {(layer, side, h): head for (layer, side), heads in table.heads.items() for h, head in enumerate(heads)}
    assert ours == exported_bytes(samples / f"{family}.h") and len(ours) >= 4


@pytest.mark.parametrize("family", ["butterfly", "so4", "none"])
def test_decoded_rows_lie_on_the_lattice_of_the_table(family: str, samples: Path, library: CodecLibrary) -> None:
    """U (x_hat - mu) of the map in numpy has at most 2^3 values per block: the right map and offset were loaded."""
    table = read_table(samples / f"{family}.h5")
    x = np.random.default_rng(5).standard_normal((6, 64)).astype(np.float32)
    with h5py.File(samples / f"{family}.h5") as file:
        group = file["layers/0/k"]
        for h, head in enumerate(table.heads[0, "k"]):
            arrays = [group[name][h] if name in group else None for name in ("quaternions", "signs", "dense")]
            u = map_of_head(64, int(group["chosen"][h]), bool(group.attrs["hadamard"]), group.attrs["strides"], *arrays)
            codec = library.head(head, "sample")
            z = (codec.decode(codec.encode(x)) - group["offset"][h]) @ u.T
            levels = np.array([-2.15180, -1.34376, -0.75588, -0.24505, 0.24505, 0.75588, 1.34376, 2.15180])
            for block in z.reshape(-1, 16):
                scales = np.abs(block).max() / np.abs(levels[:4])  # the largest level in use is one of four
                misses = [np.abs(block[:, None] / s - levels).min(1).max() for s in scales]
                assert min(misses) < 1e-4  # float32 through a map of 64 channels, relative to the scale


def test_bad_tables_and_libraries(tmp_path: Path, library: CodecLibrary, samples: Path) -> None:
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file.attrs["format"] = "something"
    (tmp_path / "text.h5").write_text("no table")
    with pytest.raises(InputError, match="other.h5: expected format so4cal-table, version 1, found something"):
        read_table(other)
    with pytest.raises(InputError, match=r"text.h5: expected a native table \(.so4.h5\)"):
        read_table(tmp_path / "text.h5")
    with pytest.raises(InputError, match="expected the library libso4codec.so, found no file"):
        find_library(tmp_path / "absent.so")
    with pytest.raises(InputError, match="text.h5: cannot be loaded as libso4codec"):
        CodecLibrary(tmp_path / "text.h5")
    with pytest.raises(InputError, match="layer 3 k: head table bytes: .*SO4HEAD"):
        library.head(b"nonsense" * 10, "layer 3 k")
    head = library.head(read_table(samples / "so4.h5").heads[0, "k"][0], "layer 0 k head 0")
    x = np.zeros((3, 64), np.float32)
    x[1, 7] = np.nan
    with pytest.raises(InputError, match=r"layer 0 k head 0: row 1, channel \d+: .*(NaN|finite)"):
        head.encode(x)
    with pytest.raises(InputError, match="expected one of exact, q4_0, hadamard.q4_0, q8_0, a table or NAME=TABLE"):
        load_codecs("q5_1")


def test_q4_0_by_hand() -> None:
    """d = -16 / -8 = 2. Codes trunc(x / 2 + 8.5): -16 -> 0, 15 -> 15 (16, capped), 1 -> 9, 0.9 -> 8, -3 -> 7."""
    x = np.zeros((1, 32), np.float32)
    x[0, [0, 1, 2, 3, 16]] = -16, 15, 1, 0.9, -3
    packed = Q4_0.pack(x)
    assert packed.shape == (1, 18)
    assert packed[0, :6].tolist() == [0x00, 0x40, 0x70, 0x8F, 0x89, 0x88]  # fp16 of 2 is 0x4000; byte 0: codes 0 and 7
    expected = np.zeros(32, np.float32)
    expected[[0, 1, 2, 16]] = -16, 14, 2, -2
    np.testing.assert_array_equal(Q4_0.unpack(packed)[0], expected)
    assert not Q4_0.unpack(Q4_0.pack(np.zeros((2, 32), np.float32))).any()


def test_q8_0_by_hand() -> None:
    """d = 254 / 127 = 2: 254 -> 127, 3 -> 1.5 -> 2, -3 -> -2 (halves away from zero), 0.9 -> 0."""
    x = np.zeros((1, 32), np.float32)
    x[0, :4] = 254, 3, -3, 0.9
    packed = Q8_0.pack(x)
    assert packed.shape == (1, 34) and packed[0, :6].tolist() == [0x00, 0x40, 127, 2, 254, 0]
    assert Q8_0.unpack(packed)[0, :4].tolist() == [254, 4, -4, 0]


def test_against_gguf() -> None:
    """The gguf package has its own numpy version of both types; one sign of the largest value per row, no ties."""
    gguf = pytest.importorskip("gguf")
    x = np.random.default_rng(6).standard_normal((40, 96)).astype(np.float32)
    for ours, name in ((Q4_0, "Q4_0"), (Q8_0, "Q8_0")):
        kind = gguf.GGMLQuantizationType[name]
        theirs = gguf.quants.quantize(x, kind)
        np.testing.assert_array_equal(ours.pack(x).reshape(40, -1), theirs)
        np.testing.assert_array_equal(ours.unpack(ours.pack(x)).reshape(40, 96), gguf.quants.dequantize(theirs, kind))


def test_hadamard_of_sections() -> None:
    x = np.random.default_rng(7).standard_normal((3, 96)).astype(np.float32)
    np.testing.assert_allclose(hadamard(x), x @ hadamard_matrix(96), atol=1e-5)  # five additions in float32


# The cache, on models of a few thousand weights with the table of 2 KV heads that the codec set makes up.


class SampleCodecs(TableCodecs):
    """A sample's heads for every layer, those of layer 0: the tiny models have 3 layers of 2 heads."""

    def __init__(self, path: Path, library: CodecLibrary) -> None:
        heads = read_table(path).heads
        layer = {side: heads[min(layer for layer, _ in heads), side][:2] for side in "kv"}
        keys_for_both = layer["k"]
        super().__init__(TableHeads(path, "sample", {(i, s): keys_for_both for i in range(3) for s in "kv"}), library)


@pytest.fixture(scope="module")
def codecs(samples: Path, library: CodecLibrary) -> TableCodecs:
    return SampleCodecs(samples / "metric.h5", library)  # 32 channels, refined rounding


def states(tokens: int, batch: int = 1, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn((batch, 2, tokens, 32), generator=generator) for _ in range(2))


def round_trip(codecs: TableCodecs, x: torch.Tensor, layer: int, side: str) -> torch.Tensor:
    heads = codecs.side(layer, side, 2, 32)
    return torch.from_numpy(np.stack([decode_heads(heads, encode_heads(heads, item)) for item in x.numpy()]))


@pytest.mark.parametrize("keep_decoded", [False, True])
@pytest.mark.parametrize("steps", [[12], [5, 1, 1, 5], [1] * 12])
def test_first_and_latest_tokens_are_exact_the_others_decoded(
    steps: list[int], keep_decoded: bool, codecs: TableCodecs
) -> None:
    """In whatever steps 12 tokens come, the cache ends with 2 exact, 7 packed, 3 exact; equal bits, no tolerance."""
    cache = So4Cache(tiny_model("qwen3").config, codecs, sink=2, recent=3, keep_decoded=keep_decoded)
    k, v = states(12, batch=2)
    at = 0
    for step in steps:
        seen = cache.update(k[:, :, at : at + step], v[:, :, at : at + step], 1)
        at += step
    for x, found, side in ((k, seen[0], "k"), (v, seen[1], "v")):
        expected = torch.cat([x[:, :, :2], round_trip(codecs, x[:, :, 2:9], 1, side), x[:, :, 9:]], dim=2)
        assert torch.equal(found, expected)
    memory = cache.memory()
    row_bytes = codecs.side(1, "k", 2, 32)[0].row_bytes
    assert memory.packed == 2 * 2 * 2 * 7 * row_bytes and memory.packed_values == 2 * 2 * 2 * 7 * 32
    assert memory.exact == 2 * 2 * 2 * 5 * 32 * 4 and cache.stored_bytes() == memory.packed + memory.exact
    assert memory.decoded == (2 * 2 * 2 * 7 * 32 * 4 if keep_decoded else 0)
    assert cache.get_seq_length(1) == 12 and cache.get_mask_sizes(3, 1) == (15, 0)


def test_changes_of_batch_and_length(codecs: TableCodecs) -> None:
    cache = So4Cache(tiny_model("qwen3").config, codecs, sink=2, recent=3)
    k, v = states(10, batch=3)
    cache.update(k, v, 0)
    layer = cache.layers[0]
    before = layer.sides[0].read()
    layer.reorder_cache(torch.tensor([2, 0]))
    assert torch.equal(layer.sides[0].read(), before[[2, 0]])
    layer.batch_repeat_interleave(2)
    assert torch.equal(layer.sides[0].read(), before[[2, 2, 0, 0]])
    layer.crop(-4)
    assert torch.equal(layer.sides[0].read(), before[[2, 2, 0, 0], :, :6]) and layer.get_seq_length() == 6
    cache.reset()
    assert cache.get_seq_length() == 0 and cache.stored_bytes() == 0


@pytest.mark.parametrize("name", ["qwen3", "gemma3"])
def test_all_tokens_exact_is_dynamic_cache(name: str, codecs: TableCodecs) -> None:
    """With `recent` beyond the text nothing is packed: same logits as DynamicCache, over sliding windows of 8 too."""
    model, tokens = tiny_model(name), torch.tensor([random_tokens(30)])
    with torch.no_grad():
        for sink, recent in ((0, 1000), (1000, 0), (3, 1000)):
            ours = So4Cache(model.config, codecs, sink=sink, recent=recent)
            theirs = DynamicCache(config=model.config)
            for part in (slice(0, 13), slice(13, 14), slice(14, 30)):
                a, b = (model(tokens[:, part], cache=cache).logits for cache in (ours, theirs))
                assert torch.equal(a, b)
            assert ours.memory().packed == 0 and ours.get_seq_length() == 30


def test_sliding_windows_keep_their_window(codecs: TableCodecs) -> None:
    model, tokens = tiny_model("gemma3"), torch.tensor([random_tokens(30)])
    cache = So4Cache(model.config, codecs, sink=2, recent=2)
    with torch.no_grad():
        model(tokens[:, :20], cache=cache)
        model(tokens[:, 20:21], cache=cache)
    assert [len(layer.sides[0]) for layer in cache.layers] == [7, 21, 7]  # window 8: the new token and 7 before it
    assert [layer.sides[0].first.shape[2] for layer in cache.layers] == [0, 2, 0]
    assert cache.get_mask_sizes(1, 0) == (8, 14) and cache.get_mask_sizes(1, 1) == (22, 0)


def test_models_and_tables_that_do_not_fit(codecs: TableCodecs) -> None:
    with pytest.raises(InputError, match="layer 0 k: the model has 2 heads of 16 channels, the table 2 of 32"):
        cache = So4Cache(tiny_model("llama").config, codecs)
        tiny_model("llama")(torch.tensor([[1, 2]]), cache=cache)
    with pytest.raises(InputError, match="gemma3n_text: .* found that layers 2 read those of other layers"):
        So4Cache(tiny_model("gemma3n").config, codecs)
    with pytest.raises(InputError, match="sink -1, recent 0: expected 0 or more"):
        So4Cache(tiny_model("llama").config, codecs, sink=-1)
    with pytest.raises(InputError, match="head_dim is 16, expected a multiple of 32"):
        GgmlCodecs("q4_0", Q4_0, rotate=False).side(0, "k", 2, 16)


def test_generate_on_the_real_model(smollm2: Any, tokenizer: Any) -> None:
    """12 greedy tokens: at 8.5 bits they are those of the exact cache, decoded at every call or kept; bytes add up."""
    prompt = "The capital of France is Paris, and the capital of Italy is"
    inputs = tokenizer(prompt, return_tensors="pt")
    options = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False}
    exact = smollm2.generate(**inputs, **options)
    _, q8_0 = load_codecs("q8_0")
    for keep_decoded in (False, True):
        cache = So4Cache(smollm2.config, q8_0, keep_decoded=keep_decoded)
        assert torch.equal(smollm2.generate(**inputs, **options, cache=cache), exact)
    packed = exact.shape[1] - 1 - 4  # the last token's keys and values are never made; 4 first ones are exact
    assert cache.memory().packed == 30 * 2 * 3 * packed * 68 and cache.memory().bits_per_packed_value == 8.5
    assert cache.memory().exact == 30 * 2 * 3 * 4 * 64 * 4
