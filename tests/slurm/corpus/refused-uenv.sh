#!/bin/bash
#SBATCH --uenv=prgenv-gnu/24.7
#SBATCH --view=default
./x
