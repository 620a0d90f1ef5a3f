#!/bin/bash
#SBATCH --bb="capacity=100GB"
#SBATCH --nodes=1
#BB create_persistent name=x
./x
