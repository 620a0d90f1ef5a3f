#!/bin/bash
#SBATCH --constraint="haswell|skylake"
#SBATCH --nodes=1
lscpu
