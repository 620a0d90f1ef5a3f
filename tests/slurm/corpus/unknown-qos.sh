#!/bin/bash
#SBATCH --qos=premium
./x
