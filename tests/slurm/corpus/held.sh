#!/bin/bash
#SBATCH --hold
#SBATCH --parsable
./x
