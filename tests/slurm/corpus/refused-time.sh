#!/bin/bash
#SBATCH --time=soon
./x
