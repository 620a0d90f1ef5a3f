#!/bin/bash
#SBATCH --quiet
#SBATCH --licenses=x
./x
