#!/bin/bash
#SBATCH --parti=normal
#SBATCH --out=x.log
#SBATCH --job=short
true
