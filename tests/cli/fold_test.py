# SPDX-License-Identifier: Apache-2.0
"""so4cal fold: the weights it writes follow the formulas, every other byte stays, and what can't be folded is refused."""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from fold_models import DIM, LAYERS, Model, gguf_names, read_safetensors, write_gguf, write_safetensors
from fold_support import FoldTest, hadamard
from support import BINARY


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


if __name__ == "__main__":
    unittest.main()
