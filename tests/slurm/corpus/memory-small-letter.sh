#!/bin/bash
#SBATCH --mem=8g
#SBATCH --time=0-2
./mem
