#!/bin/bash
#SBATCH --job-name=align
#SBATCH --array=1-200%20
#SBATCH --output=logs/%x_%A_%a.out
#SBATCH --error=logs/%x_%A_%a.err
#SBATCH --cpus-per-task=4
#SBATCH --mem=16G
SAMPLE=$(sed -n "${SLURM_ARRAY_TASK_ID}p" samples.txt)
bwa mem -t "$SLURM_CPUS_PER_TASK" ref.fa "$SAMPLE" > "$SAMPLE.sam"
