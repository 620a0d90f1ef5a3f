#!/bin/bash
#SBATCH --clusters=other
./x
