# SPDX-License-Identifier: Apache-2.0
"""A fit that was stopped goes on from its finished layers, to the same bytes, and only when nothing differs."""
import fcntl
import os
import random
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from support import BINARY, SAMPLE, CliTest, environment, run

LAYERS = 8
FIT = ("--max-iterations", "20")
KILLS = 5
FIRST_KEYS, LAST_VALUES = 20_000, 20_000  # bytes from the start and from the end of the dump


class ResumeTest(CliTest):
    def setUp(self) -> None:
        super().setUp()
        self.dump = self.folder / "dump.h5"
        subprocess.run([os.environ["SO4CAL_WRITE_DUMPS"], self.dump, str(LAYERS)], check=True)
        self.table = self.folder / "t.h5"
        self.partial = self.folder / "t.h5.partial"

    def fit(self, *options: object) -> str:
        return self.assert_done("fit", self.dump, "-o", self.table, *FIT, *options)

    def whole(self) -> bytes:
        self.assert_done("fit", self.dump, "-o", self.folder / "whole.h5", *FIT)
        return (self.folder / "whole.h5").read_bytes()

    def finished(self) -> list[Path]:
        return sorted(self.partial.glob("layer_*.so4.h5"))

    def begin(self, sent: signal.Signals, layers: int) -> subprocess.CompletedProcess[str]:
        """Starts a fit on one thread and sends the signal when so many layers are finished."""
        process = subprocess.Popen([BINARY, "fit", self.dump, "-o", self.table, *FIT, "--threads", "1"],
                                   env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(self.finished()) < layers and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(sent)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess([], process.returncode, out, err)

    def begin_by_shard(self, *options: object) -> None:
        """The partial of a fit that has finished layers 0 and 1, made without luck: shard tables are its layers."""
        self.partial.mkdir()
        for layer in [0, 1]:
            self.assert_done("fit", self.dump, "-o", self.partial / f"layer_{layer}.so4.h5", "--layers", layer, *FIT,
                             *options)

    def assert_refused(self, words: list[str], *options: object) -> None:
        before = {path: path.read_bytes() for path in self.finished()}
        self.assert_error(1, ["t.h5.partial' holds finished layers of another fit", "rm -r", *words], "fit", self.dump,
                          "-o", self.table, *FIT, *options)
        self.assertEqual({path: path.read_bytes() for path in self.finished()}, before)
        self.assertFalse(self.table.exists())

    def test_signals(self) -> None:
        whole = self.whole()
        for sent, threads in [(signal.SIGINT, 1), (signal.SIGTERM, 2), (signal.SIGKILL, 1)]:
            with self.subTest(signal=sent):
                result = self.begin(sent, 2)
                self.assertGreaterEqual(len(self.finished()), 2, result.stderr)
                self.assertFalse(self.table.exists())
                if sent != signal.SIGKILL:
                    self.assertEqual(result.returncode, 130, result.stderr)
                    self.assertRegex(result.stderr, r"so4cal: interrupted; .*t.h5 was not written; finished layers "
                                                    r"\(0-\d\) are kept in .*t.h5.partial")
                self.assertIn("resumed      ", self.fit("--threads", threads))
                self.assertEqual(self.table.read_bytes(), whole)
                self.assertFalse(self.partial.exists())
                self.table.unlink()

    def test_kills_at_random_moments(self) -> None:
        seconds = time.monotonic()
        whole = self.whole()
        seconds = time.monotonic() - seconds
        moments = random.Random(5)
        for sent in [signal.SIGKILL, signal.SIGTERM]:
            for _ in range(KILLS):
                process = subprocess.Popen([BINARY, "fit", self.dump, "-o", self.table, *FIT], env=environment(),
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(moments.uniform(0, seconds / 2))
                process.send_signal(sent)
                process.wait(timeout=120)
                if self.table.exists():
                    break
            if not self.table.exists():
                self.fit()
            self.assertEqual(self.table.read_bytes(), whole)
            self.table.unlink()
            shutil.rmtree(self.partial, ignore_errors=True)  # of a kill between the table and the end

    def test_another_command_is_refused(self) -> None:
        self.begin_by_shard()
        self.assert_refused(["option k/bits: 3 in", "4 in"], "--bits", "k=4")
        self.assert_refused(["option seed: 1 in", "2 in"], "--seed", 2, "--force")
        self.assert_refused(["layer 0 is there", "--layers"], "--layers", "1-7")
        self.assertIn("with layers 0-1 finished", self.fit("--threads", 1))
        self.assertEqual(self.table.read_bytes(), self.whole())

    def change(self, at: int, values: bytes) -> None:
        """The dump's values are stored as they are, layer 0's keys first and the last layer's values at the end."""
        data = bytearray(self.dump.read_bytes())
        self.assertNotEqual(data[at:at + len(values)], values)
        data[at:at + len(values)] = values
        self.dump.write_bytes(data)

    def test_another_dump_is_refused(self) -> None:
        self.begin_by_shard()
        self.change(FIRST_KEYS, b"\x11\x22")
        self.assert_refused(["content of k of layer 0 in dump dump.h5 is not what it was"])
        shutil.rmtree(self.partial)
        self.begin_by_shard()
        self.dump.write_bytes(self.dump.read_bytes() + b"more")
        self.assert_refused(["bytes of dump dump.h5"])

    def test_layers_not_fitted_yet_may_change(self) -> None:
        self.begin_by_shard()
        self.change(self.dump.stat().st_size - LAST_VALUES, b"\x11\x22")
        self.fit()
        self.assertEqual(self.table.read_bytes(), self.whole())

    def test_another_version_is_refused(self) -> None:
        self.begin_by_shard()
        layer, text = self.finished()[0], self.folder / "layer.json"
        self.assert_done("export", layer, "-o", text)
        content = text.read_text()
        self.assertEqual(content.count('"tool_version"'), 1)
        version = self.assert_done("--version").strip()
        text.write_text(content.replace(f'"{version}"', '"0.0.1"'))
        self.assert_done("export", text, "-o", layer, "--force")
        self.assert_refused([f"version of so4cal: 0.0.1 in", f"{version} in"])

    def test_second_process_is_refused(self) -> None:
        self.begin_by_shard()
        with open(self.partial / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assert_error(1, "another so4cal is writing it", "fit", self.dump, "-o", self.table, *FIT)
        self.fit()

    def test_failure_keeps_what_is_finished(self) -> None:
        good = self.dump.read_bytes()
        self.change(len(good) - LAST_VALUES, b"\xff" * 4)  # NaN
        result = run("fit", self.dump, "-o", self.table, *FIT, "--threads", 1)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.splitlines()[-1],
                         r"so4cal: .*layers/7/v.*; finished layers \(0-\d\) are kept in .*t.h5.partial")
        self.assertFalse(self.table.exists())
        self.dump.write_bytes(good)
        self.assertIn("resumed      ", self.fit())
        self.assertEqual(self.table.read_bytes(), self.whole())


class DryRunTest(CliTest):
    def test_prints_and_writes_nothing(self) -> None:
        text = self.assert_done("fit", SAMPLE, "-o", self.folder / "t.h5", "--dry-run", "--preset", "seed")
        self.assertIn("tokens       2560: 1786 fit, 383 validation, 383 test", text)
        self.assertIn("heads        12 (keys and values) of 2 layers: 0,15", text)
        self.assertRegex(text, r"memory       about \d+ MB at most")
        self.assertRegex(text, r"time         about .* with \d+ threads: \d+ heads of layer 15 took")
        self.assertEqual(self.entries(), [])

    def test_memory_limit(self) -> None:
        for extra in [[], ["--dry-run"]]:
            self.assert_error(1, ["--memory-limit is 10 MB", "needs about"], "fit", SAMPLE, "-o", self.folder / "t.h5",
                              "--memory-limit", 10_000_000, *extra)
        self.assertEqual(self.entries(), [])
        self.assert_done("fit", SAMPLE, "-o", self.folder / "t.h5", "--memory-limit", "2G", "--dry-run", "--preset",
                         "seed")


if __name__ == "__main__":
    unittest.main()
