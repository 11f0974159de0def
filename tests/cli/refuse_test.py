# SPDX-License-Identifier: Apache-2.0
"""Bad input: exit code 1, one line on stderr, nothing written."""
import json
import os
import shutil
import subprocess
import unittest
from pathlib import Path

from support import BAD_DUMPS, SAMPLE, CliTest, run


class BadDumpTest(CliTest):
    def test_every_bad_dump(self) -> None:
        expected = json.loads((BAD_DUMPS / "expected.json").read_text())
        self.assertGreater(len(expected), 40)
        for name, words in expected.items():
            with self.subTest(dump=name):
                self.assert_error(1, words, "fit", BAD_DUMPS / name, "-o", self.folder / "table.h5")
                self.assertEqual(self.entries(), [])

    def test_block_that_does_not_divide(self) -> None:
        self.assert_error(1, ["--block is 48", "head_dim"], "fit", SAMPLE, "-o", self.folder / "t.h5", "--block", 48)
        self.assertEqual(self.entries(), [])

    def test_missing_files(self) -> None:
        self.assert_error(1, "nothing.h5", "fit", self.folder / "nothing.h5", "-o", self.folder / "t.h5")
        self.assert_error(1, "nothing.h5", "report", self.folder / "nothing.h5", SAMPLE)
        self.assert_error(1, "nothing.h5", "verify", self.folder / "nothing.h5")
        self.assertEqual(self.entries(), [])


class OutputTest(CliTest):
    def test_existing_output(self) -> None:
        table = self.folder / "table.h5"
        table.write_text("precious")
        self.assert_error(1, "--force", "fit", SAMPLE, "-o", table)
        self.assertEqual(table.read_text(), "precious")
        self.assert_done("fit", SAMPLE, "-o", table, "--force", "--max-iterations", 1)
        self.assert_done("verify", table)

    def test_output_is_an_input(self) -> None:
        dump = self.folder / "dump.h5"
        shutil.copy(SAMPLE, dump)
        (self.folder / "link.h5").symlink_to(dump)
        os.link(dump, self.folder / "hard.h5")
        before = dump.read_bytes()
        for out in [dump, self.folder / "." / "dump.h5", self.folder / "link.h5", self.folder / "hard.h5"]:
            self.assert_error(1, "same file as the input", "fit", dump, "-o", out, "--force")
        self.assertEqual(dump.read_bytes(), before)

    def test_output_folder(self) -> None:
        self.assert_error(1, "does not exist", "fit", SAMPLE, "-o", self.folder / "none" / "t.h5")
        (self.folder / "file").write_text("")
        self.assert_error(1, "expected a folder", "fit", SAMPLE, "-o", self.folder / "file" / "t.h5")
        (self.folder / "t.h5").mkdir()
        self.assert_error(1, "is a folder", "fit", SAMPLE, "-o", self.folder / "t.h5", "--force")

    def test_read_only_folder(self) -> None:
        folder = self.mount("ro.d", "size=1m")
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        self.assert_error(1, "not writable", "fit", SAMPLE, "-o", folder / "t.h5")

    def test_full_disk(self) -> None:
        folder = self.mount("full.d", "size=64k")
        (folder / "filler").write_bytes(b"x" * (56 << 10))
        table = self.folder / "table.h5"
        self.assert_done("fit", SAMPLE, "-o", table, "--max-iterations", 1)
        for args in [["fit", SAMPLE, "--max-iterations", 1], ["encode", SAMPLE, "--table", table],
                     ["export", table, "--to", "json"], ["export", table, "--to", "safetensors"]]:
            with self.subTest(args=args):
                result = run(*args, "-o", folder / "out.h5")
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("so4cal: can't write", result.stderr)
                self.assertEqual(os.listdir(folder), ["filler"])

    def mount(self, name: str, options: str) -> Path:
        """A small file system of our own; needs root."""
        folder = self.folder / name
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"SKIPPED, no mount here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
        return folder


class OtherTableTest(CliTest):
    def test_dump_without_a_layer_of_the_table(self) -> None:
        table = self.folder / "table.json"
        self.assert_done("fit", SAMPLE, "-o", table, "--max-iterations", 1)
        dump = self.one_layer_dump()
        for args in [["report", table, dump], ["verify", table, "--dump", dump],
                     ["encode", dump, "--table", table, "-o", self.folder / "no.h5"]]:
            result = run(*args)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, r"\Aso4cal: one_layer.h5: has no layer \d+, which the table has[^\n]+\n\Z")
        self.assertFalse((self.folder / "no.h5").exists())

    def one_layer_dump(self) -> Path:
        """The first layer of the sample, through the codec."""
        first = self.folder / "first.h5"
        layers = [layer["layer"] for layer in json.loads(self.assert_done("inspect", SAMPLE, "--json"))["layers"]]
        self.assert_done("fit", SAMPLE, "-o", first, "--layers", layers[0], "--max-iterations", 1)
        self.assert_done("encode", SAMPLE, "--table", first, "-o", self.folder / "rows.h5")
        dump = self.folder / "one_layer.h5"
        self.assert_done("decode", self.folder / "rows.h5", "--table", first, "-o", dump)
        return dump

    def test_dump_with_other_heads_and_head_dim(self) -> None:
        # A whole dump of 200 tokens, 2 heads and 8 channels; `fit` minds the tokens, `report` does not.
        dump = BAD_DUMPS / "tokens_200.h5"
        table = self.folder / "table.h5"
        self.assert_done("fit", dump, "-o", table, "--allow-few-tokens", "--max-iterations", 1)
        self.assert_done("report", table, dump)
        self.assert_error(1, ["smollm2_sample.h5, layer 0 k: the table has", "expected a dump of the model"], "report",
                          table, SAMPLE)

    def test_damaged_tables(self) -> None:
        table = self.folder / "table.json"
        self.assert_done("fit", SAMPLE, "-o", table, "--max-iterations", 1)
        text = table.read_text()
        bad = self.folder / "bad.json"
        for damage in [text[: len(text) // 2], text + "x", "{}", "", text.replace('"format_version": 1', '"format_version": 2')]:
            bad.write_text(damage)
            if damage == text:
                self.fail("the damage did nothing")
            self.assert_error(1, "bad.json", "verify", bad)
            self.assert_error(1, "bad.json", "export", bad, "-o", self.folder / "out.safetensors")
        self.assertEqual(self.entries(), ["bad.json", "table.json"])


if __name__ == "__main__":
    unittest.main()
