#!/bin/sh
#SBATCH -J quick
#SBATCH -t 5
#SBATCH -n 1
date
