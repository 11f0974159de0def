# SPDX-License-Identifier: Apache-2.0
"""What `fold` refuses, each with its reason."""
from __future__ import annotations

import json
import shutil
import unittest
from collections.abc import Callable

from fold_models import DIM, QUERY_HEADS, WIDTH, Model, Tensor, gguf_names, write_gguf
from fold_support import FoldTest
from support import run


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
