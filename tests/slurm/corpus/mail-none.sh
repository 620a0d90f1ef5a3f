#!/bin/bash
#SBATCH --mail-type=NONE
./long
