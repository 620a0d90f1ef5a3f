#!/bin/bash
#SBATCH --time=5
#SBATCH --time=10
#SBATCH --job-name=first
#SBATCH --job-name=second
true
