# SPDX-License-Identifier: Apache-2.0
"""Small models as safetensors and GGUF files, written and read by hand, for fold_test.py."""
from __future__ import annotations

import json
import random
import struct
from pathlib import Path

KV_HEADS, QUERY_HEADS, DIM, WIDTH = 3, 9, 64, 16  # heads and head size of the sample dump
LAYERS = (0, 1, 15)  # the sample has 0 and 15

Numbers = list[float]
Tensor = tuple[str, list[int], bytes]  # dtype, shape, data


def bf16(values: Numbers) -> bytes:
    """Of numbers that bf16 holds exactly: the upper half of the float."""
    return b"".join(struct.pack("<f", v)[2:] for v in values)


def pack(dtype: str, values: Numbers) -> bytes:
    if dtype == "BF16":
        return bf16(values)
    return struct.pack(f"<{len(values)}{ {'F64': 'd', 'F32': 'f', 'F16': 'e'}[dtype] }", *values)


def unpack(tensor: Tensor) -> Numbers:
    dtype, _, data = tensor
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    code, size = {"F64": ("d", 8), "F32": ("f", 4), "F16": ("e", 2)}[dtype]
    return list(struct.unpack(f"<{len(data) // size}{code}", data))


def write_safetensors(path: Path, tensors: dict[str, Tensor]) -> None:
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def read_safetensors(path: Path) -> dict[str, Tensor]:
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    header.pop("__metadata__", None)
    data = whole[8 + length :]
    return {name: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])]) for name, e in header.items()}


class Model:
    """Random weights, multiples of 1/128 below 1 so that every dtype holds them exactly. Tensors in order."""

    def __init__(self, dtype: str = "F32", biases: str = "", seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.dtype = dtype
        self.tensors: dict[str, Tensor] = {}
        self.add("model.embed_tokens.weight", [5, WIDTH])
        for layer in LAYERS:
            self.add_layer(f"model.layers.{layer}.", biases)
        self.add("model.norm.weight", [WIDTH])

    def add_layer(self, before: str, biases: str) -> None:
        attention = before + "self_attn."
        self.add(before + "input_layernorm.weight", [WIDTH])
        self.add(attention + "q_proj.weight", [QUERY_HEADS * DIM, WIDTH])
        self.add(attention + "k_proj.weight", [KV_HEADS * DIM, WIDTH])
        self.add(attention + "v_proj.weight", [KV_HEADS * DIM, WIDTH])
        self.add(attention + "o_proj.weight", [WIDTH, QUERY_HEADS * DIM])
        if "v" in biases:
            self.add(attention + "v_proj.bias", [KV_HEADS * DIM])
        if "o" in biases:
            self.add(attention + "o_proj.bias", [WIDTH])

    def add(self, name: str, shape: list[int], dtype: str | None = None) -> None:
        count = 1
        for extent in shape:
            count *= extent
        values = [self.random.randrange(-127, 128) / 128 for _ in range(count)]
        self.tensors[name] = (dtype or self.dtype, shape, pack(dtype or self.dtype, values))

    def rename(self, old: str, new: str) -> None:
        self.tensors = {name.replace(old, new): tensor for name, tensor in self.tensors.items()}

    def write(self, folder: Path, config: dict | None = None) -> Path:
        self.write_files(folder, config)
        write_safetensors(folder / "model.safetensors", self.tensors)
        return folder

    def write_sharded(self, folder: Path) -> Path:
        """Each third tensor to each shard: the weights of one layer are in different files."""
        self.write_files(folder, None)
        files = [f"model-0000{i + 1}-of-00003.safetensors" for i in range(3)]
        names = list(self.tensors)
        for i, file in enumerate(files):
            write_safetensors(folder / file, {name: self.tensors[name] for name in names[i::3]})
        index = {"metadata": {}, "weight_map": {name: files[i % 3] for i, name in enumerate(names)}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        return folder

    @staticmethod
    def write_files(folder: Path, config: dict | None) -> None:
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config or {"model_type": "llama"}))
        (folder / "tokenizer.json").write_text("{}")


GGML_TYPES = {"F32": 0, "F16": 1, "BF16": 30, "Q8_0": 8}


def gguf_text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def gguf_key(key: str, value: int | float | str) -> bytes:
    if isinstance(value, str):
        return gguf_text(key) + struct.pack("<I", 8) + gguf_text(value)
    return gguf_text(key) + (struct.pack("<II", 4, value) if isinstance(value, int) else struct.pack("<If", 6, value))


def write_gguf(path: Path, tensors: dict[str, Tensor], keys: dict[str, int | float | str] | None = None) -> None:
    """Version 3, alignment 32; a tensor's extents are its shape reversed."""
    keys = {"general.architecture": "llama", **(keys or {})}
    infos, data = b"", b""
    for name, (dtype, shape, content) in tensors.items():
        infos += gguf_text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        infos += struct.pack("<IQ", GGML_TYPES[dtype], len(data))
        data += content + b"\0" * (-len(content) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(gguf_key(key, value) for key, value in keys.items()) + infos
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


def gguf_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The names that llama.cpp's converter gives."""
    renamed = {}
    for name, tensor in tensors.items():
        for old, new in [("model.layers.", "blk."), ("self_attn.o_proj", "attn_output"), ("self_attn.", "attn_"),
                         ("_proj", ""), ("input_layernorm", "attn_norm"), ("model.norm", "output_norm"),
                         ("model.embed_tokens", "token_embd")]:
            name = name.replace(old, new)
        renamed[name] = tensor
    return renamed
