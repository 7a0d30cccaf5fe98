#!/usr/bin/env bash
# One experiment on many machines: sbatch examples/slurm_array.sh configs/blog.json
# Each task measures its share of the windows into one shared folder; whichever task finishes last writes the
# table. Tasks that were killed are started again with the same line: finished units are not measured twice.
#SBATCH --job-name=kvcost
#SBATCH --array=1-8
#SBATCH --cpus-per-task=8
#SBATCH --mem=6G
#SBATCH --time=02:00:00
set -euo pipefail
config=${1:?usage: sbatch examples/slurm_array.sh CONFIG [SHARED_FOLDER]}
shared=${2:-$PWD}
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1} OMP_WAIT_POLICY=PASSIVE
exec "${SLURM_SUBMIT_DIR:-$PWD}/kvcost" run "$config" \
  --shard "${SLURM_ARRAY_TASK_ID:-1}/${SLURM_ARRAY_TASK_COUNT:-1}" \
  --threads "$OMP_NUM_THREADS" --store "$shared/runs" --out "$shared/results"
