#SBATCH --ntasks=1
./x
