#!/bin/bash
#SBATCH --input=input.txt
#SBATCH --output=/dev/null
cat
