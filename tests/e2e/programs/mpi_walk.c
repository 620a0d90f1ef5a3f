/* What an MPI program does, in the ways that tests want: mpi_walk HOW [SECONDS]. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, sum = 0, token = 0;
    const char *how = argc > 1 ? argv[1] : "hello";

    if (!strcmp(how, "late") && getenv("PMI_RANK") && atoi(getenv("PMI_RANK")) == 1) {
        sleep(600);
    }
    if (!strcmp(how, "leave") && getenv("PMI_RANK") && atoi(getenv("PMI_RANK")) == 1) {
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(how, "ring") && size > 1) {
        if (rank) {
            MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        token++;
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
        if (!rank) {
            MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    printf("%s %d of %d sum %d token %d\n", how, rank, size, sum, token);
    fflush(stdout);
    if (!strcmp(how, "abort") && rank == 1) {
        MPI_Abort(MPI_COMM_WORLD, 7);
    }
    if (!strcmp(how, "spawn")) {
        MPI_Comm other;
        MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
    }
    if (!strcmp(how, "exit") && rank == 1) {
        _exit(9);
    }
    if (!strcmp(how, "wait")) {
        while (access(argv[2], F_OK)) {
            usleep(20000);
        }
    }
    MPI_Finalize();
    return 0;
}
