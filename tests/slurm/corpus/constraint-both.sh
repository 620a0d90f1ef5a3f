#!/bin/bash
#SBATCH -C skylake&ib
lscpu
