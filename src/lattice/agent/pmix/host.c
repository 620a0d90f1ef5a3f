/* A PMIx server for the ranks of one step on one node: libpmix between a Python process and the ranks.
 *
 * Frames on stdin and stdout: a letter, a length of four bytes (big-endian), content.
 *   in   J   lines: namespace, size, place of this node, nodes "a,b", ranks of each "0,1;2,3", directory; comes first
 *        D   the result of the fence that is open
 *        E   the fence that is open has failed
 *   out  V   NAME=VALUE of a rank's environment, for the first rank of this node
 *        R   all ranks are registered
 *        C   rank (four bytes): it has connected
 *        F   what this node gives to a fence
 *        A   rank, status (four bytes each): it called PMIx_Abort
 *        S   a rank asked for further processes, and was refused
 *        X   why it cannot continue
 * It ends when stdin ends. What it does not support is answered so.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmix.h>
#include <pmix_server.h>

enum { MOST_FRAME = 256 << 20, MOST_INFO = 24, JOB_LINES = 6, MOST_TOPOLOGY = 256 << 10 };

#define SLOW_PLUGINS \
    "hwloc_gl.so,hwloc_opencl.so,hwloc_cuda.so,hwloc_nvml.so,hwloc_rsmi.so,hwloc_levelzero.so,hwloc_xml_libxml.so"

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER, waiting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static int is_answered;
static pmix_status_t answer;

/* The fence that is open; the library opens the next one only when this one is done. */
static pthread_mutex_t fencing = PTHREAD_MUTEX_INITIALIZER;
static pmix_modex_cbfunc_t fence_done;
static void *fence_data;
static uint32_t world;

static void put(const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t written = write(1, at, size);
        if (written <= 0) _exit(0);
        at += written;
        size -= (size_t)written;
    }
}

static void tell(char kind, const void *data, size_t size) {
    uint8_t head[5] = {(uint8_t)kind, size >> 24 & 255, size >> 16 & 255, size >> 8 & 255, size & 255};
    pthread_mutex_lock(&writing);
    put(head, sizeof head);
    put(data, size);
    pthread_mutex_unlock(&writing);
}

static void fail(const char *form, ...) {
    char text[512];
    va_list values;
    va_start(values, form);
    vsnprintf(text, sizeof text, form, values);
    va_end(values);
    tell('X', text, strlen(text));
    _exit(1);
}

static int get(void *data, size_t size) {
    char *at = data;
    while (size) {
        ssize_t taken = read(0, at, size);
        if (taken <= 0) return 0;
        at += taken;
        size -= (size_t)taken;
    }
    return 1;
}

/* The content of the next frame, ended by a zero; NULL at the end. */
static char *hear(char *kind, size_t *size) {
    uint8_t head[5];
    if (!get(head, sizeof head)) return NULL;
    *kind = (char)head[0];
    *size = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    if (*size > MOST_FRAME) return NULL;
    char *data = malloc(*size + 1);
    if (!data || !get(data, *size)) return NULL;
    data[*size] = 0;
    return data;
}

static void number(uint8_t *at, uint32_t value) {
    for (int place = 0; place < 4; place++) at[place] = value >> (24 - 8 * place) & 255;
}

/* Calls of the library that answer on its own thread. */

static void note(pmix_status_t status, void *data) {
    (void)data;
    pthread_mutex_lock(&waiting);
    answer = status;
    is_answered = 1;
    pthread_cond_signal(&answered);
    pthread_mutex_unlock(&waiting);
}

static void await(const char *what, pmix_status_t status) {
    if (status == PMIX_SUCCESS) {
        pthread_mutex_lock(&waiting);
        while (!is_answered) pthread_cond_wait(&answered, &waiting);
        status = answer;
        is_answered = 0;
        pthread_mutex_unlock(&waiting);
    }
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) fail("%s: %s", what, PMIx_Error_string(status));
}

/* What ranks ask, on the library's thread. */

static pmix_status_t connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data) {
    (void)object, (void)done, (void)data;
    uint8_t rank[4];
    number(rank, proc->rank);
    tell('C', rank, sizeof rank);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *data) {
    (void)proc, (void)object, (void)done, (void)data;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t aborted(const pmix_proc_t *proc, void *object, int status, const char text[], pmix_proc_t procs[],
                             size_t count, pmix_op_cbfunc_t done, void *data) {
    (void)object, (void)text, (void)procs, (void)count, (void)done, (void)data;
    uint8_t said[8];
    number(said, proc->rank);
    number(said + 4, (uint32_t)status);
    tell('A', said, sizeof said);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t fence(const pmix_proc_t procs[], size_t count, const pmix_info_t info[], size_t infos, char *data,
                           size_t size, pmix_modex_cbfunc_t done, void *with) {
    (void)info, (void)infos;
    if (!(count == 1 && procs[0].rank == PMIX_RANK_WILDCARD) && count != world) return PMIX_ERR_NOT_SUPPORTED;
    pthread_mutex_lock(&fencing);
    int is_open = fence_done != NULL;
    if (!is_open) {
        fence_done = done;
        fence_data = with;
    }
    pthread_mutex_unlock(&fencing);
    if (is_open) return PMIX_ERR_NOT_SUPPORTED;
    tell('F', data ? data : "", data ? size : 0);
    return PMIX_SUCCESS;
}

static pmix_status_t direct(const pmix_proc_t *proc, const pmix_info_t info[], size_t infos, pmix_modex_cbfunc_t done,
                            void *data) {
    (void)proc, (void)info, (void)infos, (void)done, (void)data;
    return PMIX_ERR_NOT_FOUND; /* everything was exchanged by the fence */
}

static pmix_status_t spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t infos, const pmix_app_t apps[],
                           size_t count, pmix_spawn_cbfunc_t done, void *data) {
    (void)proc, (void)info, (void)infos, (void)apps, (void)count, (void)done, (void)data;
    tell('S', "", 0);
    return PMIX_ERR_NOT_SUPPORTED;
}

static pmix_server_module_t module = {
    .client_connected = connected,
    .client_finalized = finalized,
    .abort = aborted,
    .fence_nb = fence,
    .direct_modex = direct,
    .spawn = spawn,
};

static void complete(pmix_status_t status, char *data, size_t size) {
    pthread_mutex_lock(&fencing);
    pmix_modex_cbfunc_t done = fence_done;
    void *with = fence_data;
    fence_done = NULL;
    pthread_mutex_unlock(&fencing);
    if (done) done(status, data, size, with, free, data);
    else free(data);
}

/* The step. */

static pmix_info_t infos[MOST_INFO];
static size_t used;

static void add(const char *key, const void *value, pmix_data_type_t type) {
    PMIX_INFO_LOAD(&infos[used], key, value, type);
    used++;
}

static void add_number(const char *key, uint32_t value) { add(key, &value, PMIX_UINT32); }

/* The part of `text` at `place`, between semicolons. */
static char *part(const char *text, long place) {
    for (; place > 0 && text; place--) text = strchr(text, ';') ? strchr(text, ';') + 1 : NULL;
    if (!text) fail("the step has no such node");
    char *copy = strdup(text), *end = strchr(copy, ';');
    if (end) *end = 0;
    return copy;
}

static uint32_t words(const char *text) {
    uint32_t count = *text != 0;
    for (; *text; text++) count += *text == ',';
    return count;
}

static char *node_at(const char *nodes, long place) {
    for (; place > 0 && nodes; place--) nodes = strchr(nodes, ',') ? strchr(nodes, ',') + 1 : NULL;
    if (!nodes) fail("the step has no such node");
    char *copy = strdup(nodes), *end = strchr(copy, ',');
    if (end) *end = 0;
    return copy;
}

/* The node as hwloc sees it: every rank would look for itself otherwise, which takes longer than the rest of MPI_Init. hwloc comes with
 * libpmix, its headers may not. */
static void *topology;
static char *topology_texts[2]; /* as hwloc 1 and 2 read it */

static void discover(void) {
    unsigned (*version)(void) = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "hwloc_get_api_version");
    int (*make)(void **) = (int (*)(void **))dlsym(RTLD_DEFAULT, "hwloc_topology_init");
    int (*keep_devices)(void *, int) = (int (*)(void *, int))dlsym(RTLD_DEFAULT, "hwloc_topology_set_io_types_filter");
    int (*load)(void *) = (int (*)(void *))dlsym(RTLD_DEFAULT, "hwloc_topology_load");
    int (*write_text)(void *, char **, int *, unsigned long) =
        (int (*)(void *, char **, int *, unsigned long))dlsym(RTLD_DEFAULT, "hwloc_topology_export_xmlbuffer");
    int size = 0;
    if (!version || version() >> 16 != 2 || !make || !keep_devices || !load || !write_text) return;
    if (make(&topology)) {
        topology = NULL;
        return;
    }
    /* 3: HWLOC_TYPE_FILTER_KEEP_IMPORTANT; the last argument below, 1: in the form of hwloc 1. */
    if (keep_devices(topology, 3) || load(topology)) {
        topology = NULL;
        return;
    }
    for (int form = 0; form < 2; form++)
        if (write_text(topology, &topology_texts[form], &size, !form) || size > MOST_TOPOLOGY) topology_texts[form] = NULL;
}

static void register_step(char *job[], const char *local, const char *host) {
    char *node_map = NULL, *rank_map = NULL;
    if (PMIx_generate_regex(job[3], &node_map) != PMIX_SUCCESS || PMIx_generate_ppn(job[4], &rank_map) != PMIX_SUCCESS)
        fail("the layout of the step cannot be encoded");
#ifdef PMIX_REGEX
    pmix_data_type_t map = PMIX_REGEX;
#else
    pmix_data_type_t map = PMIX_STRING;
#endif
    used = 0;
    add_number(PMIX_UNIV_SIZE, world);
    add_number(PMIX_JOB_SIZE, world);
    add_number(PMIX_MAX_PROCS, world);
    add_number(PMIX_JOB_NUM_APPS, 1);
    add_number(PMIX_LOCAL_SIZE, words(local));
    add_number(PMIX_NODE_SIZE, words(local));
    add_number(PMIX_NUM_NODES, words(job[3]));
    add_number(PMIX_NODEID, (uint32_t)atol(job[2]));
    add_number(PMIX_LOCALLDR, (uint32_t)atol(local));
    add(PMIX_LOCAL_PEERS, local, PMIX_STRING);
    add(PMIX_JOBID, job[0], PMIX_STRING);
    add(PMIX_HOSTNAME, host, PMIX_STRING);
    add(PMIX_NODE_MAP, node_map, map);
    add(PMIX_PROC_MAP, rank_map, map);
#ifdef PMIX_HWLOC_XML_V2
    for (int form = 0; form < 2; form++)
        if (topology_texts[form]) add(form ? PMIX_HWLOC_XML_V2 : PMIX_HWLOC_XML_V1, topology_texts[form], PMIX_STRING);
#endif
    await("register", PMIx_server_register_nspace(job[0], (int)words(local), infos, used, note, NULL));
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, job[0], 0);
    for (const char *at = local; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        proc.rank = (pmix_rank_t)atol(at);
        await("register", PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, note, NULL));
    }
}

static void tell_environment(const char *name, const char *local) {
    char **variables = NULL;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, name, (pmix_rank_t)atol(local));
    pmix_status_t status = PMIx_server_setup_fork(&proc, &variables);
    if (status != PMIX_SUCCESS) fail("environment: %s", PMIx_Error_string(status));
    for (char **at = variables; at && *at; at++) tell('V', *at, strlen(*at));
}

int main(void) {
    char kind, *lines, *job[JOB_LINES];
    size_t size;
    lines = hear(&kind, &size);
    if (!lines || kind != 'J') return 2;
    for (int place = 0; place < JOB_LINES; place++) {
        job[place] = strsep(&lines, "\n");
        if (!job[place]) fail("the step is incomplete");
    }
    world = (uint32_t)atol(job[1]);
    char *local = part(job[4], atol(job[2])), *host = node_at(job[3], atol(job[2]));
    uint32_t own = 0;
    setenv("PMIX_MCA_gds", "hash", 1);
    /* Displays and accelerators: their libraries take long to start, and no rank looks for them here. */
    setenv("HWLOC_PLUGINS_BLACKLIST", SLOW_PLUGINS, 1);
    discover();
    add(PMIX_SERVER_TMPDIR, job[5], PMIX_STRING);
    add(PMIX_SYSTEM_TMPDIR, job[5], PMIX_STRING);
    add(PMIX_SERVER_NSPACE, "lattice", PMIX_STRING);
    add(PMIX_SERVER_RANK, &own, PMIX_PROC_RANK);
    add(PMIX_HOSTNAME, host, PMIX_STRING);
#ifdef PMIX_TOPOLOGY
    if (topology) add(PMIX_TOPOLOGY, topology, PMIX_POINTER);
#endif
    pmix_status_t status = PMIx_server_init(&module, infos, used);
    if (status != PMIX_SUCCESS) fail("libpmix: %s", PMIx_Error_string(status));
    register_step(job, local, host);
    tell_environment(job[0], local);
    tell('R', "", 0);
    char *data;
    while ((data = hear(&kind, &size))) complete(kind == 'D' ? PMIX_SUCCESS : PMIX_ERR_TIMEOUT, data, size);
    PMIx_server_finalize();
    return 0;
}
