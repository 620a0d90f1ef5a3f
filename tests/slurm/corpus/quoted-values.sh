#!/bin/bash
#SBATCH --job-name="two words"
#SBATCH --comment='it is "quoted"'
#SBATCH --output="out dir/%j.txt"
true
