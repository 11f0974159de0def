#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes exports/NAME (a file, or a folder of two .pt files), each with one defect that a hostile writer would choose, and
exports/expected.json: words that the error of `so4cal import` must have.

Needs Python's standard library. Running it again gives the same files: python3 make_bad_exports.py
"""
import io
import json
import pickle
import shutil
import struct
import zipfile
from pathlib import Path

FOLDER = Path(__file__).parent / "exports"
EXPECTED: dict[str, list[str]] = {}
DATE = (1980, 1, 1, 0, 0, 0)


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type = method
            archive.writestr(info, data)
    return stream.getvalue()


def oscar(name: str, words: list[str], k: bytes, v: bytes | None = None) -> None:
    folder = FOLDER / name
    folder.mkdir()
    (folder / "k_rotation.pt").write_bytes(k)
    (folder / "v_rotation.pt").write_bytes(k if v is None else v)
    EXPECTED[name] = words


def file(name: str, words: list[str], data: bytes) -> None:
    (FOLDER / name).write_bytes(data)
    EXPECTED[name] = words


class Calls:
    def __reduce__(self) -> tuple[object, ...]:
        return exec, ("raise SystemExit('called')",)


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def tensor_pickle(shape: tuple[int, ...], numel: int) -> bytes:
    """{"layers": {0: {"rotation": tensor}}} as torch.save writes it, of a storage "0" with numel floats."""

    def number(value: int) -> bytes:
        return b"\x8a\x08" + struct.pack("<q", value)

    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + number(numel) + b"tQ"
    sizes = b"(" + b"".join(map(number, shape)) + b"t(" + b"".join(number(s % 2**63) for s in strides) + b"t"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(0) + sizes + b"\x89ccollections\nOrderedDict\n)RtR"
    return b"\x80\x02}(" + text("layers") + b"}(K\x00}(" + text("rotation") + tensor + b"uuu."


def torch_files() -> None:
    oscar("pickle_calls", ["names '__builtin__.exec'", "refused"], zipped({"t/data.pkl": pickle.dumps(Calls(), 2)}))
    oscar("pickle_protocol_4", ["opcode"], zipped({"t/data.pkl": pickle.dumps({"layers": Calls()}, 4)}))
    oscar("pickle_truncated", ["truncated"], zipped({"t/data.pkl": tensor_pickle((1, 8, 8), 64)[:-20]}))
    oscar("no_pickle", ["no data.pkl"], zipped({"t/data/0": b""}))
    bomb = zipped({"t/data.pkl": tensor_pickle((1, 8, 8), 64), "t/data/0": bytes(1 << 24)}, zipfile.ZIP_DEFLATED)
    oscar("zip_bomb", ["is compressed"], bomb)
    good = zipped({"t/data.pkl": tensor_pickle((1, 8, 8), 64), "t/data/0": bytes(256)})
    oscar("zip_wrong_crc", ["member 't/data/0' has another CRC"], good.replace(bytes(256), bytes(255) + b"\1"))
    directory = good.index(b"PK\1\2")
    oscar("zip_size_beyond_file", ["truncated"], good[: directory + 20] + struct.pack("<II", 1 << 30, 1 << 30) + good[directory + 28 :])
    second = good.index(b"PK\1\2", directory + 1)
    oscar("zip_overlap", ["not where the directory says"], good[: second + 42] + struct.pack("<I", 7) + good[second + 46 :])
    end = good.index(b"PK\5\6")
    oscar("zip_many_members", ["more members"], good[: end + 8] + struct.pack("<HH", 60000, 60000) + good[end + 12 :])
    oscar("tensor_beyond_storage", ["outside its storage"], zipped({"t/data.pkl": tensor_pickle((1000, 1024, 1024), 64), "t/data/0": bytes(256)}))
    oscar("tensor_shape_overflows", ["outside its storage"], zipped({"t/data.pkl": tensor_pickle((2**62, 2**62), 64), "t/data/0": bytes(256)}))
    oscar("rotation_zero", ["layer 0 k head 0", "not orthogonal"], good)


def safetensors(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def safetensors_files() -> None:
    def entry(begin: int, end: int, shape: list[int]) -> dict[str, object]:
        return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}

    def both(k: dict[str, object], v: dict[str, object]) -> bytes:
        return json.dumps({"layers.0.k_rotation": k, "layers.0.v_rotation": v}).encode()

    file("header_of_2_to_60.safetensors", ["claims a header of 1152921504606846976 bytes"], safetensors(b"{}", length=2**60))
    file("overlap.safetensors", ["overlap"], safetensors(both(entry(0, 256, [1, 8, 8]), entry(128, 384, [1, 8, 8])), bytes(384)))
    file("hole.safetensors", ["hole"], safetensors(both(entry(0, 256, [1, 8, 8]), entry(300, 556, [1, 8, 8])), bytes(556)))
    file("shape_overflows.safetensors", ["too large"], safetensors(both(entry(0, 256, [2**62, 8, 8]), entry(256, 512, [1, 8, 8])), bytes(512)))
    file("beyond_file.safetensors", ["truncated"], safetensors(both(entry(0, 256, [1, 8, 8]), entry(256, 512, [1, 8, 8])), bytes(300)))
    file("deep.safetensors", ["header"], safetensors(b'{"a":' * 100000))


def gguf(tensors: int, keys: int, rest: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest


def gguf_files() -> None:
    def string(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    def tensor(name: bytes, extents: tuple[int, ...], offset: int) -> bytes:
        return string(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, 0, offset)

    file("counts.gguf", ["claims 1152921504606846976"], gguf(2**60, 2**60, bytes(64)))
    file("key_length.gguf", ["more bytes"], gguf(0, 1, struct.pack("<Q", 2**62) + bytes(64)))
    array = string(b"a") + struct.pack("<IIQ", 9, 10, 2**59)
    file("array_length.gguf", ["an array claims"], gguf(0, 1, array + bytes(64)))
    file("tensor_beyond_file.gguf", ["behind the end"], gguf(1, 0, tensor(b"blk.0.attn_k_rot.weight", (64, 64), 0) + bytes(64)))
    file("tensor_overflows.gguf", ["too large"], gguf(1, 0, tensor(b"blk.0.attn_k_rot.weight", (2**62, 2**62), 0) + bytes(64)))
    file("no_rotations.gguf", ["no tensors blk.N.attn_k_rot"], gguf(0, 0, bytes(64)))


def onnx_files() -> None:
    file("length.onnx", ["truncated"], b"\x3a" + b"\xff" * 8 + b"\x7f" + bytes(64))
    file("varint.onnx", ["damaged"], b"\xff" * 64)
    file("empty.onnx", ["no initializers"], b"")


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    torch_files()
    safetensors_files()
    gguf_files()
    onnx_files()
    (FOLDER / "expected.json").write_text(json.dumps(EXPECTED, indent=1) + "\n")


if __name__ == "__main__":
    main()
