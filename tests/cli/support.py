# SPDX-License-Identifier: Apache-2.0
"""Runs the built so4cal for the tests of the command line."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SO4CAL_BINARY", str(ROOT / "build/dev/so4cal"))
SAMPLE = ROOT / "data/smollm2_sample.h5"
BAD_DUMPS = ROOT / "tests/golden/bad/dumps"


def environment() -> dict[str, str]:
    """English messages, no colours, no array job around us."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    return {**outside, "LC_ALL": "C", "NO_COLOR": "1"}


def run(*args: object, cwd: Path | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BINARY, *map(str, args)], cwd=cwd, env=environment(), timeout=timeout, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, check=False)


class CliTest(unittest.TestCase):
    """A test with a folder of its own."""

    maxDiff = None

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="so4cal-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_done(self, *args: object, cwd: Path | None = None) -> str:
        """Exit code 0; returns stdout."""
        result = run(*args, cwd=cwd)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        return result.stdout

    def assert_error(self, code: int, words: str | list[str], *args: object) -> str:
        """Exit code, one line on stderr that starts with `so4cal: ` and has the words, nothing on stdout."""
        result = run(*args)
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"\Aso4cal: [^\n]+\n\Z")
        for word in [words] if isinstance(words, str) else words:
            self.assertIn(word, result.stderr)
        return result.stderr

    def entries(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())
