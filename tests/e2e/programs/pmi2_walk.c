/* A program that uses Slurm's PMI-2 library directly: every rank gets what all ranks put. */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    int spawned, size, rank, appnum, length, i;
    char key[64], value[256], job[256];
    if (PMI2_Init(&spawned, &size, &rank, &appnum) != PMI2_SUCCESS) return 3;
    if (PMI2_Job_GetId(job, sizeof job) != PMI2_SUCCESS) return 4;
    snprintf(key, sizeof key, "card-%d", rank);
    snprintf(value, sizeof value, "address;of=%d", rank);
    PMI2_KVS_Put(key, value);
    PMI2_KVS_Fence();
    for (i = 0; i < size; i++) {
        snprintf(key, sizeof key, "card-%d", i);
        if (PMI2_KVS_Get(job, PMI2_ID_NULL, key, value, sizeof value, &length) != PMI2_SUCCESS) return 5;
        printf("%d of %d: %s\n", rank, size, value);
    }
    return PMI2_Finalize() != PMI2_SUCCESS;
}
