#!/bin/bash
#SBATCH --reservation=maintenance
./x
