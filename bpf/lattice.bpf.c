/* What the kernel knows of runs and tells in no file: how long their tasks wait for a CPU, how long block requests take, how many
 * bytes they send and receive.  Counted by control group, for groups that the agent put into `watched`; all others cost one look.
 *
 * Tracepoints only.  The structures hold the members that are read and nothing else; where these lie is found when the program is
 * loaded (CO-RE), so that neither kernel headers nor those of libbpf are needed: `make bpf`.
 * Read by src/lattice/agent/telemetry/bpf/; sizes and order of the values are the same there.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define KERNEL __attribute__((preserve_access_index))
#define UINT(name, value) int(*name)[value]
#define TYPE(name, value) typeof(value) *name

/* Of linux/bpf.h */
enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_HASH = 5, MAP_LRU_HASH = 9 };
enum { ANY = 0, NO_EXIST = 1 };
enum { FIELD_EXISTS = 2 }; /* of libbpf's bpf_core_read.h */
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_ns)(void) = (void *)5;
static struct task_struct *(*current_task)(void) = (void *)158;

struct kernfs_node {
	u64 id;
} KERNEL;
struct cgroup;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} KERNEL;
struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
} KERNEL;
struct css_set {
	struct cgroup *dfl_cgrp;
} KERNEL;
struct task_struct {
	int pid;
	u32 __state; /* since 5.14 */
	struct css_set *cgroups;
} KERNEL;
struct blkcg {
	struct cgroup_subsys_state css;
} KERNEL;
struct blkcg_gq {
	struct blkcg *blkcg;
} KERNEL;
struct bio {
	struct blkcg_gq *bi_blkg;
} KERNEL;
struct gendisk {
	int major;
	int first_minor;
} KERNEL;
struct request_queue {
	struct gendisk *disk;
} KERNEL;
struct request {
	struct request_queue *q;
	u32 cmd_flags;
	u32 __data_len;
	struct bio *bio;
} KERNEL;
struct in6_addr {
	u8 s6_addr[16];
};
struct sock_common {
	u32 skc_daddr;
	u16 skc_family;
	struct in6_addr skc_v6_daddr;
} KERNEL;
struct sock {
	struct sock_common __sk_common;
} KERNEL;

#define LEVELS 8 /* a run's groups below its own: steps, containers */
#define BUCKETS 128 /* a power of two: the verifier follows a mask, not a comparison */
#define AF_INET 2
#define AF_INET6 10
#define MSG_PEEK 2
/* Parts of addresses as the words of this machine. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define MAPPED 0xffff0000
#define LOW_BYTE 0x000000ff
#define LOOPBACK 0x0000007f
#define LAST_ONE 0x01000000
#else
#define MAPPED 0x0000ffff
#define LOW_BYTE 0xff000000
#define LOOPBACK 0x7f000000
#define LAST_ONE 0x00000001
#endif

struct waits {
	u64 count;
	u64 ns;
	u64 sent;
	u64 received;
	u64 buckets[BUCKETS];
};

struct block_key {
	u64 group;
	u32 major;
	u32 minor;
};

struct block {
	u64 reads;
	u64 writes;
	u64 read_bytes;
	u64 written_bytes;
	u64 ns;
	u64 buckets[BUCKETS];
};

struct issued {
	u64 at;
	struct block_key key;
	u32 bytes;
	u32 is_write;
};

struct peer_key {
	u64 group;
	u8 address[16];
};

struct peer {
	u64 sent;
	u64 received;
};

/* Groups that are counted, by their id in the v2 hierarchy and in that of blkio, which may be another; the value is the run's. */
struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 8192);
	TYPE(key, u64);
	TYPE(value, u64);
} watched SEC(".maps"), watched_io SEC(".maps");

struct {
	UINT(type, MAP_PERCPU_HASH);
	UINT(max_entries, 2048);
	TYPE(key, u64);
	TYPE(value, struct waits);
} runs SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1024);
	TYPE(key, struct block_key);
	TYPE(value, struct block);
} blocks SEC(".maps");

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 8192);
	TYPE(key, struct peer_key);
	TYPE(value, struct peer);
} peers SEC(".maps");

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, u64);
} woken SEC(".maps");

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 8192);
	TYPE(key, u64);
	TYPE(value, struct issued);
} under_way SEC(".maps");

/* A block of nothing: too large for the stack. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct block);
} nothing SEC(".maps");

char licence[] SEC("license") = "GPL";

/* Four buckets for each power of two of microseconds, from below 1 us to days. */
INLINE u64 bucket_of(u64 ns)
{
	u64 us = ns / 1000;
	u64 power = 0;

	if (us < 4)
		return us;
	for (int step = 16; step; step /= 2) {
		if ((us >> power) >> step) {
			power += step;
		}
	}
	u64 bucket = power * 4 + ((us >> (power - 2)) & 3) - 4;

	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

INLINE u64 owner_of(void *map, struct cgroup *group)
{
	for (int level = 0; level < LEVELS; level++) {
		if (!group)
			return 0;
		struct kernfs_node *node = group->kn;
		if (!node)
			return 0;
		u64 id = node->id;
		u64 *found = map_lookup(map, &id);
		if (found)
			return *found;
		struct cgroup_subsys_state *parent = group->self.parent;
		if (!parent)
			return 0;
		group = parent->cgroup;
	}
	return 0;
}

INLINE u64 owner_of_task(struct task_struct *task)
{
	struct css_set *groups = task->cgroups;

	return groups ? owner_of(&watched, groups->dfl_cgrp) : 0;
}

INLINE void wakes(struct task_struct *task)
{
	if (!owner_of_task(task))
		return;
	u32 pid = task->pid;
	u64 now = ktime_ns();

	map_update(&woken, &pid, &now, ANY);
}

SEC("tp_btf/sched_wakeup") int on_wakeup(u64 *ctx)
{
	wakes((struct task_struct *)ctx[0]);
	return 0;
}

SEC("tp_btf/sched_wakeup_new") int on_wakeup_new(u64 *ctx)
{
	wakes((struct task_struct *)ctx[0]);
	return 0;
}

/* Whether it could go on: most tasks lose their CPU on the way back to user space, which the kernel does not call preemption. */
INLINE int is_ready(struct task_struct *task)
{
	return __builtin_preserve_field_info(task->__state, FIELD_EXISTS) && !task->__state;
}

SEC("tp_btf/sched_switch") int on_switch(u64 *ctx)
{
	struct task_struct *before = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];

	if (ctx[0] || is_ready(before)) /* it lost its CPU and waits again */
		wakes(before);
	u32 pid = next->pid;
	u64 *since = map_lookup(&woken, &pid);
	if (!since)
		return 0;
	u64 waited = ktime_ns() - *since;
	map_delete(&woken, &pid);
	u64 owner = owner_of_task(next);
	if (!owner)
		return 0;
	struct waits *found = map_lookup(&runs, &owner);
	if (!found || (long long)waited < 0)
		return 0;
	found->count++;
	found->ns += waited;
	found->buckets[bucket_of(waited) & (BUCKETS - 1)]++;
	return 0;
}

SEC("tp_btf/block_rq_issue") int on_issue(u64 *ctx)
{
	struct request *request = (struct request *)ctx[0];
	u32 operation = request->cmd_flags & 0xff;

	if (operation > 1) /* neither read nor write */
		return 0;
	struct issued issued = { .is_write = operation, .bytes = request->__data_len };
	struct bio *bio = request->bio;
	if (bio) {
		struct blkcg_gq *group = bio->bi_blkg;
		if (group) {
			struct blkcg *blkcg = group->blkcg;
			if (blkcg)
				issued.key.group = owner_of(&watched_io, blkcg->css.cgroup);
		}
	}
	if (!issued.key.group) /* written by the caller itself */
		issued.key.group = owner_of_task(current_task());
	if (!issued.key.group)
		return 0;
	struct request_queue *queue = request->q;
	struct gendisk *disk = queue ? queue->disk : 0;
	if (disk) {
		issued.key.major = disk->major;
		issued.key.minor = disk->first_minor;
	}
	issued.at = ktime_ns();
	u64 key = (u64)request;
	map_update(&under_way, &key, &issued, ANY);
	return 0;
}

SEC("tp_btf/block_rq_complete") int on_complete(u64 *ctx)
{
	u64 key = ctx[0];
	struct issued *found = map_lookup(&under_way, &key);

	if (!found)
		return 0;
	struct issued issued = *found;
	map_delete(&under_way, &key);
	u64 took = ktime_ns() - issued.at;
	struct block *sums = map_lookup(&blocks, &issued.key);
	if (!sums) {
		u32 zero = 0;
		struct block *empty = map_lookup(&nothing, &zero);
		if (!empty)
			return 0;
		map_update(&blocks, &issued.key, empty, NO_EXIST);
		sums = map_lookup(&blocks, &issued.key);
		if (!sums)
			return 0;
	}
	if (issued.is_write) {
		__sync_fetch_and_add(&sums->writes, 1);
		__sync_fetch_and_add(&sums->written_bytes, issued.bytes);
	} else {
		__sync_fetch_and_add(&sums->reads, 1);
		__sync_fetch_and_add(&sums->read_bytes, issued.bytes);
	}
	__sync_fetch_and_add(&sums->ns, took);
	__sync_fetch_and_add(&sums->buckets[bucket_of(took) & (BUCKETS - 1)], 1);
	return 0;
}

INLINE void moved(struct sock *sock, long long bytes, int is_sent)
{
	struct peer_key key = {};
	struct peer none = {};

	if (bytes <= 0)
		return;
	u16 family = sock->__sk_common.skc_family;
	if (family != AF_INET && family != AF_INET6)
		return;
	key.group = owner_of_task(current_task());
	if (!key.group)
		return;
	u32 *words = (u32 *)key.address;
	if (family == AF_INET6) {
		u64 *from = (u64 *)&sock->__sk_common.skc_v6_daddr;
		((u64 *)key.address)[0] = from[0];
		((u64 *)key.address)[1] = from[1];
	} else {
		words[2] = MAPPED;
		words[3] = sock->__sk_common.skc_daddr;
	}
	/* What stays on the machine is no traffic: 127.0.0.0/8 and ::1. */
	if (words[2] == MAPPED && (words[3] & LOW_BYTE) == LOOPBACK)
		return;
	if (!words[0] && !words[1] && !words[2] && words[3] == LAST_ONE)
		return;
	struct waits *sums = map_lookup(&runs, &key.group);
	if (sums) {
		if (is_sent)
			sums->sent += bytes;
		else
			sums->received += bytes;
	}
	struct peer *peer = map_lookup(&peers, &key);
	if (!peer) {
		map_update(&peers, &key, &none, NO_EXIST);
		peer = map_lookup(&peers, &key);
		if (!peer)
			return;
	}
	__sync_fetch_and_add(is_sent ? &peer->sent : &peer->received, bytes);
}

SEC("tp_btf/sock_send_length") int on_send(u64 *ctx)
{
	moved((struct sock *)ctx[0], (int)ctx[1], 1);
	return 0;
}

SEC("tp_btf/sock_recv_length") int on_receive(u64 *ctx)
{
	if (!((int)ctx[2] & MSG_PEEK))
		moved((struct sock *)ctx[0], (int)ctx[1], 0);
	return 0;
}
