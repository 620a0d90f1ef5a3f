#!/bin/bash
#SBATCH --partition=nope
./x
