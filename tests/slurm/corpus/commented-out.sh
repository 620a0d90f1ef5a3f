#!/bin/bash
##SBATCH --partition=nowhere
# SBATCH --qos=nowhere
#SBATCH --time=5
#-----------------------------------
true
