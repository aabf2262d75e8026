/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * otte: registered memory moved between processes and hosts.
 *
 * Objects, in the order a program meets them:
 *
 *   otte_engine   one endpoint of transfers: its threads, its ledger, its listener
 *   otte_mem      an allocation: owned by the engine, adopted from the caller, or a mapped file
 *   otte_region   a registered view of an otte_mem, with access rights; peers see regions
 *   otte_segment  another engine, as seen from here: its endpoint, its epoch, its regions
 *   otte_batch    requests submitted together, and what became of each
 *
 * Conventions
 *   Errors      Functions return 0 (or a count) on success and a negative errno value otherwise.
 *               otte_error_text() then says, for the calling thread, what was at fault.
 *   Ownership   A create/open/alloc call gives a handle that its destroy/close/release call takes.
 *               Strings and arrays passed in are copied; nothing of the caller's is kept but memory
 *               given to otte_mem_adopt().
 *   Threads     Every function may be called from any thread at any time unless its comment says
 *               otherwise. A handle must not be used during or after the call that gives it back.
 *   Fork        Handles belong to the process that created the engine. In a forked child every
 *               call that takes one and can fail returns -EOWNERDEAD and touches nothing.
 *   Time        Durations and instants are in nanoseconds; instants are of CLOCK_MONOTONIC. A
 *               timeout_ns of 0 does not wait, a negative one waits for ever.
 *   Bytes       Lengths and offsets are in bytes.
 *   Structs     A struct with a leading `size` grows at its end. Set `size` to sizeof the struct that
 *               the program was compiled with; the library reads and writes no further.
 *
 * The errno contract (docs/abi/errors.md):
 *   -EINVAL malformed argument; -ENOENT unknown region; -ERANGE outside a region; -EACCES right not
 *   granted; -ESTALE peer or memory is not the one it was prepared against; -EKEYREVOKED revoked or
 *   fenced; -EDQUOT a budget is full (the text names it); -EBUSY conflicts with live access;
 *   -ECANCELED cancelled; -ETIME deadline passed before dispatch (nothing moved); -ETIMEDOUT
 *   deadline passed after dispatch; -ECONNRESET peer lost; -ENOSYS, -ENODEV missing library or
 *   device, named; -EUCLEAN physical completion unproven, resources retained; -ESHUTDOWN the engine
 *   is closed for that direction; -ENOMEM no memory; -EPROTO the peer broke the protocol;
 *   -EPROTONOSUPPORT the peer or the kernel module speaks another version; -EKEYREJECTED the peer
 *   failed authentication; -EOWNERDEAD forked; -E2BIG a text or struct larger than the library
 *   takes; -EEXIST that memory is known already; -ENOTCONN no listener, or a peer that the named
 *   transport does not reach; -ENOSPC the caller's buffer is short; -EAGAIN nothing there yet;
 *   -EALREADY another thread is in that call; -EOPNOTSUPP not with this ledger, or not with this
 *   memory; -EUSERS as many peers of other users borrow of that memory as can; -EFAULT memory that
 *   cannot be pinned, or not be copied; -EPERM others may read the key's file; -ENETUNREACH no NIC
 *   reaches one of the peer's, or none that does is well; -ECONNREFUSED nobody listens there;
 *   -EHOSTUNREACH the host name is unknown.
 */
#ifndef OTTE_OTTE_H
#define OTTE_OTTE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OTTE_API __attribute__((visibility("default")))

/* Version of this header. otte_version() gives that of the library in use. */
#define OTTE_VERSION_MAJOR 0
#define OTTE_VERSION_MINOR 1
#define OTTE_VERSION_PATCH 0

/* ---- Errors, log, version -------------------------------------------------------------------- */

/* "MAJOR.MINOR.PATCH" of the library; static storage. */
OTTE_API const char *otte_version(void);

/*
 * What the last failing call of this thread found at fault, as one line without a newline; "" if
 * none failed. Valid until this thread's next call into the library.
 */
OTTE_API const char *otte_error_text(void);

/* Meaning of a code in this library's words, e.g. -EDQUOT: "a budget is full". Static storage. */
OTTE_API const char *otte_strerror(int code);

enum otte_log_level {
	OTTE_LOG_ERROR = 0,
	OTTE_LOG_WARNING = 1,
	OTTE_LOG_INFO = 2,
	OTTE_LOG_DEBUG = 3,
};

/*
 * The library prints nothing: each message of at most `level` goes to `hook`, one line without a
 * newline, possibly from the library's threads and never with a lock of the library held that the
 * hook could want. NULL restores silence. Process-wide; returns 0. A message that another thread
 * had begun may still reach the former hook after the return, so `arg` stays valid until then.
 * `line` is valid during the call.
 */
typedef void (*otte_log_hook)(void *arg, enum otte_log_level level, const char *line);
OTTE_API int otte_log_set(otte_log_hook hook, void *arg, enum otte_log_level level);

/* ---- Configuration --------------------------------------------------------------------------- */

enum otte_ledger_kind {
	OTTE_LEDGER_AUTO = 0,    /* kernel where /dev/otte answers, else process; logged */
	OTTE_LEDGER_KERNEL = 1,  /* fails closed, naming what is missing */
	OTTE_LEDGER_PROCESS = 2, /* the same rules inside this process */
};

/*
 * By RDMA a request is granted exactly its range, for once, or moves by a lease: a range that stays in reach of our NIC
 * for further requests, without the source's doing, until we do not use it for a while or the source wants it back. To
 * others that range is in use meanwhile. What cannot be had by a lease is granted for once.
 */
enum otte_lease {
	OTTE_LEASE_DEFAULT = 0,  /* as rdma.lease says */
	OTTE_LEASE_OFF = 1,
	OTTE_LEASE_RANGE = 2,    /* of the request's range */
	OTTE_LEASE_REGION = 3,   /* of the remote region as a whole, if it was described; else as RANGE */
};

enum otte_zerocopy {
	OTTE_ZEROCOPY_AUTO = 0,   /* to other hosts, until the kernel says that it copies */
	OTTE_ZEROCOPY_OFF = 1,
	OTTE_ZEROCOPY_ALWAYS = 2, /* within this host as well, for tests and measurements */
};

#define OTTE_RDMA_GID_UNSET 65535u
#define OTTE_RDMA_NODE_UNSET 65535u

/* Which NICs of a peer those of ours are paired with. */
enum otte_rail_choice {
	OTTE_RAIL_ALL = 0,    /* each with its like, and where that is not to be had with any that it reaches */
	OTTE_RAIL_DIRECT = 1, /* each with its like, by the order of both hosts' NICs */
};

enum otte_host_memory {
	OTTE_HOST_MEMORY_DIRECT = 0, /* NICs know what is registered, and reach it where it is */
	OTTE_HOST_MEMORY_STAGED = 1, /* they know pools of chunks of ours, and bytes are copied */
};

/* The same of a GPU's: as long as it is staged no NIC knows it, and it is not registered for peers. */
enum otte_cuda_memory {
	OTTE_CUDA_MEMORY_STAGED = 0,
	OTTE_CUDA_MEMORY_DIRECT = 1,
};

/* How NICs are told of it. */
enum otte_gpu_registration {
	OTTE_GPU_REGISTRATION_AUTO = 0,   /* as a dma-buf where that can be had, else by a module */
	OTTE_GPU_REGISTRATION_DMABUF = 1,
	OTTE_GPU_REGISTRATION_PEERMEM = 2,
};

enum otte_rdma_progress {
	OTTE_RDMA_PROGRESS_EVENTS = 0,  /* its threads sleep until NICs have something to tell */
	OTTE_RDMA_PROGRESS_POLLING = 1, /* and do not, as long as they have queue pairs: a CPU for each */
};

#define OTTE_CONFIG_VERSION 1
#define OTTE_NAME_MAX 64      /* bytes of a name with its terminator */
#define OTTE_ADDRESS_MAX 256  /* bytes of "host:port" or "[v6]:port" with its terminator */
#define OTTE_PATH_MAX 1024    /* bytes of a path in the config with its terminator */
#define OTTE_NAMES_MAX 1024   /* bytes of a list of names in the config with its terminator */
#define OTTE_MATRIX_MAX 8192  /* bytes of a matrix of NICs in the config with its terminator */
#define OTTE_DESCRIPTOR_MAX 512 /* bytes of a peer descriptor with its terminator */
#define OTTE_NOTIFY_MAX 4096  /* bytes of one notification */
#define OTTE_TEXT_MAX 192     /* bytes of an explanation with its terminator */
#define OTTE_FAILURE_TEXT_MAX 288 /* of that of a failure: a code's words, why, effect and drain, none cut */

/*
 * Every tunable, with its JSON key. otte_config_init() gives the defaults shown. Lengths are bytes.
 * docs/man/otte.json.5 describes ranges; a value outside is -EINVAL with the key in the text.
 */
struct otte_config {
	uint32_t size;
	uint32_t version;                       /* OTTE_CONFIG_VERSION */

	char name[OTTE_NAME_MAX];               /* name: shown to peers; "" = comm of the process */
	uint32_t ledger;                        /* ledger: enum otte_ledger_kind; auto */

	/* Where to listen. Empty address: no listener, a pure requester. */
	char listen_address[OTTE_ADDRESS_MAX];  /* listen.address: host or address; "127.0.0.1" */
	uint32_t listen_port;                   /* listen.port: 0..65535; 0 = any free one */
	char advertise[OTTE_ADDRESS_MAX];       /* listen.advertise: host[:port] given to peers; "" */

	char key_file[OTTE_PATH_MAX];           /* auth.key_file: "" = no authentication */

	uint32_t control_connections;           /* control.connections: 256 accepted at a time */
	uint32_t control_frame_bytes;           /* control.frame_bytes: 65536 */
	uint64_t control_timeout_ns;            /* control.timeout_ms: 5000, hello and answers */
	uint64_t reconnect_min_ns;              /* control.reconnect_min_ms: 50 */
	uint64_t reconnect_max_ns;              /* control.reconnect_max_ms: 5000 */

	/* Budgets: refused with -EDQUOT when full. */
	uint64_t max_regions;                   /* limits.regions: 65536 */
	uint64_t max_registered_bytes;          /* limits.registered_bytes: 1 TiB */
	uint64_t max_requests;                  /* limits.requests: 65536 outstanding */
	uint64_t max_bytes;                     /* limits.bytes: 1 GiB outstanding */
	uint64_t max_loans;                     /* limits.loans: 65536 */
	uint64_t max_retained_bytes;            /* limits.retained_bytes: 16 GiB */
	uint64_t max_notifications;             /* limits.notifications: 1024 queued, each direction */

	uint32_t stats_socket;                  /* stats.socket: true; abstract UNIX socket otte/PID */

	/* Dispatch window for each peer: work beyond it waits inside its deadline. */
	uint32_t window_requests;               /* window.requests: 64 */
	uint64_t window_bytes;                  /* window.bytes: 64 MiB */

	uint64_t default_deadline_ns;           /* deadline.default_ms: 30000; 0 = none */
	uint32_t retry_budget;                  /* retry.budget: 1 for each request */

	/* TCP transport. */
	uint32_t tcp_lanes;                     /* tcp.lanes: 1..16, 2 for each peer */
	uint32_t tcp_workers;                   /* tcp.workers: 1..16, 1 thread that serves peers */
	uint32_t tcp_max_slices;                /* tcp.max_slices: 64 for each request */
	char tcp_congestion[16];                /* tcp.congestion: "" = the system's */
	uint64_t tcp_block_bytes;               /* tcp.block_bytes: 65536, base of slicing */
	uint64_t tcp_send_buffer;               /* tcp.send_buffer_bytes: 0 = by peer */
	uint64_t tcp_receive_buffer;            /* tcp.receive_buffer_bytes: 0 = the system's */
	uint64_t tcp_stall_ns;                  /* tcp.stall_timeout_ms: 10000 without a byte moved */
	uint32_t tcp_zerocopy;                  /* tcp.zerocopy: enum otte_zerocopy; auto */
	uint32_t tcp_zerocopy_bytes;            /* tcp.zerocopy_bytes: 65536; shorter ones are copied */

	/* Peers of this host. */
	uint32_t local_trusted;                 /* local.trusted: false; they may map our memory */
	uint32_t local_maps;                    /* local.maps: 256 of one peer, or to one, at a time */
	uint32_t local_pinned;                  /* local.pinned: false; OTTE_REGION_PINNED for all published */
	uint32_t local_map_entries;             /* local.map_entries: 64 of them mapped; 0 = all are copied */
	uint32_t local_map_bytes;               /* local.map_bytes: 1048576 in a request map the region */
	uint32_t local_map_repeats;             /* local.map_repeats: 16 shorter ones map it as well */

	/* NICs of RDMA. */
	uint32_t rdma_enabled;                  /* rdma.enabled: false; whether verbs devices are used */
	char rdma_device[OTTE_NAME_MAX];        /* rdma.device: the only one; "" = any */
	uint32_t rdma_port;                     /* rdma.port: 0 = 1 of a device that is named, else any */
	uint32_t rdma_gid_index;                /* rdma.gid_index: OTTE_RDMA_GID_UNSET = 0 of a device that is
						   named, else chosen */
	char rdma_whitelist[OTTE_NAMES_MAX];    /* rdma.whitelist: devices, "a,b"; "" = any but the next */
	char rdma_blacklist[OTTE_NAMES_MAX];    /* rdma.blacklist: devices that are left alone; "" */
	uint32_t rdma_numa_node;                /* rdma.numa_node: OTTE_RDMA_NODE_UNSET = the memory's own */
	uint64_t rdma_device_mask;              /* rdma.device_mask: 0; bits by NIC id; 0, ~0 = all */
	uint32_t rdma_strict_numa;              /* rdma.strict_numa: false; no NIC of another node */
	char rdma_priority_matrix[OTTE_MATRIX_MAX]; /* rdma.priority_matrix: "" = by the next; JSON */
	char rdma_topology_file[OTTE_PATH_MAX]; /* rdma.topology_file: "" = by the machine's topology */
	uint32_t rdma_endpoints;                /* rdma.endpoints: 64 QPs */
	uint32_t rdma_pairs;                    /* rdma.pairs: 2 of them over one rail, for each direction */
	uint32_t rdma_grants;                   /* rdma.grants: 64 ranges that peers may reach at a time */
	uint32_t rdma_send_wrs;                 /* rdma.send_wrs: 16 of a QP */
	uint32_t rdma_cqes;                     /* rdma.cqes: 1024 of a CQ */
	uint32_t rdma_mrs;                      /* rdma.mrs: 64 MRs */
	uint32_t rdma_key_indices;              /* rdma.key_indices: 65536 of a PD */
	uint32_t rdma_qp_timeout;               /* rdma.qp_timeout: 14, 4.096 us times 2 to that power */
	uint32_t rdma_qp_retries;               /* rdma.qp_retries: 7 */
	uint32_t rdma_rd_atomic;                /* rdma.rd_atomic: 16 READs of a QP under way; 0: none go */
	uint32_t rdma_dest_rd_atomic;           /* rdma.dest_rd_atomic: 16 that it answers; likewise */
	uint64_t rdma_mr_bytes;                 /* rdma.mr_bytes: 64 MiB that MRs pin */
	uint32_t rdma_lease;                    /* rdma.lease: off; 0 off, 1 range, 2 region */
	uint32_t rdma_leases;                   /* rdma.leases: 64 that peers hold, and we of one peer */
	uint64_t rdma_lease_idle_ns;            /* rdma.lease_idle_ms: 10000 that one stands unused */
	uint64_t rdma_grant_ns;                 /* rdma.grant_ms: 60000 that a peer keeps a range */
	uint64_t rdma_stall_ns;                 /* rdma.stall_ms: 0 = as a QP's timeout and retries allow */
	uint32_t rdma_host_memory;              /* rdma.host_memory: "direct"; enum otte_host_memory */
	uint32_t rdma_cuda_memory;              /* rdma.cuda_memory: "staged"; enum otte_cuda_memory */
	uint32_t rdma_disable_gpu_direct;       /* rdma.disable_gpu_direct: false; refuses "direct" there */
	uint32_t rdma_gpu_registration;         /* rdma.gpu_direct_registration: "auto"; enum
						   otte_gpu_registration */
	uint32_t rdma_gpu_source_reuse;         /* rdma.gpu_source_reuse: false; true is refused */
	uint32_t rdma_chunk_bytes;              /* rdma.chunk_bytes: 262144 of a staged slice, at most */
	uint64_t rdma_direct_bytes;             /* rdma.direct_bytes: 64 MiB under way, where direct */
	uint64_t rdma_staging_bytes;            /* rdma.staging_bytes: 64 MiB of chunks, where staged */
	uint64_t rdma_destruction_ns;           /* rdma.destruction_ms: 30000 for what is posted to complete */
	uint32_t rdma_rail_topology;            /* rdma.rail_topology: "all"; enum otte_rail_choice */
	uint32_t rdma_max_rail_pairs;           /* rdma.max_rail_pairs: 1024 that are remembered */
	uint32_t rdma_rail_error_threshold;     /* rdma.rail_error_threshold: 3 failures pause a rail */
	uint32_t rdma_smart_selection;          /* rdma.smart_selection: true; NICs by load and rate */
	uint32_t rdma_link_rate_mbps;           /* rdma.link_rate_mbps: 0 = as each NIC reports */
	uint32_t rdma_log_slice_affinity;       /* rdma.log_slice_affinity: false */
	uint32_t rdma_deadline_bw_arbitration;  /* rdma.deadline_bw_arbitration: false; by deadlines */
	uint32_t rdma_signal_interval;          /* rdma.signal_interval: 1; each so many WRs have a CQE */
	uint32_t rdma_workers;                  /* rdma.workers: 1 thread, of 1 to 8; each peer has one */
	uint32_t rdma_progress;                 /* rdma.progress: "events"; enum otte_rdma_progress */
	uint32_t rdma_bind_cpus;                /* rdma.bind_cpus: true; they run near their NICs */
	uint32_t reserved;                      /* 0 */
	uint64_t rdma_rail_error_window_ns;     /* rdma.rail_error_window_ms: 10000 that these are within */
	uint64_t rdma_rail_cooldown_ns;         /* rdma.rail_cooldown_ms: 30000 of the first pause */
	uint64_t rdma_rail_probe_interval_ns;   /* rdma.rail_probe_interval_ms: 1000; 0 = at once */

	/* Requests outstanding at each priority, refused with -EDQUOT when full; what waits moves up. */
	uint32_t max_high_requests;             /* priority.high_requests: 65536 */
	uint32_t max_medium_requests;           /* priority.medium_requests: 65536 */
	uint32_t max_low_requests;              /* priority.low_requests: 65536 */
	uint32_t aging_per_entry;               /* priority.aging_per_entry: false; not a whole tier */
	uint64_t aging_ns;                      /* priority.aging_ms: 10; 0 = nothing moves up */

	/* Priority slots, shared with the other processes of a domain. */
	char slots_domain[32];                  /* slots.domain: "" = none */
	char slots_pattern[112];                /* slots.pattern: "high,medium,low" */
	uint64_t slot_interval_ns;              /* slots.interval_us: 2000 */
	uint64_t low_inflight_bytes;            /* slots.low_inflight_bytes: 262144 below High */
};

/* Defaults. `size` is sizeof(*config) of the caller. -EINVAL if smaller than version 1's. */
OTTE_API int otte_config_init(struct otte_config *config, size_t size);

/*
 * Overlay keys of a JSON object on an initialised config. All or nothing: an unknown key, a wrong
 * type or a value out of range is -EINVAL, the text names the key, and *config is unchanged.
 * `length` at most 1 MiB (-E2BIG).
 */
OTTE_API int otte_config_load_json(struct otte_config *config, const char *text, size_t length);

/* The same from a file; errors of open() and read() are returned as they are, the text names it. */
OTTE_API int otte_config_load_file(struct otte_config *config, const char *path);

/*
 * Overlay OTTE_<KEY> variables, the key in upper case with '_' for '.': OTTE_TCP_LANES=4. Variables
 * that start with OTTE_ and name no key are warned about through the log and change nothing.
 * OTTE_CONFIG names a JSON file, which is read first.
 */
OTTE_API int otte_config_load_env(struct otte_config *config);

/* ---- Engine ---------------------------------------------------------------------------------- */

struct otte_engine;

/* `config` NULL means defaults. The text names the key, address or object at fault. */
OTTE_API int otte_engine_create(const struct otte_config *config, struct otte_engine **engine);

#define OTTE_CLOSE_SOURCE 1u    /* what peers do with our regions */
#define OTTE_CLOSE_REQUESTER 2u /* what we do with theirs */

struct otte_close_report {
	uint32_t size;
	uint32_t reserved;
	uint64_t requests;       /* requests not yet terminal */
	uint64_t loans;          /* loans not yet settled */
	uint64_t retained;       /* retained records, which close does not end */
	uint64_t retained_bytes;
};

/*
 * Stop admitting work for the named directions and wait until what was accepted has drained, at
 * most `timeout_ns` (0: stop admitting, and do not wait; negative: for ever). May be called again to
 * go on waiting; of two concurrent calls one waits and the other gets -EALREADY.
 *   0           drained, nothing kept
 *   -ETIMEDOUT  still draining; call again
 *   -EUCLEAN    drained but for what is retained, see *report
 * `report` may be NULL.
 */
OTTE_API int otte_engine_close(struct otte_engine *engine, unsigned directions, int64_t timeout_ns,
			       struct otte_close_report *report);

/*
 * Close both directions without waiting, cancel what is left, end the threads and free the engine.
 * Segments, batches, block lists, regions and memories of it must have been given back: otherwise
 * -EBUSY, the text counts them, and the engine stays as it was. NULL is allowed.
 */
OTTE_API int otte_engine_destroy(struct otte_engine *engine);

/* "host:port" that peers can open, i.e. the advertised address. -ENOTCONN without a listener. */
OTTE_API int otte_engine_address(struct otte_engine *engine, char *text, size_t size);

/* This engine's epoch: random, never 0, different for each engine ever created. 0 for NULL. */
OTTE_API uint64_t otte_engine_epoch(const struct otte_engine *engine);

/*
 * A line of text that another engine can open a segment from, to be published through discovery of
 * the application's own: address, boot id, process incarnation and epoch. -ENOSPC if `size` is short
 * (OTTE_DESCRIPTOR_MAX always suffices).
 */
OTTE_API int otte_engine_descriptor(struct otte_engine *engine, char *text, size_t size);

struct otte_stats {
	uint32_t size;
	uint32_t threads;               /* threads that the library started for this engine */
	uint64_t regions;               /* registered now */
	uint64_t registered_bytes;
	uint64_t segments;              /* open now */
	uint64_t requests;              /* outstanding now */
	uint64_t bytes;                 /* outstanding now */
	uint64_t submitted;             /* requests ever admitted */
	uint64_t completed;             /* requests ever completed without error */
	uint64_t failed;                /* requests ever failed, cancelled or timed out */
	uint64_t read_bytes;            /* payload that we READ from peers */
	uint64_t write_bytes;           /* payload that we WROTE to peers */
	uint64_t served_read_bytes;     /* payload that peers READ from us */
	uint64_t served_write_bytes;    /* payload that peers WROTE to us */
	uint64_t served_requests;
	uint64_t refused_requests;      /* requests of peers that we answered with an error */
	uint64_t peers_in;              /* control connections accepted and alive */
	uint64_t peers_out;             /* control connections opened and alive */
	uint64_t lanes;                 /* TCP payload connections alive, both directions */
	uint64_t bad_frames;            /* malformed input from peers */
	uint64_t reconnects;
	uint64_t retries;               /* READ slices sent again after a proven drain */
	uint64_t loans;                 /* live now; the module's word where that is the ledger */
	uint64_t loans_settled;         /* ever */
	uint64_t retained;              /* records now; likewise */
	uint64_t retained_bytes;
	uint64_t notifications_sent;
	uint64_t notifications_received;
	uint64_t stale_regions;         /* unregistered or lost while in use */
	uint64_t zerocopy_bytes;        /* payload sent with MSG_ZEROCOPY */
	uint64_t zerocopy_sends;        /* in so many sends */
	uint64_t zerocopy_copied;       /* of which the kernel copied so many after all */
	uint64_t zerocopy_refused;      /* sends that it had no room for: copied by us */
	uint64_t zerocopy_outstanding;  /* sends whose memory the kernel has not released yet */
	uint64_t waiting_high;          /* High requests, merged neighbours as one, that wait for dispatch */
	uint64_t waiting_medium;
	uint64_t waiting_low;
	uint64_t promoted;              /* steps up that requests have taken for their age */
	uint64_t low_inflight_bytes;    /* dispatched below High, where there are slots */
	uint64_t rdma_qps;              /* queue pairs there are, retained ones too */
	uint64_t rdma_mrs;              /* memory regions that NICs know, likewise */
	uint64_t rdma_mr_bytes;
	uint64_t rdma_grants;           /* ranges that peers were ever granted, each once */
	uint64_t rdma_cqes;             /* completions ever seen */
	uint64_t rdma_leases;           /* leases that peers were ever given */
	uint64_t rdma_lease_requests;   /* requests of ours that moved by one */
	uint64_t rdma_slices;           /* that requests were cut into, ever */
	uint64_t rdma_slices_moved;     /* of which so many went on over another rail */
	uint64_t rdma_rails_paused;     /* now */
	uint64_t rdma_rail_errors;      /* failures of rails, ever */
	uint64_t rdma_rail_probes;      /* trials of paused ones, ever */
	uint64_t rdma_rail_recoveries;  /* of which so many ended a pause */
	uint64_t rdma_direct_bytes;     /* of requests that NICs move in place now, or stay */
	uint64_t rdma_staging_bytes;    /* of chunks that are in use, or stay, for us and for peers */
	uint64_t rdma_wrs;              /* work requests ever posted, but for receives */
	uint64_t rdma_dmabuf_registrations; /* of memory of GPUs, that NICs were ever told so of, or */
	uint64_t rdma_peermem_registrations; /* so: see rdma.gpu_direct_registration */
};

/*
 * Counters of this engine; asks nobody but the ledger, which may be the module. Fills at most
 * stats->size bytes.
 */
OTTE_API int otte_engine_stats(struct otte_engine *engine, struct otte_stats *stats);

/* A NIC of RDMA, and what this engine's requests do with it. Rates are in bytes per second. */
struct otte_nic_info {
	uint32_t nic;             /* its id, 0 .. 63: the same as long as the engine */
	uint32_t port;            /* of its device */
	uint32_t active;          /* 1: the port is up; 0: it is not, or the device is lost */
	uint32_t measured;        /* 1: transmit_rate is of what has moved; 0: nothing has yet */
	uint64_t link_rate;       /* the port's, or rdma.link_rate_mbps; 400 Gb/s: not known */
	uint64_t selection_rate;  /* of a slice, until it completes; link_rate at first */
	uint64_t transmit_rate;   /* of all slices, while any is under way; likewise */
	uint64_t charged_bytes;   /* of slices that are to go over it and have not ended, now */
	uint64_t under_way_bytes; /* posted and not completed, now */
	uint64_t others_bytes;    /* likewise in other processes of slots.domain, says the module */
	uint64_t assigned_bytes;  /* of slices, ever */
	uint64_t posted_bytes;    /* ever, as the next */
	uint64_t completed_bytes;
	uint64_t slices;          /* that were to go over it, ever; one that moves counts at both */
	uint64_t rails_paused;    /* from it to NICs of peers, now */
	uint64_t rail_pauses;     /* begun, ever */
	uint64_t rail_errors;     /* failures, ever */
	uint64_t rail_probes;     /* trials of paused ones, ever */
	uint64_t rail_recoveries; /* of which so many ended a pause */
	char name[OTTE_NAME_MAX]; /* of its device */
};

/*
 * The NICs that the engine uses, by id: writes at most `capacity` rows and the number there are,
 * 0 .. 64, to *count. Asks no device; both estimates are within 0.1 and 10 times link_rate. Each
 * value is right by itself; together they are not of one instant. `rows` may be NULL where
 * `capacity` is 0. -EINVAL, -EOWNERDEAD.
 */
OTTE_API int otte_engine_nics(struct otte_engine *engine, struct otte_nic_info *rows,
			      size_t capacity, size_t *count);

/* ---- Memory ---------------------------------------------------------------------------------- */

struct otte_mem;

#define OTTE_MEM_HUGE 1u     /* ask for transparent huge pages */
#define OTTE_MEM_READONLY 2u /* otte_mem_map_file: map for reading; only REMOTE_READ views */

/* Host memory owned by the engine, zeroed, page aligned. -EINVAL for length 0. */
OTTE_API int otte_mem_alloc(struct otte_engine *engine, uint64_t length, unsigned flags,
			    struct otte_mem **mem);

/*
 * Memory of the caller, who keeps it mapped until otte_mem_release() has returned 0 and does not
 * touch it in conflict with transfers. Ranges that overlap memory known to the engine share one
 * access coordination only through the same otte_mem: overlap with another one is -EEXIST.
 */
OTTE_API int otte_mem_adopt(struct otte_engine *engine, void *address, uint64_t length,
			    struct otte_mem **mem);

/*
 * `length` bytes of an open regular file or memfd from `offset`, mapped shared. length 0: to its
 * end. The descriptor may be closed afterwards. -EINVAL unless `offset` is a multiple of the page
 * size. A file truncated under the mapping makes requests that reach into the lost part fail with
 * -ESTALE; a connection is lost for it only where the file shrinks in the middle of an answer.
 */
OTTE_API int otte_mem_map_file(struct otte_engine *engine, int fd, uint64_t offset, uint64_t length,
			       unsigned flags, struct otte_mem **mem);

/* Where it is mapped, and how long it is, until it is released. NULL gives NULL and 0. */
OTTE_API void *otte_mem_address(const struct otte_mem *mem);
OTTE_API uint64_t otte_mem_length(const struct otte_mem *mem);

/* Give the memory back. -EBUSY while regions of it are registered or access to it is live. */
OTTE_API int otte_mem_release(struct otte_mem *mem);

/* ---- Regions --------------------------------------------------------------------------------- */

struct otte_region;

#define OTTE_LOCAL_ONLY 0u   /* local side of our own requests only */
#define OTTE_REMOTE_READ 1u  /* peers may READ it */
#define OTTE_REMOTE_WRITE 2u /* peers may WRITE it */

/*
 * Pinned by the module, and charged to the user's locked memory, so that peers of this host can
 * borrow it. -EDQUOT: RLIMIT_MEMLOCK does not suffice; -EFAULT: part of it is not mapped, or
 * is a shared mapping without PROT_WRITE; -EOPNOTSUPP: there is no module. With local.pinned every
 * region that peers may use is pinned, and refused likewise.
 *
 * What is pinned is what was mapped at registration. Where its owner replaces pages of it under the
 * same address (madvise(MADV_DONTNEED) or MADV_REMOVE, a punched hole, ftruncate()), peers of this
 * host may still READ the old bytes and WRITE in vain, reported as success, until the engine has
 * noticed, within a second, and they have given back what they borrowed: see otte_mem_adopt(3).
 */
#define OTTE_REGION_PINNED 1u

struct otte_region_desc {
	struct otte_mem *mem;
	uint64_t offset;
	uint64_t length;   /* 1 .. length of mem - offset */
	uint32_t access;   /* OTTE_LOCAL_ONLY or a set of OTTE_REMOTE_* */
	uint32_t flags;    /* OTTE_REGION_* */
	const char *name;  /* shown to peers; NULL or at most OTTE_NAME_MAX - 1 bytes, escaped */
};

/*
 * Register `count` views: all of them, or on error none. regions[i] is the view of descs[i]. The
 * same range may be registered any number of times. -EDQUOT names the budget.
 */
OTTE_API int otte_region_register(struct otte_engine *engine, const struct otte_region_desc *descs,
				  size_t count, struct otte_region **regions);

/*
 * Unregister views. Each is hidden at once: later requests of peers get -ENOENT. Waits until uses
 * that had begun are over (where the memory is lent within this host, also until peers have given
 * it back), at most `timeout_ns` for all (negative: for ever); -ETIMEDOUT leaves the views that are
 * still in use hidden and registered, to be passed again. All of one list are of one engine. The
 * list is sorted; NULLs in it are skipped, and a handle that stands there twice is dropped once.
 * `*pending` (may be NULL) counts the views left; they are moved to the list's front. -EINVAL: no
 * list.
 */
OTTE_API int otte_region_unregister(struct otte_region **regions, size_t count, int64_t timeout_ns,
				    size_t *pending);

/* The id by which peers name it: never 0, never reused by this engine. 0 for NULL. */
OTTE_API uint64_t otte_region_id(const struct otte_region *region);

/* ---- Segments -------------------------------------------------------------------------------- */

struct otte_segment;

#define OTTE_EPOCH_ANY 0

/*
 * Open a peer: `endpoint` is "host:port", "[v6]:port" or a descriptor of otte_engine_descriptor().
 * Connects and exchanges hellos within `timeout_ns`. With an epoch other than OTTE_EPOCH_ANY (or a
 * descriptor, which carries one) a peer of another epoch is -ESTALE. Segments of one peer share its
 * connections. Asking name servers for a host name is not bounded by `timeout_ns`; give an address where
 * that matters. Host names are asked for once, when the segment is opened.
 */
OTTE_API int otte_segment_open(struct otte_engine *engine, const char *endpoint, uint64_t epoch,
			       int64_t timeout_ns, struct otte_segment **segment);

/* Requests in flight hold the segment: -EBUSY. */
OTTE_API int otte_segment_close(struct otte_segment *segment);

/* How the peer's NICs were told of a GPU's memory. */
#define OTTE_GPU_BY_DMABUF 1u
#define OTTE_GPU_BY_PEERMEM 2u

struct otte_region_info {
	uint64_t id;
	uint64_t length;
	uint64_t address; /* where the peer has it mapped; a name for it, not a right to it */
	uint32_t access;
	uint32_t gpu_routes; /* OTTE_GPU_BY_*; 0: it is no GPU's memory */
	char name[OTTE_NAME_MAX];
};

/*
 * Ask the peer what it publishes now. Writes at most `capacity` rows and the number there are to
 * *count. Also refreshes what requests are checked against before they are sent.
 */
OTTE_API int otte_segment_describe(struct otte_segment *segment, int64_t timeout_ns,
				   struct otte_region_info *rows, size_t capacity, size_t *count);

struct otte_peer_info {
	uint32_t size;
	uint32_t protocol;           /* wire version */
	uint64_t epoch;
	uint8_t boot_id[16];
	uint8_t incarnation[16];     /* of the process */
	uint64_t pid;                /* as the peer states it; not authenticated without a key */
	uint32_t authenticated;      /* 1: both sides proved the pre-shared key */
	uint32_t same_host;          /* 1: same boot id */
	char name[OTTE_NAME_MAX];
	char address[OTTE_ADDRESS_MAX];
	uint64_t client;             /* of this host's kernel module, which attested it; 0: not known */
};

/*
 * What is known of the peer; asks nothing. `client` is as of the last time it was reached, and good
 * for this load of the module. -EINVAL, -EOWNERDEAD.
 */
OTTE_API int otte_segment_peer(struct otte_segment *segment, struct otte_peer_info *info);

/*
 * The peer's counters, asked over the control connection; `threads` is 0. Those of its ledger may be
 * 100 ms old (older where counting takes long).
 */
OTTE_API int otte_segment_stats(struct otte_segment *segment, int64_t timeout_ns,
				struct otte_stats *stats);

/* ---- Batches --------------------------------------------------------------------------------- */

struct otte_batch;

enum otte_op {
	OTTE_READ = 0,  /* remote bytes into local memory */
	OTTE_WRITE = 1, /* local bytes into remote memory */
};

enum otte_priority {
	OTTE_PRIORITY_HIGH = 0, /* the default */
	OTTE_PRIORITY_MEDIUM = 1,
	OTTE_PRIORITY_LOW = 2,
};

enum otte_intent {
	OTTE_INTENT_UNSPEC = 0,
	OTTE_INTENT_FOREGROUND_GET = 1,
	OTTE_INTENT_BACKGROUND_PREFETCH = 2,
	OTTE_INTENT_MIGRATION = 3,
	OTTE_INTENT_CHECKPOINT = 4,
	OTTE_INTENT_WEIGHT_LOADING = 5,
	OTTE_INTENT_STAGING_INTERNAL = 6,
};

enum otte_transport_kind {
	OTTE_TRANSPORT_ANY = 0,
	OTTE_TRANSPORT_TCP = 1,
	OTTE_TRANSPORT_LOCAL = 2,
	OTTE_TRANSPORT_RDMA = 3,
	OTTE_TRANSPORT_NVLINK = 4,
};

#define OTTE_DEADLINE_DEFAULT 0
#define OTTE_DEADLINE_NONE UINT64_MAX

struct otte_request {
	struct otte_segment *segment;
	struct otte_region *local;
	uint64_t local_offset;
	uint64_t remote_region;  /* id from otte_segment_describe() */
	uint64_t remote_offset;
	uint64_t length;         /* 1 .. limits.bytes */
	uint64_t deadline_ns;    /* instant of CLOCK_MONOTONIC, or OTTE_DEADLINE_* */
	uint64_t user_data;      /* given back in otte_task */
	uint8_t op;              /* enum otte_op */
	uint8_t priority;        /* enum otte_priority */
	uint8_t intent;          /* enum otte_intent */
	uint8_t transport;       /* enum otte_transport_kind */
	uint8_t lease;           /* enum otte_lease */
	uint8_t reserved[3];     /* 0 */
};

enum otte_task_state {
	OTTE_TASK_QUEUED = 0,     /* admitted, nothing sent */
	OTTE_TASK_DISPATCHED = 1, /* handed to a transport */
	OTTE_TASK_COMPLETED = 2,  /* the states from here on are terminal */
	OTTE_TASK_FAILED = 3,
	OTTE_TASK_CANCELLED = 4,
	OTTE_TASK_TIMEOUT = 5,
};

enum otte_remote_effect {
	OTTE_EFFECT_NONE = 0,    /* remote bytes are proven untouched */
	OTTE_EFFECT_UNKNOWN = 1, /* a WRITE may have touched some; it is never replayed */
};

struct otte_task {
	uint32_t state;          /* enum otte_task_state */
	int32_t code;            /* 0 or a negative errno */
	uint32_t remote_effect;  /* enum otte_remote_effect */
	uint32_t locally_drained; /* 1: nothing will touch the local range any more */
	uint32_t transport;      /* enum otte_transport_kind: the route taken */
	uint32_t reserved;
	uint64_t user_data;
	uint64_t latency_ns;     /* submission to terminal state; 0 before, and where it was not measured */
};

/* A first run of failed requests of a batch, in submission order. */
struct otte_failure {
	uint32_t first;
	uint32_t count;          /* neighbours that failed with the same code, effect and drain */
	int32_t code;
	uint32_t remote_effect;
	uint32_t locally_drained;
	uint32_t reserved;
	char text[OTTE_FAILURE_TEXT_MAX];
};

struct otte_batch_status {
	uint32_t submitted;
	uint32_t finished;         /* terminal, however they ended */
	uint32_t completed_prefix; /* requests 0 .. this-1 completed without error */
	uint32_t failed;
	uint64_t bytes_completed;
};

/* `capacity` requests at most between two resets: 1 .. limits.requests. */
OTTE_API int otte_batch_create(struct otte_engine *engine, uint32_t capacity,
			       struct otte_batch **batch);

/*
 * Submit `count` requests: all are admitted, or on error none, and the text names the first one at
 * fault. They are numbered from the batch's count so far. Never waits for the network.
 * Checked here: segment, local and remote region, range, right, overlap with live local access
 * (-EBUSY; so are two requests of one submission whose local ranges conflict), budgets.
 */
OTTE_API int otte_batch_submit(struct otte_batch *batch, const struct otte_request *requests,
			       size_t count);

/*
 * Wait until every submitted request is terminal, at most `timeout_ns` (negative: for ever). The
 * calling thread moves bytes itself while it waits. 0: all terminal (look at the status or the
 * failure for how), -ETIMEDOUT otherwise, which cancels nothing.
 */
OTTE_API int otte_batch_wait(struct otte_batch *batch, int64_t timeout_ns);

/* Move what can be moved without waiting and report. 0; -EINVAL: no batch, or no status. */
OTTE_API int otte_batch_poll(struct otte_batch *batch, struct otte_batch_status *status);

/*
 * A descriptor that is readable whenever every submitted request is terminal, also if asked for
 * after that; owned by the batch, valid until destroy, closed by exec. It is for poll() and its
 * kin, level or edge; the library alone reads it, when the batch is reset or more is submitted.
 * From this call on the engine's own thread moves the batch's bytes. Or -EMFILE, -ENOMEM.
 */
OTTE_API int otte_batch_eventfd(struct otte_batch *batch);

/*
 * Cancel what is not terminal. Requests not yet dispatched end as OTTE_TASK_CANCELLED with effect
 * NONE before this returns; others when their local range is drained, which a later wait sees. 0,
 * also where nothing is left to cancel; -EINVAL: no batch.
 */
OTTE_API int otte_batch_cancel(struct otte_batch *batch);

/*
 * What became of request `index`, counted from 0 since the last reset. -EINVAL: none of that number
 * was submitted.
 */
OTTE_API int otte_batch_task(struct otte_batch *batch, uint32_t index, struct otte_task *task);

/* The first failure. -ENOENT if none has failed. */
OTTE_API int otte_batch_failure(struct otte_batch *batch, struct otte_failure *failure);

/* Forget terminal requests so that the capacity can be used again. -EBUSY unless all are. */
OTTE_API int otte_batch_reset(struct otte_batch *batch);

/*
 * otte_batch_reset(), otte_batch_submit() and otte_batch_wait() in one, faster than the three for a
 * request that is waited for before the next. Returns how many did not complete, see
 * otte_batch_failure(); with an error the batch has the requests only if it is -ETIMEDOUT. Where
 * the peer's memory is lent to us a short one is moved inside the call, and cannot be cancelled.
 */
OTTE_API int otte_batch_run(struct otte_batch *batch, const struct otte_request *requests,
			    size_t count, int64_t timeout_ns);

/* -EBUSY unless all requests are terminal. NULL is allowed. */
OTTE_API int otte_batch_destroy(struct otte_batch *batch);

/* ---- Prepared block lists -------------------------------------------------------------------- */

struct otte_block_list;

struct otte_block {
	uint64_t local_offset;
	uint64_t remote_offset;
};

/*
 * One template, many places: what stays the same between requests is checked once. The template's
 * length is that of every block; its offsets are added to each block's. deadline_ns of the template
 * must be OTTE_DEADLINE_DEFAULT or OTTE_DEADLINE_NONE.
 */
OTTE_API int otte_block_list_create(struct otte_engine *engine, const struct otte_request *prototype,
				    const struct otte_block *blocks, size_t count,
				    struct otte_block_list **list);

/* Submit blocks [first, first + count) of the list. As otte_batch_submit(). */
OTTE_API int otte_batch_submit_blocks(struct otte_batch *batch, struct otte_block_list *list,
				      size_t first, size_t count);

/* Requests that were submitted from it go on. NULL is allowed. */
OTTE_API int otte_block_list_destroy(struct otte_block_list *list);

/* ---- Notifications --------------------------------------------------------------------------- */

/*
 * Send `length` <= OTTE_NOTIFY_MAX bytes to the peer's application: with a batch, once every request
 * submitted to it so far has completed (never, if one fails: the notification is then dropped and
 * counted as failed in the batch's text); with NULL at once. Never waits for the network: 0 says that it
 * is on its way, not that there is room for it in the peer's queue (limits.notifications there), beyond
 * which it is dropped with a warning in this engine's log.
 */
OTTE_API int otte_notify(struct otte_segment *segment, struct otte_batch *batch, const void *data,
			 size_t length);

struct otte_notification {
	uint64_t epoch;          /* of the sending engine */
	uint32_t length;
	uint32_t reserved;
	uint8_t data[OTTE_NOTIFY_MAX];
};

/* Take the oldest notification: 0, or -EAGAIN when there is none. */
OTTE_API int otte_notification_next(struct otte_engine *engine,
				    struct otte_notification *notification);

/*
 * A descriptor that is readable while notifications wait; owned by the engine, valid until destroy,
 * closed by exec. For poll() and its kin: the library alone reads it, with the last notification.
 */
OTTE_API int otte_notification_eventfd(struct otte_engine *engine);

#ifdef __cplusplus
}
#endif

#endif /* OTTE_OTTE_H */
