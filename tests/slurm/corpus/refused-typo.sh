#!/bin/bash
#SBATCH --cpus-per-taks=4
./x
