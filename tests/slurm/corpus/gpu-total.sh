#!/bin/bash
#SBATCH -p gpu
#SBATCH -G 8
#SBATCH --mem-per-gpu=60G
#SBATCH --cpus-per-gpu=8
srun python big.py
