#!/bin/bash
#SBATCH	--job-name=tabs
#SBATCH	--time=5
true
