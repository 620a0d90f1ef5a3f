#!/bin/bash
#SBATCH --chdir=/tmp
#SBATCH -o %u-%N-%x.%j
pwd
