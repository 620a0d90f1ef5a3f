#!/bin/bash
#SBATCH --constraint=quantum
./x
