#!/bin/bash
#SBATCH --partition=gpu
#SBATCH --ntasks=4
#SBATCH --gpus-per-task=1
#SBATCH --gpu-bind=closest
srun ./one_gpu_each
