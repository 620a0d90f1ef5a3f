#!/bin/bash
#SBATCH --time=UNLIMITED
#SBATCH --partition=normal
./x
