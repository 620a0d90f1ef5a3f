#!/bin/bash
#SBATCH --nodelist=zz9
./x
