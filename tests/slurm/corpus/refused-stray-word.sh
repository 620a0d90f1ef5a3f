#!/bin/bash
#SBATCH --ntasks=1 stray
./x
