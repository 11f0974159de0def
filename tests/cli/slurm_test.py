# SPDX-License-Identifier: Apache-2.0
"""app/slurm/submit.sh on a real Slurm of one node, which the test starts as root: Debian's slurm-wlm and munge."""
import os
import shutil
import socket
import subprocess
import time
import unittest
from collections.abc import Callable
from pathlib import Path

from support import BINARY, ROOT, CliTest, environment

LAYERS, SHARDS = 32, 4
FIT = ("--preset", "seed", "--max-iterations", "20")
PATH = "/usr/sbin:" + os.environ["PATH"]
PROGRAMS = ["munged", "mungekey", "slurmctld", "slurmd", "sbatch", "squeue"]


def why_not() -> str:
    """Empty where the test can run."""
    if not os.environ.get("SO4CAL_LONG"):
        return "SKIPPED: starts a Slurm; run with --long"
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        return f"SKIPPED: no {', '.join(missing)}: install slurm-wlm and munge"
    return "" if os.geteuid() == 0 else "SKIPPED: not root, and munged and slurmd want to be started by root"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def config(folder: Path, munge_socket: Path) -> str:
    host, cpus = socket.gethostname().split(".")[0], os.cpu_count() or 1
    return f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={munge_socket}
CryptoType=crypto/munge
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SchedulerParameters=sched_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@unittest.skipIf(why_not(), why_not())
class SlurmTest(CliTest):
    def start(self, *command: object) -> None:
        """A daemon in the foreground, ended with the test."""
        env = {**self.env, "PATH": PATH}
        log = open(self.folder / f"{command[0]}.out", "w", encoding="utf-8")
        process = subprocess.Popen(list(map(str, command)), env=env, stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(log.close)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)

    def start_slurm(self) -> None:
        # munged wants a folder that only its user may write to, below folders that no one else may.
        munge = self.folder / "munge"
        munge.mkdir(mode=0o755)
        self.folder.chmod(0o755)
        subprocess.run(["/usr/sbin/mungekey", "--create", f"--keyfile={munge}/key"], check=True)
        conf = self.folder / "slurm.conf"
        conf.write_text(config(self.folder, munge / "socket"))
        for name in ["state", "spool"]:
            (self.folder / name).mkdir()
        self.env = {**environment(), "SLURM_CONF": str(conf)}
        self.start("munged", "--foreground", "--force", f"--socket={munge}/socket", f"--key-file={munge}/key",
                   f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        self.wait_for("munge's socket", (munge / "socket").exists)
        self.start("slurmctld", "-D", "-f", conf)
        self.start("slurmd", "-D", "-f", conf)
        self.wait_for("an idle node", lambda: "idle" in self.slurm("sinfo", "--noheader", "--format=%t"))

    def wait_for(self, what: str, reached: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not reached():
            if time.monotonic() > end:
                logs = {path.name: path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.[lo][ou][gt]")}
                self.fail(f"no {what} after {seconds} s: {logs}")
            time.sleep(0.2)

    def slurm(self, *command: str) -> str:
        return subprocess.run(command, env=self.env, text=True, capture_output=True, check=False).stdout

    def test_array_job_gives_the_bytes_of_the_single_run(self) -> None:
        dump, table, whole = (self.folder / name for name in ["dump.h5", "table.h5", "whole.h5"])
        subprocess.run([os.environ["SO4CAL_WRITE_DUMPS"], dump, str(LAYERS)], check=True)
        self.assert_done("fit", dump, "-o", whole, *FIT)
        self.start_slurm()
        submitted = subprocess.run([ROOT / "app/slurm/submit.sh", str(SHARDS), table, dump, "--", *FIT],
                                   env={**self.env, "SO4CAL": BINARY}, cwd=self.folder, text=True, capture_output=True,
                                   check=False)
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        self.assertRegex(submitted.stdout, r"fit job \d+, merge job \d+")
        self.wait_for("end of the jobs", lambda: self.slurm("squeue", "--noheader") == "", 240)
        outputs = {path.name: path.read_text() for path in self.folder.glob("slurm-*.out")}
        self.assertTrue(table.exists(), outputs)
        self.assertEqual(len(outputs), SHARDS + 1)
        self.assertEqual(table.read_bytes(), whole.read_bytes())
        self.assertEqual(list(self.folder.glob("table.h5.*")), [])


if __name__ == "__main__":
    unittest.main()
