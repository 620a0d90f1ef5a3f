#!/bin/bash
#SBATCH --container=/images/oci
#SBATCH --network=IB
./x
