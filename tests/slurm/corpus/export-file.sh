#!/bin/bash
#SBATCH --export-file=/tmp/vars
#SBATCH --wait-all-nodes=1
#SBATCH --reboot
./x
