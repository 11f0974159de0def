# SPDX-License-Identifier: Apache-2.0
"""Shards of a fit join to the bytes of the single run, and to nothing else."""
import os
import subprocess
import unittest
from pathlib import Path

from support import BINARY, SAMPLE, CliTest, environment

LAYERS = 7
FIT = ("--preset", "seed", "--max-iterations", 5)


class MergeTest(CliTest):
    def setUp(self) -> None:
        super().setUp()
        self.dump = self.folder / "dump.h5"
        subprocess.run([os.environ["SO4CAL_WRITE_DUMPS"], self.dump, str(LAYERS)], check=True)

    def fit(self, name: str, *options: object) -> Path:
        table = self.folder / name
        self.assert_done("fit", self.dump, "-o", table, *FIT, *options)
        return table

    def assert_merges(self, whole: Path, parts: list[Path], *options: object) -> None:
        merged = self.folder / f"merged{whole.suffix}"
        self.assert_done("merge", *parts, "-o", merged, "--force", *options)
        self.assertEqual(merged.read_bytes(), whole.read_bytes())

    def test_any_number_of_shards(self) -> None:
        whole = self.fit("whole.h5")
        for count in [1, 3, LAYERS]:
            parts = [self.fit(f"{k}of{count}.h5", "--shard", f"{k}/{count}") for k in range(1, count + 1)]
            self.assert_merges(whole, parts[::-1])
        self.assert_merges(whole, [self.fit("some.h5", "--layers", "0-2,5"), self.fit("rest.h5", "--layers", "3,4,6")])
        self.assert_merges(self.fit("whole.json"), parts)

    def test_shared_rotations_and_layers_of_a_plan(self) -> None:
        plan = self.folder / "plan.json"
        self.assert_done("plan", self.dump, "--budget", 3.6, "-o", plan)
        for name, options in [("share", ("--share", "layer")), ("plan", ("--plan", plan))]:
            whole = self.fit(f"{name}.h5", *options)
            parts = [self.fit(f"{name}{k}.h5", "--shard", f"{k}/2", *options) for k in [1, 2]]
            self.assert_merges(whole, parts)

    def test_the_default_fit_of_a_real_dump(self) -> None:
        tables = []
        for name, options in [("whole", ()), ("1", ("--shard", "1/2")), ("2", ("--shard", "2/2", "--threads", 1))]:
            tables.append(self.folder / f"real{name}.h5")
            self.assert_done("fit", SAMPLE, "-o", tables[-1], "--max-iterations", 5, *options)
        self.assert_merges(tables[0], tables[1:])

    def test_some_layers_of_a_dump(self) -> None:
        whole = self.fit("whole.h5", "--layers", "1-4")
        parts = [self.fit(f"{k}.h5", "--layers", "1-4", "--shard", f"{k}/2") for k in [1, 2]]
        self.assert_merges(whole, parts, "--layers", "1-4")
        out = self.folder / "no.h5"
        self.assert_error(1, ["layers 0, 5, 6: in none of the parts", "--layers"], "merge", *parts, "-o", out)
        self.assert_error(1, "layer 4: in the parts, but --layers does not ask for them", "merge", *parts, "-o", out,
                          "--layers", "1-3")
        self.assertFalse(out.exists())

    def test_parts_of_other_fits_are_refused(self) -> None:
        out = self.folder / "no.h5"
        first, second = [self.fit(f"{k}.h5", "--shard", f"{k}/2") for k in [1, 2]]
        self.assert_error(1, "layers 3, 4, 5, 6: in none", "merge", first, "-o", out)
        self.assert_error(1, ["layers 0, 1, 2: in '", "1.h5' and again in"], "merge", first, second, first, "-o", out)
        other = self.fit("bits.h5", "--shard", "2/2", "--bits", "v=4")
        self.assert_error(1, ["not parts of one fit", "option v/bits: 3 in", "4 in"], "merge", first, other, "-o", out)
        renamed = self.dump.rename(self.folder / "renamed.h5")
        self.assert_done("fit", renamed, "-o", self.folder / "dump2.h5", *FIT, "--shard", "2/2")
        self.assert_error(1, "dump: dump.h5 in", "merge", first, self.folder / "dump2.h5", "-o", out)
        self.assert_error(1, "is the same file as the input", "merge", first, second, "-o", second, "--force")
        self.assert_error(1, "exists: pass --force", "merge", first, second, "-o", other)
        self.assert_error(2, "expected an output that ends in .h5 or .json", "merge", first, second, "-o",
                          self.folder / "t.safetensors")
        self.assertFalse(out.exists())


class ShardOptionTest(CliTest):
    def shard(self, variables: dict[str, int], *options: str) -> subprocess.CompletedProcess[str]:
        array = {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in variables.items()}
        return subprocess.run([BINARY, "fit", str(SAMPLE), "-o", str(self.folder / "t.h5"), "--force", "--preset", "seed",
                               "--max-iterations", "1", "--shard", *(options or ["auto"])],
                              env={**environment(), **array}, text=True, capture_output=True, check=False)

    def test_wrong_shards(self) -> None:
        for text in ["0/2", "3/2", "1", "1/", "/2", "a/b", "1/2/3", "-1/2", ""]:
            result = self.shard({}, text)
            self.assertEqual(result.returncode, 2, text)
        self.assertIn("there are 2 layers, expected at most one shard for each", self.shard({}, "3/3").stderr)

    def test_place_in_an_array_job(self) -> None:
        for variables, layer in [({"ID": 1, "COUNT": 2, "MIN": 1, "MAX": 2}, "0"),
                                 ({"ID": 1, "COUNT": 2, "MIN": 0, "MAX": 1}, "15"),
                                 ({"ID": 8, "COUNT": 2, "MIN": 4, "MAX": 8, "STEP": 4}, "15")]:
            result = self.shard(variables)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"layers       1 of the model's 30: {layer};", result.stdout)

    def test_no_array_or_one_with_gaps(self) -> None:
        self.assertIn("found no SLURM_ARRAY_TASK_ID", self.shard({}).stderr)
        for variables in [{"ID": 1, "COUNT": 2, "MIN": 1, "MAX": 7}, {"ID": 3, "COUNT": 2, "MIN": 1, "MAX": 2}]:
            result = self.shard(variables)
            self.assertEqual(result.returncode, 2)
            self.assertIn("an array without gaps", result.stderr)


if __name__ == "__main__":
    unittest.main()
