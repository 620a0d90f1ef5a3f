#!/usr/bin/perl
#SBATCH --job-name=pl
#SBATCH --time=5
print "$ENV{SLURM_JOB_ID}\n";
