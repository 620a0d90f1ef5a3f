#!/bin/bash
#SBATCH --gres=lscratch:100
#SBATCH --time=60
cp data "$TMPDIR" && ./work
