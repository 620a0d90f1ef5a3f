#!/bin/bash
#SBATCH --dependency=afterall:1
./x
