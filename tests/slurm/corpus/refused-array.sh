#!/bin/bash
#SBATCH --array=9-1
./x
