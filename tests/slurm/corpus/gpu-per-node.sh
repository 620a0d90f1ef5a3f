#!/bin/bash
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
srun torchrun --nnodes $SLURM_NNODES --nproc-per-node 8 train.py
