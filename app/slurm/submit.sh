#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fits a dump as a Slurm array job, one shard of its layers per task, and merges the tables when all are done:
#   app/slurm/submit.sh SHARDS TABLE DUMP... [-- FIT_OPTIONS...]
# The table has the bytes that one `so4cal fit` would give. All nodes need the dump and the table's folder under the same
# path, and CPUs with the same vector instructions (--constraint); `merge` refuses tables from different ones.
# SO4CAL: the program, default so4cal in PATH. SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_CONSTRAINT and so on: see sbatch.
# A task that is preempted, requeued or out of time goes on from its last finished layer: `scontrol requeue JOB_TASK`.
set -euo pipefail

if [[ $# -lt 3 || ! $1 =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: app/slurm/submit.sh SHARDS TABLE DUMP... [-- FIT_OPTIONS...]" >&2
  exit 2
fi
shards=$1 table=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
export SO4CAL=${SO4CAL:-so4cal}

fit_job=$(sbatch --parsable --array="1-$shards" "$here/fit.sbatch" "$table" "$@")
fit_job=${fit_job%%;*} # JOB;CLUSTER
merge_job=$(sbatch --parsable --dependency="afterok:$fit_job" --kill-on-invalid-dep=yes "$here/merge.sbatch" "$table" "$shards")
echo "fit job $fit_job, merge job ${merge_job%%;*}: writes $table"
