#!/bin/bash
#SBATCH --licenses=matlab:1,abaqus@server:5
matlab -batch run
