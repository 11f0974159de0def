# SPDX-License-Identifier: Apache-2.0
"""The command line itself: exit code 2 and one line for every wrong one, before any file is touched."""
import json
import subprocess
import unittest

from support import BINARY, CliTest, run

# Words of the message, arguments. The dump need not exist: options are judged first.
WRONG = [
    ("subcommand is required", []),
    ("frobnicate", ["frobnicate"]),
    ("dumps", ["fit", "-o", "t.h5"]),
    ("--out", ["fit", "d.h5"]),
    ("--unknown", ["fit", "d.h5", "-o", "t.h5", "--unknown"]),
    ("--preset", ["fit", "d.h5", "-o", "t.h5", "--preset", "good"]),
    ("expected 2, 3 or 4", ["fit", "d.h5", "-o", "t.h5", "--bits", "5"]),
    ("--bits is 1", ["fit", "d.h5", "-o", "t.h5", "--bits", "k=1"]),
    ("expected a whole number", ["fit", "d.h5", "-o", "t.h5", "--bits", "3.5"]),
    ("expected one of symmetric, full, lloyd", ["fit", "d.h5", "-o", "t.h5", "--grid", "cubic"]),
    ("expected one of symmetric, full, lloyd", ["fit", "d.h5", "-o", "t.h5", "--grid", "k=full,v=cubic"]),
    ("k=VALUE,v=VALUE", ["fit", "d.h5", "-o", "t.h5", "--grid", "k=full,k=full"]),
    ("k=VALUE,v=VALUE", ["fit", "d.h5", "-o", "t.h5", "--grid", "q=full"]),
    ("k=VALUE,v=VALUE", ["fit", "d.h5", "-o", "t.h5", "--grid", "k=full,"]),
    ("--block is -4", ["fit", "d.h5", "-o", "t.h5", "--block", "-4"]),
    ("--hadamard on", ["fit", "d.h5", "-o", "t.h5", "--hadamard", "on"]),
    ("--rotation dense", ["fit", "d.h5", "-o", "t.h5", "--rotation", "dense"]),
    ("sum to 100", ["fit", "d.h5", "-o", "t.h5", "--split", "70,15,16"]),
    ("at least 1", ["fit", "d.h5", "-o", "t.h5", "--split", "0,50,50"]),
    ("70,15,15", ["fit", "d.h5", "-o", "t.h5", "--split", "70,30"]),
    ("70,15,15", ["fit", "d.h5", "-o", "t.h5", "--split", "70,15,15,"]),
    ("--skip-tokens", ["fit", "d.h5", "-o", "t.h5", "--skip-tokens", "-1"]),
    ("--seed", ["fit", "d.h5", "-o", "t.h5", "--seed", "99999999999999999999"]),
    ("--max-iterations is 0", ["fit", "d.h5", "-o", "t.h5", "--max-iterations", "0"]),
    ("--threads is -1", ["fit", "d.h5", "-o", "t.h5", "--threads", "-1"]),
    ("--threads", ["fit", "d.h5", "-o", "t.h5", "--threads", "many"]),
    ("expected a name that ends in .h5 or .json", ["fit", "d.h5", "-o", "t.safetensors"]),
    ("0-7,12", ["fit", "d.h5", "-o", "t.h5", "--layers", "3-"]),
    ("ascend", ["fit", "d.h5", "-o", "t.h5", "--layers", "3-1"]),
    ("k/n", ["fit", "d.h5", "-o", "t.h5", "--shard", "3/2"]),
    ("--memory-limit", ["fit", "d.h5", "-o", "t.h5", "--memory-limit", "much"]),
    ("expected an output that ends in .h5 or .json", ["merge", "a.h5", "-o", "t.safetensors"]),
    ("0-7,12", ["merge", "a.h5", "-o", "t.h5", "--layers", "3-"]),
    (".json, .csv", ["report", "t.h5", "d.h5", "-o", "r.pdf"]),
    ("extension", ["export", "t.h5", "-o", "t.xyz"]),
    ("--to is 'xyz'", ["export", "t.h5", "-o", "t.h", "--to", "xyz"]),
    ("--log-level", ["info", "--log-level", "loud"]),
    ("--table", ["encode", "d.h5", "-o", "rows.h5"]),
]


class UsageTest(CliTest):
    def test_wrong_command_lines(self) -> None:
        for words, args in WRONG:
            with self.subTest(args=args):
                self.assert_error(2, words, *args)

    def test_help_of_every_command(self) -> None:
        for command in ["inspect", "fit", "merge", "report", "export", "verify", "encode", "decode", "info"]:
            with self.subTest(command=command):
                self.assertIn("Usage:", self.assert_done(command, "--help"))
                self.assertIn(command, self.assert_done("--help"))

    def test_help_of_fit_lists_choices_and_both_presets(self) -> None:
        text = " ".join(self.assert_done("fit", "--help").split())
        self.assertIn("symmetric, full, lloyd (best: lloyd; seed: symmetric)", text)
        self.assertIn("butterfly, so4, left, planar, none (best: butterfly; seed: so4)", text)

    def test_version(self) -> None:
        self.assertRegex(self.assert_done("--version"), r"\A\d+\.\d+\.\d+\n\Z")

    def test_info(self) -> None:
        info = json.loads(self.assert_done("info", "--json"))
        self.assertEqual(info["row_format_version"], 1)
        self.assertEqual(list(info["grids"]), ["symmetric", "full", "lloyd"])
        self.assertIn("safetensors", info["exporters"])
        for library in ["Ceres", "Eigen", "HDF5", "Highway", "CLI11", "spdlog", "zlib", "oneTBB"]:
            self.assertRegex(info["libraries"][library], r"^\d+\.\d+")
        self.assertTrue(info["simd_targets"])
        self.assertIn("HDF5", self.assert_done("info"))

    def test_standard_output_that_is_full(self) -> None:
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([BINARY, "info"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Aso4cal: [^\n]+\n\Z")

    def test_log_file_that_cannot_be_opened(self) -> None:
        result = run("info", "--log-file", self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Aso4cal: --log-file [^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main()
