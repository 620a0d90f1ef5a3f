#!/bin/bash

# Runs the solver.
#
#SBATCH --time=5

# How many tasks
#SBATCH --ntasks=2

srun ./solver
