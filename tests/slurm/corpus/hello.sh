#!/bin/bash
#SBATCH --job-name=hello
#SBATCH --output=hello-%j.out
#SBATCH --time=00:05:00
echo "Hello from $(hostname), job $SLURM_JOB_ID"
