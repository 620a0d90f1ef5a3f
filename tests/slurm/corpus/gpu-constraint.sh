#!/bin/bash
#SBATCH --partition=gpu
#SBATCH --gres=gpu:2
#SBATCH --constraint=a100
#SBATCH --qos=high
python infer.py
