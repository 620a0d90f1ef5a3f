#!/bin/bash
#SBATCH --partition=debug,normal
./x
