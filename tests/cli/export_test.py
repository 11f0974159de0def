#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export, import and verify of every format, and files that a hostile writer made."""
import json
import resource
import subprocess
import unittest
from pathlib import Path

from support import BINARY, ROOT, SAMPLE, CliTest, environment, run

BAD_EXPORTS = ROOT / "tests/golden/bad/exports"
# What the readers may use on files of some kB. The program itself takes 100 MB of address space; a sanitizer reserves
# terabytes, so under one the limit can't be set and the messages alone count.
MEMORY_LIMIT = 1 << 30


class ExportTest(CliTest):
    def fitted(self, name: str, *options: object) -> Path:
        table = self.folder / name
        self.assert_done("fit", SAMPLE, "-o", table, "--preset", "seed", "--loss", "expected", "--max-iterations", 5, *options)
        return table

    def test_every_format_there_and_back(self) -> None:
        table = self.fitted("t.so4.h5", "--share", "layer")
        for name in ("r.oscar", "r.gguf", "r.onnx", "r.safetensors", "r.json", "r.h"):
            with self.subTest(name):
                out = self.folder / name
                to = ("--to", "oscar") if name == "r.oscar" else ()
                self.assertIn(f"wrote {out}", self.assert_done("export", table, "-o", out, *to))
                verified = self.assert_done("verify", out, "--against", table, "--dump", SAMPLE)
                self.assertEqual(verified.count("ok  "), 6, verified)
                self.assertIn("orthogonal in bf16", verified)
                if name != "r.h":
                    imported = self.folder / f"{name}.so4.h5"
                    self.assert_done("import", out, "-o", imported)
                    self.assert_done("verify", imported, "--against", table, "--dump", SAMPLE)

    def test_an_imported_table_can_be_reported(self) -> None:
        table = self.fitted("t.so4.h5", "--share", "layer")
        self.assert_done("export", table, "-o", self.folder / "r.gguf")
        self.assert_done("import", self.folder / "r.gguf", "-o", self.folder / "i.h5")
        self.assert_done("report", self.folder / "i.h5", SAMPLE, "-o", self.folder / "i.json")
        heads = json.loads((self.folder / "i.json").read_text())["heads"]
        self.assertEqual({head["family"] for head in heads}, {"so4"})  # recognized: H and one stage of blocks
        for head in heads:
            self.assertLess(head["errors"]["calibrated"]["nmse"], 0.1)

    def test_what_a_format_cannot_carry_is_refused(self) -> None:
        per_head = self.fitted("h.so4.h5")
        mean = self.fitted("m.so4.h5", "--share", "layer", "--offset", "mean")
        out = self.folder / "out"
        self.assert_error(1, ["different rotations", "--share layer"], "export", per_head, "-o", out, "--to", "gguf")
        for to, advice in (("gguf", "--offset none"), ("onnx", "--offset none"), ("oscar", "--offset k=mean,v=none")):
            self.assert_error(1, ["offset", advice], "export", mean, "-o", out, "--to", to)
        self.assert_error(2, ["--merge is for --to gguf"], "export", mean, "-o", "x.json", "--merge", mean)
        self.assert_error(1, ["expected a GGUF file"], "export", per_head, "-o", out, "--to", "gguf", "--merge", per_head)
        self.assertEqual(self.entries(), ["h.so4.h5", "m.so4.h5"])

    def test_folders_are_replaced_only_when_told(self) -> None:
        table = self.fitted("t.so4.h5")
        out = self.folder / "rotations"
        self.assert_done("export", table, "-o", out, "--to", "oscar")
        (out / "kept").touch()
        self.assert_error(1, "pass --force", "export", table, "-o", out, "--to", "oscar")
        self.assertTrue((out / "kept").exists())
        self.assert_done("export", table, "-o", f"{out}/", "--force")  # a folder that is there needs no --to
        self.assertEqual(sorted(p.name for p in out.iterdir()), ["k_rotation.pt", "v_rotation.pt"])
        self.assert_error(1, "is the same file", "export", table, "-o", table, "--to", "oscar", "--force")
        self.assertEqual(self.entries(), ["rotations", "t.so4.h5"])

    def test_import_names_what_is_wrong(self) -> None:
        table, out = self.fitted("t.so4.h5"), self.folder / "i.h5"
        self.assert_error(1, "no such file", "import", self.folder / "none.gguf", "-o", out)
        self.assert_error(2, ["by its extension", "oscar"], "import", __file__, "-o", out)
        self.assert_error(2, "ends in .h5 or .json", "import", table, "-o", "i.gguf")
        self.assert_done("export", table, "-o", self.folder / "r", "--to", "oscar")
        self.assert_error(2, ["--bits", "5"], "import", self.folder / "r", "-o", out, "--bits", 5)
        self.assertFalse(out.exists())

    def test_hostile_files_are_refused_in_little_memory(self) -> None:
        sanitized = b"__asan_init" in Path(BINARY).read_bytes()
        limit = None if sanitized else lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        expected = json.loads((BAD_EXPORTS / "expected.json").read_text())
        self.assertEqual(sorted(expected), sorted(p.name for p in BAD_EXPORTS.iterdir() if p.name != "expected.json"))
        for name, words in expected.items():
            with self.subTest(name):
                done = subprocess.run([BINARY, "import", BAD_EXPORTS / name, "-o", self.folder / "t.h5"], text=True, check=False,
                                      env=environment(), capture_output=True, timeout=60, preexec_fn=limit)  # fmt: skip
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, r"\Aso4cal: [^\n]+\n\Z")
                for word in words:
                    self.assertIn(word, done.stderr)
                self.assertEqual(self.entries(), [])

    def test_kill_during_export_leaves_whole_files_only(self) -> None:
        table, out = self.fitted("t.so4.h5"), self.folder / "rotations"
        for moment in range(12):
            process = subprocess.Popen([BINARY, "export", table, "-o", out, "--to", "oscar", "--force"], env=environment(),
                                       stdout=subprocess.DEVNULL)  # fmt: skip
            try:
                process.wait(timeout=0.003 * moment)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if out.exists():
                self.assertEqual(run("verify", out, "--against", table).returncode, 0)


if __name__ == "__main__":
    unittest.main()
