#!/bin/bash
#SBATCH --export=ALL,SEED=7,MODE=fast
./run
