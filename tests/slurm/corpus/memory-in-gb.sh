#!/bin/bash
#SBATCH --mem=16GB
#SBATCH --time=0-02:30
./mem
