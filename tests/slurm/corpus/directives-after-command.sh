#!/bin/bash
#SBATCH --time=5
set -e
#SBATCH --partition=nowhere
#SBATCH --no-such-option
true
