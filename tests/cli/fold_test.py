# SPDX-License-Identifier: Apache-2.0
"""so4cal fold: the weights it writes follow the formulas, every other byte stays, and what can't be folded is refused."""
from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import time
import unittest
from collections.abc import Callable
from pathlib import Path

from fold_models import (DIM, KV_HEADS, LAYERS, QUERY_HEADS, WIDTH, Model, Numbers, Tensor, gguf_names,
                         read_safetensors, unpack, write_gguf, write_safetensors)
from support import BINARY, SAMPLE, CliTest, run

Matrix = list[Numbers]
ROUNDING = {"F64": 0, "F32": 2**-24, "F16": 2**-11, "BF16": 2**-8}  # half a unit in the last place of numbers from 1 to 2


def product(a: Matrix, b: Matrix) -> Matrix:
    columns = list(zip(*b))
    return [[math.fsum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def transposed(a: Matrix) -> Matrix:
    return [list(row) for row in zip(*a)]


def as_matrix(values: Numbers, columns: int) -> Matrix:
    return [values[i : i + columns] for i in range(0, len(values), columns)]


def hadamard(n: int, block: int) -> Matrix:
    return [[(-1) ** (i & j & (block - 1)).bit_count() / math.sqrt(block) if i // block == j // block else 0
             for j in range(n)] for i in range(n)]


class FoldTest(CliTest):
    """With a table of the sample dump, layers 0 and 15, fitted for one step: any rotations will do."""

    tables: dict[str, bytes] = {}

    def table(self, offset: str = "none") -> Path:
        path = self.folder / f"{offset}.so4.h5"
        if offset not in self.tables:
            self.assert_done("fit", SAMPLE, "-o", path, "--preset", "seed", "--max-iterations", 1, "--offset",
                             f"k=none,v={offset}")
            FoldTest.tables[offset] = path.read_bytes()
        path.write_bytes(self.tables[offset])
        return path

    def rotations(self, table: Path) -> dict[int, tuple[list[Matrix], list[Numbers]]]:
        """U and mu per KV head of each layer. U in float."""
        exported = self.folder / "table.safetensors"
        self.assert_done("export", table, "-o", exported, "--force")
        tensors = read_safetensors(exported)
        exported.unlink()
        found = {}
        for layer in (0, 15):
            r = as_matrix(unpack(tensors[f"layers.{layer}.v_rotation"]), DIM)
            offset = tensors.get(f"layers.{layer}.v_offset")
            mu = as_matrix(unpack(offset), DIM) if offset else [[0.0] * DIM] * KV_HEADS
            found[layer] = ([transposed(r[h * DIM : (h + 1) * DIM]) for h in range(KV_HEADS)], mu)
        return found

    def assert_folded(self, before: dict[str, Tensor], after: dict[str, Tensor], table: Path,
                      f: Matrix | None = None, naming: str = "model.layers.{}.self_attn.{}_proj") -> None:
        """By the formulas of formats/FORMATS.md. Sums of 64 products of a rotation (error 2^-25 in float) and a weight
        below 1, then rounding of numbers that stay below 8 (in biases below 64)."""
        rotations = self.rotations(table)
        f = f or hadamard(DIM, 1)
        for name, tensor in before.items():
            self.assertEqual(after[name][:2], tensor[:2])
        expected = {}
        for layer, (us, mus) in rotations.items():
            v, o = (naming.format(layer, role) for role in "vo")
            v, o = v.replace("attn_o", "attn_output"), o.replace("attn_o", "attn_output")
            into = [product(transposed(f), u) for u in us]
            rows = as_matrix(unpack(before[v + ".weight"]), WIDTH)
            expected[v + ".weight"] = [x for h in range(KV_HEADS) for row in
                                       product(into[h], rows[h * DIM : (h + 1) * DIM]) for x in row]
            rows = as_matrix(unpack(before[o + ".weight"]), QUERY_HEADS * DIM)
            parts = [product([row[j * DIM : (j + 1) * DIM] for row in rows], transposed(into[j // 3]))
                     for j in range(QUERY_HEADS)]
            expected[o + ".weight"] = [x for i in range(WIDTH) for j in range(QUERY_HEADS) for x in parts[j][i]]
            if v + ".bias" in before:
                bias = as_matrix(unpack(before[v + ".bias"]), DIM)
                expected[v + ".bias"] = [x for h in range(KV_HEADS) for (x,) in
                                         product(into[h], [[b - m] for b, m in zip(bias[h], mus[h])])]
            if o + ".bias" in before:
                mu = [m for j in range(QUERY_HEADS) for m in mus[j // 3]]
                expected[o + ".bias"] = [b + math.fsum(w * m for w, m in zip(row, mu))
                                         for b, row in zip(unpack(before[o + ".bias"]), rows)]
        for name, tensor in before.items():
            if name not in expected:
                self.assertEqual(after[name], tensor, name)
                continue
            self.assertNotEqual(after[name], tensor, name)
            tolerance = (64 if name.endswith("bias") else 4) * ROUNDING[tensor[0]] + 64 * 2**-25 * 8
            worst = max(abs(a - b) for a, b in zip(unpack(after[name]), expected[name], strict=True))
            self.assertLess(worst, tolerance, name)

    def fold(self, model: Path, table: Path, *more: object) -> tuple[Path, str]:
        out = self.folder / f"folded{model.suffix}"
        return out, self.assert_done("fold", table, "--model", model, "-o", out, *more)


class WeightsTest(FoldTest):
    def test_dtypes_of_a_folder(self) -> None:
        table = self.table()
        for dtype in ("F32", "F16", "BF16"):
            with self.subTest(dtype=dtype):
                model = Model(dtype).write(self.folder / dtype)
                out, text = self.fold(model, table, *([] if dtype == "F32" else ["--force"]))
                before = read_safetensors(model / "model.safetensors")
                self.assert_folded(before, read_safetensors(out / "model.safetensors"), table)
                self.assertIn("values of 2 layers, 3 KV heads of 64 for 9 query heads", text)
                self.assertIn("1 layers that the table lacks: 1", text)
                self.assertEqual("16-bit weights moved" in text, dtype != "F32")
                self.assertIn("so4cal export", text)

    def test_biases(self) -> None:
        """Of v alone as in Qwen2: rotated. Of both: they take an offset of the values too."""
        for biases, offset in [("v", "none"), ("vo", "none"), ("vo", "mean"), ("o", "none")]:
            with self.subTest(biases=biases, offset=offset):
                model = Model(biases=biases).write(self.folder / f"{biases}-{offset}")
                table = self.table(offset)
                out, _ = self.fold(model, table, *(["--force"] if (self.folder / "folded").exists() else []))
                after = read_safetensors(out / "model.safetensors")
                if offset == "none" and "o" in biases:  # which then stays
                    name = "model.layers.0.self_attn.o_proj.bias"
                    self.assertEqual(after[name], Model(biases=biases).tensors[name])
                    for layer in LAYERS:
                        after.pop(f"model.layers.{layer}.self_attn.o_proj.bias")
                before = read_safetensors(model / "model.safetensors")
                self.assert_folded({name: before[name] for name in after}, after, table)

    def test_shards(self) -> None:
        table, model = self.table(), Model().write_sharded(self.folder / "model")
        out, _ = self.fold(model, table)
        before, after = ({name: tensor for path in sorted(folder.glob("*.safetensors"))
                          for name, tensor in read_safetensors(path).items()} for folder in (model, out))
        self.assert_folded(before, after, table)
        index = "model.safetensors.index.json"
        self.assertEqual((out / index).read_bytes(), (model / index).read_bytes())

    def test_one_file(self) -> None:
        table, model = self.table(), self.folder / "some.safetensors"
        write_safetensors(model, Model("F64").tensors)
        out, _ = self.fold(model, table)
        self.assert_folded(read_safetensors(model), read_safetensors(out), table)

    def test_gguf(self) -> None:
        """Header and all other tensors are the same bytes: a file as a folded one would be written whole."""
        table = self.table("mean")
        for dtype in ("F32", "F16", "BF16"):
            tensors = Model(dtype, "vo").tensors
            as_safetensors, model = self.folder / f"{dtype}.safetensors", self.folder / f"{dtype}.gguf"
            write_safetensors(as_safetensors, tensors)
            write_gguf(model, gguf_names(tensors), {"llama.block_count": 16})
            out, _ = self.fold(as_safetensors, table, "--force")
            folded = read_safetensors(out)
            self.assert_folded(tensors, folded, table)
            out, _ = self.fold(model, table, "--force")
            expected = self.folder / "expected.gguf"
            write_gguf(expected, gguf_names(folded), {"llama.block_count": 16})
            self.assertEqual(out.read_bytes(), expected.read_bytes())

    def test_engine_rotations(self) -> None:
        table, model = self.table(), Model().write(self.folder / "model")
        signs = [1 if (i * i + i // 3) % 5 < 3 else -1 for i in range(2 * DIM)]
        (self.folder / "one.txt").write_text(" ".join(map(str, signs[:DIM])))
        (self.folder / "two.txt").write_text(",\n".join(map(str, signs)))
        h = hadamard(DIM, DIM)
        h_s1 = [[x * s for x, s in zip(row, signs)] for row in h]
        s2_h_s1 = [[x * s for x in row] for row, s in zip(h_s1, signs[DIM:])]
        before = read_safetensors(model / "model.safetensors")
        for name, f in [("none", hadamard(DIM, 1)), ("hadamard", h), ("hadamard:16", hadamard(DIM, 16)),
                        (f"signs:{self.folder / 'one.txt'}", h_s1), (f"signs:{self.folder / 'two.txt'}", s2_h_s1)]:
            with self.subTest(rotation=name):
                out, text = self.fold(model, table, "--engine-rotation", name, "--force")
                self.assert_folded(before, read_safetensors(out / "model.safetensors"), table, f)
                self.assertEqual("rotates values itself" in text, name != "none")
                self.assertEqual(json.loads((out / "so4cal_fold.json").read_text())["engine_rotation"], name)


class FilesTest(FoldTest):
    def test_what_goes_along(self) -> None:
        table, model = self.table(), Model().write(self.folder / "model")
        (model / "pytorch_model.bin").write_text("other weights")
        (model / "consolidated.safetensors").write_text("other weights")
        (model / "onnx").mkdir()
        (model / "vocab.txt").symlink_to(model / "tokenizer.json")
        out, text = self.fold(model, table)
        self.assertEqual(sorted(path.name for path in out.iterdir()),
                         ["config.json", "model.safetensors", "so4cal_fold.json", "tokenizer.json", "vocab.txt"])
        for name in ["pytorch_model.bin", "consolidated.safetensors", "onnx"]:
            self.assertIn(f"left out   {name}\n", text)
        self.assertFalse((out / "vocab.txt").is_symlink())
        note = json.loads((out / "so4cal_fold.json").read_text())
        self.assertEqual((note["format"], note["table"]["name"], [row["layer"] for row in note["layers"]]),
                         ("so4cal-fold", table.name, [0, 15]))

    def test_same_bytes_and_no_more(self) -> None:
        table, model = self.table(), Model("BF16").write(self.folder / "model")
        before = {path.name: path.read_bytes() for path in model.iterdir()}
        out, _ = self.fold(model, table)
        first = {path.name: path.read_bytes() for path in out.iterdir()}
        self.fold(model, table, "--force")
        self.assertEqual({path.name: path.read_bytes() for path in out.iterdir()}, first)
        self.assertEqual({path.name: path.read_bytes() for path in model.iterdir()}, before)
        self.assertEqual(self.entries(), ["folded", "model", "none.so4.h5"])
        for name in ["config.json", "tokenizer.json"]:
            self.assertEqual(first[name], before[name])

    def test_read_only_model(self) -> None:
        table, model = self.table(), Model().write(self.folder / "model")
        for path in model.iterdir():
            path.chmod(0o444)
        out, _ = self.fold(model, table)
        self.assertEqual((out / "model.safetensors").stat().st_mode & 0o200, 0o200)

    def test_outputs(self) -> None:
        table, model = self.table(), Model().write(self.folder / "model")

        def refused(words: str, out: Path, *more: object) -> None:
            self.assert_error(1, words, "fold", table, "--model", model, "-o", out, *more)

        before = self.entries()
        refused("same file as the input", model, "--force")
        refused("is inside the input", model / "folded", "--force")
        refused("does not exist", self.folder / "no" / "folded")
        other = self.folder / "other"
        other.mkdir()
        (other / "precious").write_text("x")
        refused("--force", other)
        refused("no fold wrote", other, "--force")
        (other / "so4cal_fold.json").write_text("{}")
        inside = Model().write(other / "model")
        self.assert_error(1, "holds the input", "fold", table, "--model", inside, "-o", other, "--force")
        self.assertTrue((other / "precious").exists())
        shutil.rmtree(other)
        self.assertEqual(self.entries(), before)
        single = model / "model.safetensors"
        (self.folder / "link.safetensors").symlink_to(single)
        self.assert_error(1, "same file as the input", "fold", table, "--model", single, "-o",
                          self.folder / "link.safetensors", "--force")

    def test_usage(self) -> None:
        table, model = self.table(), Model().write(self.folder / "model")
        out = self.folder / "out"
        for rotation, code, words in [("fourier", 2, "expected none, hadamard, hadamard:N or signs:FILE"),
                                      ("hadamard:", 2, "no block size"), ("hadamard:0", 2, "no block size"),
                                      ("hadamard:48", 2, "power of two"), ("hadamard:128", 1, "does not divide"),
                                      (f"signs:{self.folder / 'none'}", 1, "No such file"),
                                      (f"signs:{model / 'config.json'}", 1, "expected 1 or -1")]:
            self.assert_error(code, words, "fold", table, "--model", model, "-o", out, "--engine-rotation", rotation)
        (self.folder / "few").write_text("1 -1 1")
        self.assert_error(1, "3 signs, expected 64 or 128", "fold", table, "--model", model, "-o", out,
                          "--engine-rotation", f"signs:{self.folder / 'few'}")
        self.assert_error(1, "no such file", "fold", table, "--model", self.folder / "nothing", "-o", out)
        self.assert_error(1, "model.safetensors.index.json", "fold", table, "--model", self.folder, "-o", out)
        self.assert_error(1, ".gguf file", "fold", table, "--model", table, "-o", out)
        self.assertFalse(out.exists())

    def test_interrupt(self) -> None:
        """While a gigabyte is copied (a hole in the file: it takes no room before)."""
        table, model = self.table(), self.folder / "model.safetensors"
        tensors = Model().tensors
        write_safetensors(model, tensors)
        length = int.from_bytes(model.read_bytes()[:8], "little")
        header = json.loads(model.read_bytes()[8 : 8 + length])
        end = model.stat().st_size - 8 - length
        header["more"] = {"dtype": "U8", "shape": [2**30], "data_offsets": [end, end + 2**30]}
        text = json.dumps(header).encode()
        model.write_bytes(len(text).to_bytes(8, "little") + text + model.read_bytes()[8 + length :])
        os.truncate(model, 8 + len(text) + end + 2**30)
        before = self.entries()
        process = subprocess.Popen([BINARY, "fold", table, "--model", model, "-o", self.folder / "out.safetensors"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while self.entries() == before and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, out), (130, ""), err)
        self.assertIn("interrupted; nothing was written", err)
        self.assertEqual(self.entries(), before)

    def test_full_disk(self) -> None:
        folder = self.folder / "small"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder], capture_output=True,
                              check=False)
        if done.returncode != 0:
            self.skipTest("SKIPPED, no mount here")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
        table, model = self.table(), Model().write(self.folder / "model")
        self.assert_error(1, "No space left", "fold", table, "--model", model, "-o", folder / "out")
        self.assert_error(1, "No space left", "fold", table, "--model", model / "model.safetensors", "-o",
                          folder / "out.safetensors")
        self.assertEqual(list(folder.iterdir()), [])


class RefusedTest(FoldTest):
    """Nothing is written, and the message names the tensor or the entry and the reason."""

    def refused(self, words: list[str], change: Callable[[Model], None], config: dict | None = None,
                offset: str = "none", biases: str = "") -> None:
        model = Model(biases=biases)
        change(model)
        folder = model.write(self.folder / "model", config)
        with self.subTest(words=words):
            self.assert_error(1, words, "fold", self.table(offset), "--model", folder, "-o", self.folder / "out")
            self.assertFalse((self.folder / "out").exists())
        shutil.rmtree(folder)

    def test_tensors(self) -> None:
        attention = "model.layers.0.self_attn."
        for part, words in [("v_norm.weight", "a learned norm"), ("attn_sub_norm.weight", "stands between attention"),
                            ("gate_proj.weight", "stands between attention"), ("k_scale", "quantized"),
                            ("v_proj.weight_scale_inv", "quantized"), ("kv_b_proj.weight", "latent"),
                            ("kv_a_proj_with_mqa.weight", "latent"), ("qkv_proj.weight", "fused"),
                            ("v_proj.lora_A.weight", "adapter"), ("lambda_q1", "none that fold knows")]:
            self.refused([attention + part, words], lambda model: model.add(attention + part, [4]))
        for part in ["q_norm.weight", "k_norm.weight", "sinks", "rotary_emb.inv_freq"]:  # these are no obstacle
            model = Model()
            model.add(attention + part, [4])
            shutil.rmtree(self.folder / "model", ignore_errors=True)
            self.fold(model.write(self.folder / "model"), self.table(), "--force")
        shutil.rmtree(self.folder / "model")

    def test_missing_and_other_tensors(self) -> None:
        attention = "model.layers.15.self_attn."
        for role in "vk":
            self.refused([f"no {role}_proj.weight", "keys as values"],
                         lambda model: model.tensors.pop(f"{attention}{role}_proj.weight"))
        self.refused(["layers.15.self_attn.o_proj.weight", "is it the model of the table?"],
                     lambda model: model.tensors.pop(attention + "o_proj.weight"))
        self.refused(["layers.0.self_attn.o_proj.weight", "query_key_value", "fused"],
                     lambda model: model.rename("self_attn.o_proj", "attention.query_key_value"))
        self.refused(["2 times", "'a.layers.0.self_attn.o_proj.weight', 'model.layers.0.self_attn.o_proj.weight'"],
                     lambda model: model.add_layer("a.layers.0.", ""))
        self.refused(["q_proj", "1152 rows", "gate"],
                     lambda model: model.add(attention + "q_proj.weight", [2 * QUERY_HEADS * DIM, WIDTH]))

    def test_other_shapes(self) -> None:
        attention = "model.layers.0.self_attn."
        self.refused(["layer 0", "has 128 rows, but the table 3 KV heads of size 64, 192 rows"],
                     lambda model: [model.add(attention + f"{role}_proj.weight", [128, WIDTH]) for role in "kv"])
        self.refused(["640 columns", "3 KV heads of size 64"], lambda model: [
            model.add(attention + "o_proj.weight", [WIDTH, 640]), model.add(attention + "q_proj.weight", [640, WIDTH])])
        self.refused(["1 dimensions, expected 2"], lambda model: model.add(attention + "v_proj.weight", [192]))
        self.refused(["3 values, expected 192"], lambda model: model.add(attention + "v_proj.bias", [3]))

    def test_numbers(self) -> None:
        name = "model.layers.0.self_attn.v_proj.weight"

        def damage(model: Model) -> None:
            dtype, shape, data = model.tensors[name]
            model.tensors[name] = (dtype, shape, data[:132] + b"\0\0\x80\x7f" + data[136:])

        self.refused([name, "row 2, column 1 is NaN or infinite"], damage)
        def enlarge(model: Model) -> None:
            for role in "vo":  # each number 65024: any rotation makes some of them larger
                tensor = f"model.layers.0.self_attn.{role}_proj.weight"
                _, shape, data = model.tensors[tensor]
                model.tensors[tensor] = ("F16", shape, b"\xf0\x7b" * (len(data) // 4))

        self.refused(["too large for its type", "f32"], enlarge)

    def test_offsets(self) -> None:
        for biases, missing in [("", "v_proj"), ("v", "o_proj"), ("o", "v_proj")]:
            self.refused([f"'model.layers.0.self_attn.{missing}.weight' has no bias", "--offset v=none"],
                         lambda model: None, offset="mean", biases=biases)

        self.refused(["has sinks", "--offset v=none"], lambda model: model.add("model.layers.0.self_attn.sinks", [9]),
                     offset="mean", biases="vo")

    def test_quantized_dtypes(self) -> None:
        for dtype in ["F8_E4M3", "U8", "I8"]:
            self.refused([f"is {dtype}", "before it is quantized"], lambda model: model.tensors.update(
                {"model.layers.0.self_attn.v_proj.weight": (dtype, [192, 16], bytes(192 * 16))}))

    def test_config(self) -> None:
        for entry, words in [({"quantization_config": {"bits": 4}}, "quantized"), ({"attn_output_gate": True}, "gate"),
                             ({"num_kv_shared_layers": 2}, "another layer"), ({"clip_qkv": 8.0}, "clipped")]:
            self.refused([*entry, words], lambda model: None, entry)
            self.refused(["text_config", *entry, words], lambda model: None, {"text_config": entry})
        harmless = {"quantization_config": None, "attn_output_gate": False, "num_kv_shared_layers": 0, "clip_qkv": None}
        self.fold(Model().write(self.folder / "model", harmless), self.table())

    def test_folders(self) -> None:
        table, model = self.table(), Model().write(self.folder / "model")
        out, _ = self.fold(model, table)
        twice = self.folder / "twice"
        for folded in [out, out / "model.safetensors"]:
            self.assert_error(1, "folded already", "fold", table, "--model", folded, "-o", twice)
        (model / "adapter_config.json").write_text("{}")
        self.assert_error(1, "merge the adapter", "fold", table, "--model", model, "-o", twice)
        (model / "adapter_config.json").unlink()
        (model / "model.safetensors.index.json").write_text("{}")
        self.assert_error(1, "has both", "fold", table, "--model", model, "-o", twice)

    def test_indices(self) -> None:
        table, model = self.table(), Model().write_sharded(self.folder / "model")
        path = model / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        name = "model.layers.0.self_attn.v_proj.weight"
        right = index["weight_map"][name]
        wrong = next(file for file in index["weight_map"].values() if file != right)
        for change, words in [({name: wrong}, "the index says"), ({name: "../x.safetensors"}, "a file beside it"),
                              ({name: 3}, "a file beside it"), ({name: "none.safetensors"}, "none.safetensors"),
                              ({"more": right}, "'more' is not in")]:
            path.write_text(json.dumps({"weight_map": index["weight_map"] | change}))
            self.assert_error(1, words, "fold", table, "--model", model, "-o", self.folder / "out")
        path.write_text("{}")
        self.assert_error(1, "weight_map", "fold", table, "--model", model, "-o", self.folder / "out")

    def test_gguf(self) -> None:
        table, tensors = self.table(), gguf_names(Model().tensors)
        model = self.folder / "model.gguf"

        def refused(words: list[str], more: dict[str, Tensor], **keys: object) -> None:
            write_gguf(model, tensors | more, {key.replace("__", "."): value for key, value in keys.items()})
            self.assert_error(1, words, "fold", table, "--model", model, "-o", self.folder / "out.gguf")
            self.assertEqual(self.entries(), ["model.gguf", table.name])

        one = ("F32", [1], bytes(4))
        for part, words in [("attn_v_rot.weight", "rotated twice"), ("attn_v_norm.weight", "a learned norm"),
                            ("attn_kv_a_mqa.weight", "latent"), ("attn_kv_b.weight", "latent"),
                            ("attn_qkv.weight", "fused"), ("attn_gate.weight", "stands between"),
                            ("attn_v.scale", "quantized"), ("attn_other.weight", "none that fold knows")]:
            refused([f"blk.0.{part}", words], {f"blk.0.{part}": one})
        refused(["blk.15.attn_v.weight", "is Q8_0", "before it is quantized"],
                {"blk.15.attn_v.weight": ("Q8_0", [96, 32], bytes(96 * 34))})
        refused(["shared_kv_layers", "another layer"], {}, llama__attention__shared_kv_layers=2)
        refused(["clamp_kqv", "clipped"], {}, llama__attention__clamp_kqv=8.0)
        refused(["split.count", "join them first"][1:], {}, split__count=2)
        write_gguf(model, tensors | {"blk.0.attn_k_rot.weight": one, "v.blk.0.attn_out.weight": one})
        self.fold(model, table)

    def test_damaged_files(self) -> None:
        """Cut or changed anywhere in the header: one line, or a whole fold."""
        table, model = self.table(), Model().write(self.folder / "model") / "model.safetensors"
        whole = model.read_bytes()
        for at in [0, 7, 8, 9, 100, 1000, len(whole) - 1]:
            model.write_bytes(whole[:at])
            self.assert_error(1, "model.safetensors", "fold", table, "--model", model.parent, "-o", self.folder / "out")
            model.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            result = run("fold", table, "--model", model.parent, "-o", self.folder / "out", "--force")
            self.assertIn(result.returncode, (0, 1))
            self.assertRegex(result.stderr, r"\A(so4cal: [^\n]+\n)?\Z")


if __name__ == "__main__":
    unittest.main()
