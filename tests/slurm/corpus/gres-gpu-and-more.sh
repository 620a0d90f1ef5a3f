#!/bin/bash
#SBATCH --partition=gpu
#SBATCH --gres=gpu:1,nvme:1
python train.py
