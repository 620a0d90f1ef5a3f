#!/bin/bash
#SBATCH --mem=90T
./x
