#!/bin/bash
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --nodes=1
./all
