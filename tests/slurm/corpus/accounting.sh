#!/bin/bash
#SBATCH --account=chem
#SBATCH --wckey=paper
#SBATCH --comment=run-7
#SBATCH --qos=normal
#SBATCH --profile=task
#SBATCH --acctg-freq=30
./x
