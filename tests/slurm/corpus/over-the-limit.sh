#!/bin/bash
#SBATCH --partition=debug
#SBATCH --time=2:00:00
./x
