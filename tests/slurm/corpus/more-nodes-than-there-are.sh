#!/bin/bash
#SBATCH --nodes=500
srun ./x
