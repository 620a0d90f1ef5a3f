#!/bin/bash
#SBATCH --mail-type=ALL
#SBATCH --mail-user=ada
./long
