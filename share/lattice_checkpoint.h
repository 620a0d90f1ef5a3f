/* Checkpoints by shared memory (lattice submit --checkpoint=shmem), for programs in C and C++.
 *
 *     struct lattice_checkpoint *shm = lattice_checkpoint_open();
 *     const char *from = getenv("LATTICE_RESUME_FROM");
 *     ...
 *     uint32_t n = lattice_checkpoint_requested(shm);
 *     if (n) {
 *         char path[4096];
 *         if (lattice_checkpoint_path(n, path, sizeof path) == 0 && save(path) == 0)
 *             lattice_checkpoint_done(shm, n);
 *         else
 *             lattice_checkpoint_failed(shm, n);
 *     }
 *
 * Linux only. A program outside of Lattice gets NULL from lattice_checkpoint_open, which all functions take: nothing is ever asked for.
 */
#ifndef LATTICE_CHECKPOINT_H
#define LATTICE_CHECKPOINT_H

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LATTICE_CHECKPOINT_MAGIC 0x504B434Cu /* "LCKP" */
#define LATTICE_CHECKPOINT_VERSION 1u

struct lattice_checkpoint {
    uint32_t magic;
    uint32_t version;
    uint32_t request;      /* number of the newest checkpoint that is asked for; a futex */
    uint32_t done;         /* number of the newest one that is complete */
    uint32_t failed;       /* number of the newest one that failed */
    uint32_t per_mille;    /* how far the present one is */
    uint64_t deadline_ms;  /* of the newest request, since 1970 */
    uint8_t reserved[32];
};

/* The region, or NULL where the program is not asked by shared memory. */
static inline struct lattice_checkpoint *lattice_checkpoint_open(void)
{
    const char *path = getenv("LATTICE_CHECKPOINT_SHM");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return NULL;
    void *at = mmap(NULL, sizeof(struct lattice_checkpoint), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return NULL;
    struct lattice_checkpoint *shm = (struct lattice_checkpoint *)at;
    if (shm->magic != LATTICE_CHECKPOINT_MAGIC || shm->version != LATTICE_CHECKPOINT_VERSION)
        return NULL;
    return shm;
}

/* The number of the checkpoint that is asked for and has no answer yet; 0 = none. */
static inline uint32_t lattice_checkpoint_requested(const struct lattice_checkpoint *shm)
{
    if (!shm)
        return 0;
    uint32_t n = __atomic_load_n(&shm->request, __ATOMIC_ACQUIRE);
    return n == shm->done || n == shm->failed ? 0 : n;
}

/* Waits up to that many milliseconds for another request than `seen`; for a thread of its own. */
static inline uint32_t lattice_checkpoint_wait(struct lattice_checkpoint *shm, uint32_t seen, unsigned ms)
{
    struct timespec limit = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000L};
    if (!shm)
        return 0;
    if (__atomic_load_n(&shm->request, __ATOMIC_ACQUIRE) == seen)
        syscall(SYS_futex, &shm->request, FUTEX_WAIT, seen, &limit, NULL, 0);
    return lattice_checkpoint_requested(shm);
}

/* The directory of checkpoint `n`, from the request file; 0, or -1 where that is of another checkpoint. */
static inline int lattice_checkpoint_path(uint32_t n, char *path, size_t size)
{
    char text[8192], own[32];
    const char *name = getenv("LATTICE_CHECKPOINT_REQUEST");
    FILE *file = name ? fopen(name, "r") : NULL;
    if (!file)
        return -1;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    snprintf(own, sizeof own, "\"n\":%u,", n);
    char *from = strstr(text, "\"path\":\"");
    if (!strstr(text, own) || !from)
        return -1;
    from += strlen("\"path\":\"");
    char *end = strchr(from, '"');
    if (!end || (size_t)(end - from) >= size)
        return -1;
    memcpy(path, from, (size_t)(end - from));
    path[end - from] = 0;
    return 0;
}

static inline void lattice_checkpoint_progress(struct lattice_checkpoint *shm, uint32_t per_mille)
{
    if (shm)
        __atomic_store_n(&shm->per_mille, per_mille, __ATOMIC_RELEASE);
}

static inline void lattice_checkpoint_done(struct lattice_checkpoint *shm, uint32_t n)
{
    if (shm)
        __atomic_store_n(&shm->done, n, __ATOMIC_RELEASE);
}

static inline void lattice_checkpoint_failed(struct lattice_checkpoint *shm, uint32_t n)
{
    if (shm)
        __atomic_store_n(&shm->failed, n, __ATOMIC_RELEASE);
}

#endif
