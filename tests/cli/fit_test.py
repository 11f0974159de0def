# SPDX-License-Identifier: Apache-2.0
"""The main job on the real sample of data/: inspect, fit, report, export, verify, encode, decode."""
import csv
import json
import tempfile
import unittest
from pathlib import Path

from support import SAMPLE, CliTest, run

# One layer and few iterations, so that whole fits end under sanitizers too, which make them 15 times slower; ctest's
# first_run fits the whole sample with no option given.
LAYER = 15
BEST = ("--layers", LAYER, "--max-iterations", 20)
# Of the original method: 20 times faster, for tests in which any table will do.
QUICK = ("--layers", LAYER, "--preset", "seed", "--max-iterations", 5)


class MainJobTest(CliTest):
    @classmethod
    def setUpClass(cls) -> None:
        """best_table: fitted with BEST and two threads, for the tests that read it."""
        folder = tempfile.TemporaryDirectory(prefix="so4cal-cli-")
        cls.addClassCleanup(folder.cleanup)
        cls.best_table = Path(folder.name) / "table.so4.h5"
        result = run("fit", SAMPLE, "-o", cls.best_table, "--threads", 2, *BEST)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        cls.best_summary = result.stdout

    def fit(self, name: str, *options: object) -> Path:
        table = self.folder / name
        self.assert_done("fit", SAMPLE, "-o", table, *options)
        return table

    def test_inspect(self) -> None:
        text = self.assert_done("inspect", SAMPLE)
        for words in ["file         smollm2_sample.h5", "layers ", "kurtosis", "sink tokens", "filters"]:
            self.assertIn(words, text)
        data = json.loads(self.assert_done("inspect", SAMPLE, "--json"))
        heads = sum(layer[side]["num_heads"] for layer in data["layers"] for side in "kv")
        self.assertEqual(len(data["heads"]), heads)
        # The first token of SmolLM2's keys or values is a sink somewhere.
        self.assertTrue(any(0 in head["sink_tokens"] for head in data["heads"]))

    def test_from_dump_to_checked_export(self) -> None:
        table = self.best_table
        for words in ["fell back ", "solver ", "dropped at sequence starts", "times that of Hadamard with the same offset",
                      "k: 3 logit", f"wrote        {table} ({table.stat().st_size} bytes)"]:
            self.assertIn(words, self.best_summary)

        text = self.assert_done("report", table, SAMPLE)
        self.assertIn("test tokens that the fit never saw", text)
        report_path = self.folder / "report.json"
        self.assert_done("report", table, SAMPLE, "-o", report_path)
        self.check_report(json.loads(report_path.read_text()))
        self.check_csv(table, json.loads(report_path.read_text()))

        for name in ["export.safetensors", "export.json", "export.h"]:
            export = self.folder / name
            self.assert_done("export", table, "-o", export)
            checks = self.assert_done("verify", export, "--against", table, "--dump", SAMPLE)
            self.assertEqual([line.split()[0:2] for line in checks.splitlines()],
                             [["ok", word] for word in ["opened:", "orthogonal:", "orthogonal", "convention:", "against:",
                                                        "reconstruction:"]])
        self.assert_done("verify", table, "--dump", SAMPLE)

    def check_report(self, report: dict) -> None:
        self.assertEqual((report["format"], report["version"]), ("so4cal-report", 1))
        self.assertEqual(report["test_tokens_from"], "table")
        baselines = ["none", "hadamard", "hadamard_offset_nearest", "hadamard_offset", "calibrated_nearest",
                     "calibrated"]
        for head in report["heads"]:
            self.assertEqual(list(head["errors"]), baselines)
            self.assertEqual(head["codec"]["bits_per_value"], 3.5)
            self.assertIsNone(head["errors"]["hadamard_offset"]["blocks_improved"])
            self.assertIn(head["verdict"], ["helped", "no difference", "harmed"])
            self.check_attention(head["side"], head["errors"])
        self.assertEqual([layer["side"] for layer in report["layers"][:3]], ["k", "v", "kv"])
        both = report["model"]["kv"]["errors"]["calibrated"]
        self.assertGreater(both["output_nmse_wo"], max(both["output_nmse_wo_keys"], both["output_nmse_wo_values"]))
        self.assertEqual(report["notes"], [])
        for side in "kv":
            model = report["model"][side]
            # What the fit is for: attention where the dump has queries, else reconstruction.
            metric = {"k": "attention_kl", "v": "nmse"}[side]
            self.assertLess(model["errors"]["calibrated"][metric], 0.95 * model["errors"]["hadamard"][metric])
            # Energy-pooled NMSE lies between those of the heads.
            of_heads = [h["errors"]["calibrated"]["nmse"] for h in report["heads"] if h["side"] == side]
            self.assertTrue(min(of_heads) <= model["errors"]["calibrated"]["nmse"] <= max(of_heads))

    def check_attention(self, side: str, errors: dict) -> None:
        """A stored key changes logits, attention and output; a stored value the output only."""
        for key in ["logit_nmse", "logit_error", "attention_kl", "attention_top1"]:
            self.assertEqual(errors["calibrated"][key] is None, side == "v")
        if side == "k":
            self.assertLess(errors["calibrated"]["attention_kl"], errors["none"]["attention_kl"])
            self.assertTrue(0 < errors["calibrated"]["attention_top1"] <= 1)
        caused = {"k": "output_nmse_wo_keys", "v": "output_nmse_wo_values"}[side]
        other = {"k": "output_nmse_wo_values", "v": "output_nmse_wo_keys"}[side]
        for error in errors.values():
            self.assertEqual((error["output_nmse_wo"], error[other]), (error[caused], 0))

    def check_csv(self, table: Path, report: dict) -> None:
        path = self.folder / "report.csv"
        self.assert_done("report", table, SAMPLE, "-o", path)
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        self.assertEqual(len(rows), len(report["heads"]))
        self.assertEqual(float(rows[0]["calibrated.nmse"]), report["heads"][0]["errors"]["calibrated"]["nmse"])
        self.assertEqual(rows[0]["codec.grid"], "lloyd")

    def test_same_bytes_at_any_thread_count(self) -> None:
        one = self.fit("one.h5", "--threads", 1, *BEST)
        self.assertEqual(one.read_bytes(), self.best_table.read_bytes())

    def test_json_table_is_the_same_table(self) -> None:
        options = [*QUICK, "--rotation", "butterfly", "--offset", "mean"]  # as `best` has them
        h5 = self.fit("table.h5", *options)
        text = self.fit("table.json", *options)
        self.assert_done("export", h5, "-o", self.folder / "exported.json")
        self.assertEqual((self.folder / "exported.json").read_bytes(), text.read_bytes())

    def test_preset_seed_and_options_per_side(self) -> None:
        table = self.fit("table.json", "--grid", "k=full,v=lloyd", "--preset", "seed", "--bits", "v=2",
                         "--max-iterations", 5, "--loss", "expected")
        options = json.loads(table.read_text())["options"]
        options = json.loads(options) if isinstance(options, str) else options
        self.assertEqual([options[side]["grid"] for side in "kv"], ["full", "lloyd"])
        self.assertEqual([options[side]["bits"] for side in "kv"], [3, 2])
        self.assertEqual([options[side]["rotation"] for side in "kv"], ["so4", "so4"])
        self.assertEqual([options[side]["hadamard"] for side in "kv"], ["on", "on"])
        for word in ["threads", "layers", "out"]:
            self.assertNotIn(word, options)

    def test_encode_and_decode(self) -> None:
        table = self.best_table
        rows, decoded = self.folder / "rows.h5", self.folder / "decoded.h5"
        self.assert_done("encode", SAMPLE, "--table", table, "-o", rows)
        self.assert_done("decode", rows, "--table", table, "-o", decoded)
        # What was decoded encodes to nearly the same values: its own error is far below that of the first pass.
        first = json.loads(self.report(table, SAMPLE, "first.json"))
        again = json.loads(self.report(table, decoded, "again.json"))
        self.assertEqual(again["test_tokens_from"], "all")
        for side in "kv":
            self.assertLess(again["model"][side]["errors"]["calibrated"]["nmse"],
                            0.5 * first["model"][side]["errors"]["calibrated"]["nmse"])
        other = self.fit("other.h5", *QUICK)
        self.assert_error(1, "encoded with another table", "decode", rows, "--table", other, "-o",
                          self.folder / "no.h5")
        self.assertFalse((self.folder / "no.h5").exists())

    def report(self, table: Path, dump: Path, name: str) -> str:
        self.assert_done("report", table, dump, "-o", self.folder / name)
        return (self.folder / name).read_text()

    def test_some_layers_only(self) -> None:
        summary = self.assert_done("fit", SAMPLE, "-o", self.folder / "table.h5", *QUICK)
        self.assertIn(f"1 of the model's 30: {LAYER}; not fitted: 0-14,16-29", summary)
        self.assert_error(1, "99", "fit", SAMPLE, "-o", self.folder / "no.h5", "--layers", 99)

    def test_strict_writes_and_fails(self) -> None:
        table = self.folder / "table.h5"
        # After one iteration some head is still worse than its start, and falls back to that.
        result = run("fit", SAMPLE, "-o", table, "--layers", LAYER, "--rounding", "nearest", "--max-iterations", 1,
                     "--strict")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("so4cal: --strict", result.stderr)
        self.assertRegex(result.stdout, r"fell back +[1-9]\d* heads")
        self.assertRegex(result.stdout, r"solver +[1-9]\d* heads stopped before converging")
        self.assert_done("verify", table)

    def test_a_line_per_head_and_per_layer(self) -> None:
        result = run("fit", SAMPLE, "-o", self.folder / "table.h5", *QUICK, "-v")
        self.assertRegex(result.stderr, r"layer \d+ k head 0: \w+, (exact|expected) loss")
        self.assertRegex(result.stderr, r"fit: layer \d+ done, \d+ of \d+ heads")
        self.assertNotIn("\033", result.stderr)

    def test_no_validation_tokens(self) -> None:
        summary = self.assert_done("fit", SAMPLE, "-o", self.folder / "table.h5", *BEST, "--split", "70,0,30")
        self.assertIn("no validation tokens", summary)

    def test_no_test_tokens(self) -> None:
        table = self.folder / "table.h5"
        summary = self.assert_done("fit", SAMPLE, "-o", table, *QUICK, "--split", "80,20,0")
        self.assertIn("not measured", summary)
        self.assert_error(1, "no test tokens", "report", table, SAMPLE)


if __name__ == "__main__":
    unittest.main()
