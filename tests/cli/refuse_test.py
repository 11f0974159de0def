# SPDX-License-Identifier: Apache-2.0
"""Bad input: exit code 1, one line on stderr, nothing written."""
import json
import os
import random
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from support import BAD_DUMPS, SAMPLE, CliTest, run

QUICK = ["--preset", "seed", "--max-iterations", 1, "--layers", 0]  # for tests in which any table will do



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

    def test_layers_that_the_dump_lacks(self) -> None:
        for layers in ["1", "0,1", "0-15"]:
            self.assert_error(1, "expected layer 1, found layers 0, 15", "fit", SAMPLE, "-o", self.folder / "t.h5",
                              "--layers", layers)
        self.assertEqual(self.entries(), [])

    def test_damage_after_which_hdf5_cannot_clean_up(self) -> None:
        # A length in the root group's header is 8 MiB too large: HDF5 can't open the file, nor close itself then.
        whole = bytearray((BAD_DUMPS / "tokens_200.h5").read_bytes())
        whole[130] = 0x80
        bad = self.folder / "bad.h5"
        bad.write_bytes(whole)
        for args in [["inspect", bad], ["fit", bad, "-o", self.folder / "t.h5"], ["verify", bad],
                     ["report", bad, SAMPLE]]:
            self.assert_error(1, "bad.h5", *args)
        self.assertEqual(self.entries(), ["bad.h5"])

    def test_files_of_two_models(self) -> None:
        self.assert_error(1, "expected", "fit", SAMPLE, BAD_DUMPS / "tokens_200.h5", "-o", self.folder / "t.h5")
        self.assertEqual(self.entries(), [])

    def test_no_tokens_left(self) -> None:
        self.assert_error(1, "tokens", "fit", SAMPLE, "-o", self.folder / "t.h5", "--skip-tokens", 2**64 - 1)
        self.assertEqual(self.entries(), [])

    def test_files_of_another_kind(self) -> None:
        table, rows = self.folder / "table.h5", self.folder / "rows.h5"
        self.assert_done("fit", SAMPLE, "-o", table, *QUICK)
        self.assert_done("encode", SAMPLE, "--table", table, "-o", rows)
        out = self.folder / "out.h5"
        for kind in [table, rows]:
            self.assert_error(1, "expected a dump of keys and values", "fit", kind, "-o", out)
            self.assert_error(1, "expected a dump of keys and values", "inspect", kind)
        for kind in [SAMPLE, rows]:
            self.assert_error(1, "format", "report", kind, SAMPLE)
            self.assert_error(1, "format", "verify", kind)
        for kind in [SAMPLE, table]:
            self.assert_error(1, "so4cal encode", "decode", kind, "--table", table, "-o", out)
        self.assertEqual(self.entries(), ["rows.h5", "table.h5"])

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
        self.assert_done("fit", SAMPLE, "-o", table, "--force", *QUICK)
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

    def test_verify_of_a_missing_file(self) -> None:
        self.assert_error(1, "no such file", "verify", self.folder / "none")

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
        self.assert_done("fit", SAMPLE, "-o", table, *QUICK)
        for args in [["fit", SAMPLE, *QUICK], ["encode", SAMPLE, "--table", table],
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


class EveryOutputTest(CliTest):
    """The commands that write a file refuse the same outputs."""

    def setUp(self) -> None:
        super().setUp()
        self.table, self.rows = self.folder / "table.h5", self.folder / "rows.h5"
        self.assert_done("fit", SAMPLE, "-o", self.table, *QUICK)
        self.assert_done("encode", SAMPLE, "--table", self.table, "-o", self.rows)
        self.writers = [(["fit", SAMPLE, *QUICK], SAMPLE, ".h5"), (["report", self.table, SAMPLE], self.table, ".html"),
                        (["export", self.table], self.table, ".json"),
                        (["encode", SAMPLE, "--table", self.table], self.table, ".h5"),
                        (["decode", self.rows, "--table", self.table], self.rows, ".h5")]

    def test_outputs(self) -> None:
        before = self.entries()
        for args, source, extension in self.writers:
            with self.subTest(command=args[0]):
                link = self.folder / f"link{extension}"
                link.symlink_to(source)
                self.assert_error(1, "same file as the input", *args, "-o", link, "--force")
                link.unlink()
                self.assert_error(1, "does not exist", *args, "-o", self.folder / "none" / f"out{extension}")
                old = self.folder / f"old{extension}"
                old.write_text("precious")
                self.assert_error(1, "--force", *args, "-o", old)
                self.assertEqual(old.read_text(), "precious")
                old.unlink()
                folder = self.folder / f"folder{extension}"
                folder.mkdir()
                self.assert_error(1, "is a folder", *args, "-o", folder, "--force")
                folder.rmdir()
                pipe = self.folder / f"pipe{extension}"
                os.mkfifo(pipe)
                self.addCleanup(pipe.unlink, missing_ok=True)
                self.assert_error(1, "pipe", *args, "-o", pipe, "--force")
                pipe.unlink()
                self.assertEqual(self.entries(), before)

    def test_names_of_any_letters(self) -> None:
        folder = self.folder / "пап ка" / "ü'\"q"
        folder.mkdir(parents=True)
        for args, _, extension in self.writers:
            out = folder / f"выход{extension}"
            self.assertIn(str(out), self.assert_done(*args, "-o", out))
            out.unlink()

    def test_a_link_is_followed(self) -> None:
        real, link = self.folder / "real.json", self.folder / "link.json"
        real.write_text("old")
        link.symlink_to("real.json")
        self.assert_error(1, "--force", "export", self.table, "-o", link)
        self.assertEqual(real.read_text(), "old")
        self.assert_done("export", self.table, "-o", link, "--force")
        self.assertTrue(link.is_symlink())
        self.assert_done("verify", real)

    def test_rows_of_another_table(self) -> None:
        other = self.folder / "other.h5"
        self.assert_done("fit", SAMPLE, "-o", other, *QUICK, "--bits", 2)
        self.assert_error(1, "encoded with another table", "decode", self.rows, "--table", other, "-o",
                          self.folder / "dump.h5")
        self.assertFalse((self.folder / "dump.h5").exists())

    def test_flipped_bytes(self) -> None:
        """Whatever byte of a table or of rows is wrong: done, or one line."""
        rng = random.Random(7)
        for path, args in [(self.table, ["verify"]), (self.rows, ["decode"])]:
            whole = path.read_bytes()
            for i in range(40):
                damaged = bytearray(whole)
                at = rng.randrange(min(len(whole), 4096) if i % 2 else len(whole))
                damaged[at] ^= 1 << rng.randrange(8)
                bad = self.folder / "bad.h5"
                bad.write_bytes(damaged[: rng.randrange(len(whole))] if i % 10 == 9 else damaged)
                more = ["--table", self.table, "-o", self.folder / "out.h5", "--force"] if args == ["decode"] else []
                result = run(*args, bad, *more)
                self.assertIn(result.returncode, (0, 1), f"byte {at}: {result.stderr}")
                if result.returncode == 1:
                    self.assertRegex(result.stderr, re.compile(r"\Aso4cal: [^\n]+\n\Z"), f"byte {at}")


class OtherTableTest(CliTest):
    def test_dump_without_a_layer_of_the_table(self) -> None:
        table = self.folder / "table.json"
        self.assert_done("fit", SAMPLE, "-o", table, "--preset", "seed", "--max-iterations", 1)
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
        self.assert_done("fit", SAMPLE, "-o", first, "--layers", layers[0], "--preset", "seed",
                         "--max-iterations", 1)
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
        self.assert_done("fit", SAMPLE, "-o", table, *QUICK)
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
