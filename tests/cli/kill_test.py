# SPDX-License-Identifier: Apache-2.0
"""Stopping `fit` at any moment leaves no output or a complete one."""
import random
import signal
import subprocess
import time
import unittest

from support import BINARY, SAMPLE, CliTest, environment, run

KILLS = 12
FIT = ("--preset", "seed", "--max-iterations", "20")  # short, so that many kills meet the reading and the writing


class KillTest(CliTest):
    def start(self, name: str) -> subprocess.Popen:
        return subprocess.Popen([BINARY, "fit", SAMPLE, "-o", self.folder / name, *FIT],
                                env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_kill_at_random_moments(self) -> None:
        seconds = time.monotonic()
        self.assert_done("fit", SAMPLE, "-o", self.folder / "whole.h5", *FIT)
        seconds = time.monotonic() - seconds
        whole = (self.folder / "whole.h5").read_bytes()
        moments = random.Random(3)
        complete = 0
        for i in range(KILLS):
            process = self.start(f"{i}.h5")
            time.sleep(moments.uniform(0, 1.1 * seconds))
            process.kill()
            process.communicate()
            out = self.folder / f"{i}.h5"
            if out.exists():
                complete += 1
                self.assertEqual(out.read_bytes(), whole)
        print(f"{KILLS} kills, {complete} after the output was there", flush=True)

    def test_interrupt(self) -> None:
        for sent in [signal.SIGINT, signal.SIGTERM]:
            with self.subTest(signal=sent):
                # Right after the log says that the fit has begun: heads in work are finished, which takes seconds
                # under sanitizers, the others not begun.
                process = subprocess.Popen([BINARY, "fit", SAMPLE, "-o", self.folder / "t.h5", "--preset", "seed",
                                            "--loss", "exact", "--log-level", "info"], env=environment(),
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertIn("fitting", process.stderr.readline())
                process.send_signal(sent)
                out, err = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 130, out + err)
                self.assertIn("so4cal: interrupted", err)
                self.assertEqual(out, "")
                self.assertEqual(self.entries(), [])


if __name__ == "__main__":
    unittest.main()
