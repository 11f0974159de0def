# SPDX-License-Identifier: Apache-2.0
"""Every command on dumps of every head_dim, type and kind of queries (write_dumps.cc makes them)."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import CliTest

# head_dim of keys and values, KV heads, type, what the dump has of the queries.
SHAPES = {
    "d64": (64, 64, 2, "f16", "q"),
    "d80": (80, 64, 1, "bf16", "q_moment"),
    "d96": (96, 96, 2, "bf16", None),
    "d112": (112, 128, 1, "bf16", "q"),
    "d128": (128, 128, 2, "f32", "q_moment"),
    "d192": (192, 128, 1, "f16", "q"),
    "d256": (256, 256, 1, "bf16", None),
    "heads32": (64, 64, 32, "f16", None),
}
LAYERS = [3, 7]


class ShapesTest(CliTest):
    dumps: Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="so4cal-shapes-")
        cls.addClassCleanup(folder.cleanup)
        cls.dumps = Path(folder.name)
        subprocess.run([os.environ["SO4CAL_WRITE_DUMPS"], cls.dumps], check=True)

    def fit(self, dump: str, name: str = "table.h5", *options: object) -> Path:
        table = self.folder / name
        self.assert_done("fit", self.dumps / f"{dump}.h5", "-o", table, "--max-iterations", 2, "--force", *options)
        return table

    def test_inspect(self) -> None:
        for name, (d, dv, heads, dtype, queries) in SHAPES.items():
            with self.subTest(dump=name):
                found = json.loads(self.assert_done("inspect", self.dumps / f"{name}.h5", "--json"))
                self.assertEqual([layer["layer"] for layer in found["layers"]], LAYERS)
                self.assertEqual(found["num_model_layers"], 9)
                for layer in found["layers"]:
                    for side, channels in (("k", d), ("v", dv)):
                        self.assertEqual((layer[side]["num_heads"], layer[side]["channels"]), (heads, channels))
                        self.assertTrue(layer[side]["dtype"].startswith(dtype), layer[side]["dtype"])
                    self.assertEqual(layer["q"] is not None, queries == "q")
                    self.assertEqual(layer["has_q_moment"], queries == "q_moment")

    def test_fit_to_decode(self) -> None:
        for name, shape in SHAPES.items():
            with self.subTest(dump=name):
                self.check_all_commands(name, *shape)

    def check_all_commands(self, name: str, d: int, dv: int, heads: int, dtype: str, queries: str | None) -> None:
        dump = self.dumps / f"{name}.h5"
        summary = self.fit_summary(dump)
        self.assertIn("layers       2 of the model's 9: 3,7; not fitted: 0-2,4-6,8", summary)
        if queries:
            self.assertIn(f"objective    k: {2 * heads} logit", summary)
        table = self.folder / "table.h5"
        report = self.report(table, dump)
        self.assertEqual(report["test_tokens_from"], "table")
        self.assertEqual([(head["layer"], head["side"], head["kv_head"]) for head in report["heads"]],
                         [(layer, side, h) for layer in LAYERS for side in "kv" for h in range(heads)])
        error = {head["side"]: head["errors"]["calibrated"]["nmse"] for head in report["heads"]}
        self.assertTrue(all(0 < nmse < 0.1 for nmse in error.values()), error)  # 3 bits on Gaussian values: .03
        for side, channels in (("k", d), ("v", dv)):
            codec = next(head["codec"] for head in report["heads"] if head["side"] == side)
            self.assertEqual(channels % codec["block"], 0)
        self.assertEqual(report["heads"][0]["errors"]["calibrated"]["logit_nmse"] is not None, queries is not None)
        for extension in (".json", ".safetensors", ".h"):
            exported = self.folder / f"out{extension}"
            self.assert_done("export", table, "-o", exported, "--force")
            through_the_codec = ["--dump", dump] if extension == ".safetensors" else []
            self.assert_done("verify", exported, "--against", table, *through_the_codec)
        self.check_decoded(table, dump, report)

    def fit_summary(self, dump: Path) -> str:
        return self.assert_done("fit", dump, "-o", self.folder / "table.h5", "--max-iterations", 2, "--force")

    def report(self, table: Path, dump: Path) -> dict:
        out = self.folder / "report.json"
        self.assert_done("report", table, dump, "-o", out, "--force")
        return json.loads(out.read_text())

    def check_decoded(self, table: Path, dump: Path, report: dict) -> None:
        """Decoded rows are a dump of the same shape, on which the codec is nearly exact: they are its levels."""
        rows, decoded = self.folder / "rows.h5", self.folder / "decoded.h5"
        self.assert_done("encode", dump, "--table", table, "-o", rows, "--force")
        self.assert_done("decode", rows, "--table", table, "-o", decoded, "--force")
        again = self.report(table, decoded)
        self.assertEqual(again["test_tokens_from"], "all")
        self.assertEqual(len(again["heads"]), len(report["heads"]))
        for before, after in zip(report["heads"], again["heads"]):
            self.assertLess(after["errors"]["calibrated"]["nmse"], before["errors"]["calibrated"]["nmse"])

    def test_seed_preset(self) -> None:
        for name in ["d80", "d96", "d112", "d192"]:
            with self.subTest(dump=name):
                # 32 does not divide 80 and 112: the option says so.
                block = [] if SHAPES[name][0] % 32 == 0 and SHAPES[name][1] % 32 == 0 else ["--block", "16"]
                table = self.fit(name, "seed.h5", "--preset", "seed", *block)
                self.assert_done("verify", table, "--dump", self.dumps / f"{name}.h5")

    def test_other_queries_than_those_of_the_fit(self) -> None:
        table = self.fit("d64")
        note = "q is not the one that the fit used, though k and v are"
        for dump, expected in (("d64", []), ("d64_other_q", [note])):
            report = self.report(table, self.dumps / f"{dump}.h5")
            self.assertEqual(report["test_tokens_from"], "table")
            self.assertEqual([text for text in report["notes"] if "not the one" in text], expected)
        self.assertIn(note, self.assert_done("report", table, self.dumps / "d64_other_q.h5"))
        # Without queries there is less to report, but nothing to warn of.
        report = self.report(table, self.dumps / "d64_no_q.h5")
        self.assertEqual(report["test_tokens_from"], "table")
        self.assertFalse([text for text in report["notes"] if "not the one" in text])
        # A fit that looked at keys and values only knows nothing of queries.
        plain = self.fit("d64", "plain.h5", "--objective", "mse", "--rounding", "nearest")
        notes = self.report(plain, self.dumps / "d64_other_q.h5")["notes"]
        self.assertFalse([text for text in notes if "not the one" in text])

    def test_tables_of_other_heads_or_head_dim(self) -> None:
        table = self.fit("d64")
        rows = self.folder / "rows.h5"
        for dump, words in (("d96", ["d96.h5, layer 3 k: the table has head_dim 64, the dump 96"]),
                            ("d64_one_head", ["layer 3 k: the table has KV heads: 2, the dump 1"])):
            path = self.dumps / f"{dump}.h5"
            self.assert_error(1, words, "report", table, path)
            self.assert_error(1, words, "report", table, path, "-o", self.folder / "report.html")
            self.assert_error(1, words, "encode", path, "--table", table, "-o", rows)
            self.assert_error(1, words, "verify", table, "--dump", path)
        self.assertEqual(self.entries(), ["table.h5"])


if __name__ == "__main__":
    unittest.main()
