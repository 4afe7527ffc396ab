// The limit: what a machine can do at a broker's work, and nothing else.
//
// It speaks enough of Kafka's protocol for a load generator: receive, check
// the CRC, stamp offsets, append, answer; and a range of a file back by
// sendfile. It keeps nothing across a restart, replicates nothing, checks no
// sequence numbers and no records, knows no groups, and shares no code with
// the broker that is held against it.
//
//   crc.c      CRC32C
//   wire.h     the protocol's primitive types
//   log.c      partitions: append, look-up, preallocation, the null server's memory
//   sync.c     group commit: answers wait for an fdatasync that covers them
//   api.c      the requests
//   output.c   a connection's answers: bytes and file ranges
//   loop.c     connections and turns
//   main.c     options, start
//
// A turn is: wait, receive from each connection that has something, append
// what all of them brought with one pwritev per partition, answer, serve the
// waiting fetches. Loops share partitions (each under its lock) and nothing
// else.

#ifndef LIMIT_H
#define LIMIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire.h"

#define LOOPS_MAX 64
#define NODE_ID 1
#define TAIL 256
#define WAITS 8

// Kafka's error codes.
enum {
  NONE = 0,
  OFFSET_OUT_OF_RANGE = 1,
  CORRUPT_MESSAGE = 2,
  UNKNOWN_TOPIC_OR_PARTITION = 3,
  UNSUPPORTED_VERSION = 35,
  TOPIC_ALREADY_EXISTS = 36,
  INVALID_PARTITIONS = 37,
  INVALID_REQUEST = 42,
  KAFKA_STORAGE_ERROR = 56,
  INVALID_RECORD = 87,
};

struct options {
  const char *dir;
  const char *host;
  int port;
  int loops;
  bool null;            // answer and keep nothing
  bool sync;            // answer after an fdatasync
  bool sync_inline;     // in the loop instead of by the ring
  int64_t prealloc;     // bytes of a file that are allocated at once; 0: it grows
  int64_t zero_ahead;   // bytes of zeros written ahead of small appends
  const char *congestion; // "" leaves the host's
};

extern struct options options;

struct conn;
struct loop;

// --- log.c

// An entry says where a batch is; there is one each INDEX_INTERVAL bytes.
struct entry {
  int64_t offset, position;
};

// An append is a batch of this turn, still in its connection's buffer.
struct append {
  uint8_t *batch;
  size_t len;
  int32_t records;
  // Where its answer lies in the connection's output; none with acks=0.
  struct conn *conn;
  size_t base_offset_at;
};

// A turn's appends to one partition. Each loop has its own for each partition.
struct pending {
  struct append *list;
  int n, cap;
};

struct partition {
  struct topic *topic;
  int32_t number;
  int fd; // -1 until the first append
  pthread_mutex_t lock; // guards the rest
  int64_t end_offset, size;
  int64_t allocated, zeroed;
  struct entry *index;
  size_t entries, entries_cap;
  // The latest batches, all of them: readers at the tail need no look at the file.
  struct entry tail[TAIL];
  uint64_t tail_n;
  int64_t largest; // batch, in bytes
  int refs; // file ranges on their way
  bool dead;
  struct memory *memory;    // of the null server; NULL until somebody reads
  _Atomic uint64_t version; // counts appends; what waiting fetches look at
  struct pending pending[]; // one per loop
};

struct topic {
  char name[250];
  int name_len;
  uint8_t id[16];
  int partitions;
  bool dead;
  struct partition **partition;
  struct topic *next; // in its hash chain
};

struct topic *topic_create(const char *name, int len, int partitions); // NULL: it exists
struct topic *topic_find(const char *name, int len);
struct topic *topic_find_id(const uint8_t *id);
bool topic_delete(struct topic *t);
int topic_list(struct topic **out, int max); // those alive; the number of all

// append_add takes a batch for this turn.
void append_add(struct loop *l, struct partition *p, struct append a);
// append_flush writes what this loop's turn brought for p, stamps offsets into
// batches and answers, and returns whether p grew.
bool append_flush(struct loop *l, struct partition *p);

// A range of a partition to be sent.
struct range {
  int64_t end_offset; // of the partition
  int64_t position, len;
};

// range_find gives up to max bytes from the batch that holds offset on; one
// whole batch at least if whole is set. It returns an error code.
int range_find(struct partition *p, int64_t offset, int64_t max, bool whole, struct range *out);

// memory_range is range_find of the null server: the bytes are copied to w.
int memory_range(struct partition *p, int64_t offset, int64_t max, struct range *out, struct writer *w);
// memory_has is how many bytes memory_range would copy.
int memory_has(struct partition *p, int64_t offset, int64_t max, struct range *out);

void partition_ref(struct partition *p);
void partition_unref(struct partition *p);

// --- sync.c

// A group is the files that one sync covers.
struct sync {
  int ring, event; // -1: syncs are made in the loop
  void *sq, *cq;
  struct io_uring_sqe *sqes;
  unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
  void *cqes;
  struct partition **dirty; // written since the sync at work began
  int ndirty, dirty_cap;
  struct partition **syncing;
  int nsyncing, syncing_cap, unfinished;
  bool failed;
  uint64_t ticket;  // of answers queued from now on
  uint64_t covered; // answers up to here may go
  uint64_t under_way;
};

void sync_open(struct loop *l);
void sync_dirty(struct loop *l, struct partition *p);
// sync_start begins a sync of all that is dirty unless one is at work.
void sync_start(struct loop *l);
// sync_finish takes completions and returns whether a sync ended.
bool sync_finish(struct loop *l);

// --- output.c and loop.c

// A piece of output: bytes of the connection's writer, or a file's range.
struct piece {
  struct partition *file; // NULL: bytes
  int64_t position, len;
  uint64_t ticket;
};

struct conn {
  int fd;
  struct loop *loop;
  uint8_t *in;
  size_t in_cap, in_start, in_end;
  size_t last_frame;
  int lowat;
  struct writer out;
  size_t out_sent; // bytes of out that are gone
  struct piece *pieces;
  int first_piece, npieces, pieces_cap;
  size_t out_counted; // bytes of out that are in pieces
  bool blocked;       // the socket is full
  bool closed, dying, listed;
  bool wrote; // its newest answers wait for a sync
  // A fetch that waits; it is still at in_start.
  bool parked, in_parked, expired;
  int64_t deadline; // ms
  struct {
    struct partition *p;
    uint64_t version;
  } waits[WAITS];
  int nwaits; // above WAITS: looks again at every turn
};

struct loop {
  int number, epoll, listener, wake;
  pthread_t thread;
  struct sync sync;
  struct partition **grown; // partitions with pending appends
  int ngrown, grown_cap;
  struct conn **touched; // connections with new output
  int ntouched, touched_cap;
  struct conn **parked;
  int nparked, parked_cap;
  _Atomic int has_parked;
  struct conn **dying; // freed at the end of the turn
  int ndying, dying_cap;
  int64_t now; // ms
};

extern struct loop loops[LOOPS_MAX];

// handle takes one request, without its length prefix. It returns HANDLED,
// PARKED if it must be tried again later, or BROKEN if the connection must end.
enum outcome { HANDLED, PARKED, BROKEN };
enum outcome handle(struct conn *c, uint8_t *payload, size_t len);

void out_touch(struct conn *c);
void out_range(struct conn *c, struct partition *p, int64_t position, int64_t len);
void out_seal(struct conn *c);
// out_flush sends what may go; false if the connection is broken.
bool out_flush(struct conn *c);
void out_free(struct conn *c);

int64_t now_ms(void);
int loop_listen(struct loop *l, const char *host, int port);
void *loop_run(void *l);

void crc_init(void);
uint32_t crc32c(const uint8_t *p, size_t n);
int crc_test(void); // prints, and returns the exit code

void *grow(void *p, int *cap, int need, size_t each);
void die(const char *what) __attribute__((noreturn));

#endif
