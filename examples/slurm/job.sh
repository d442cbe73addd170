#!/bin/bash
#SBATCH --job-name=tranship
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=4
#SBATCH --time=00:10:00

# Staging servers, writers and readers, as steps of one job; see README.md.
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"

export CONTACT=$PWD/staging-$SLURM_JOB_ID.contact # where all nodes see it
export TRANSHIP_LISTEN=0.0.0.0:0                  # for other nodes to connect

trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT # whatever fails, no step stays

# Two servers share the memory of a node; each finds its rank in what Slurm says of its step.
srun --overlap --relative=0 --nodes=1 --ntasks=2 \
  tranship serve --servers 2 --contact "$CONTACT" --memory 4GiB &

srun --overlap --relative=1 --nodes=1 --ntasks=4 python writer.py "$CONTACT" &
writers=$!
srun --overlap --relative=2 --nodes=1 --ntasks=2 python reader.py "$CONTACT" &
readers=$!

wait "$writers"
wait "$readers"
