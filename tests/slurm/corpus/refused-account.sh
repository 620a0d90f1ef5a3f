#!/bin/bash
#SBATCH --account=nope
./x
