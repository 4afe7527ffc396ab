// Partitions: append, look-up, preallocation.

#define _GNU_SOURCE
#include "limit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_INTERVAL 4096
#define HEADER 61 // bytes of a batch before its records
#define OVERHEAD 12
#define BUCKETS 65536
#define TOPICS_MAX 65536

static pthread_rwlock_t topics_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct topic *buckets[BUCKETS];
static struct topic *all[TOPICS_MAX]; // by number, which is in the id
static int topics;

static unsigned hash(const char *name, int len) {
  unsigned h = 2166136261u;
  for (int i = 0; i < len; i++) h = (h ^ (uint8_t)name[i]) * 16777619u;
  return h % BUCKETS;
}

static struct topic *find_locked(const char *name, int len) {
  for (struct topic *t = buckets[hash(name, len)]; t; t = t->next)
    if (!t->dead && t->name_len == len && !memcmp(t->name, name, (size_t)len)) return t;
  return NULL;
}

struct topic *topic_find(const char *name, int len) {
  if (len <= 0) return NULL;
  pthread_rwlock_rdlock(&topics_lock);
  struct topic *t = find_locked(name, len);
  pthread_rwlock_unlock(&topics_lock);
  return t;
}

struct topic *topic_find_id(const uint8_t *id) {
  uint32_t number;
  memcpy(&number, id + 12, 4);
  number = be32toh(number);
  pthread_rwlock_rdlock(&topics_lock);
  struct topic *t = (int)number < topics && number < TOPICS_MAX ? all[number] : NULL;
  if (t && (t->dead || memcmp(t->id, id, 16))) t = NULL;
  pthread_rwlock_unlock(&topics_lock);
  return t;
}

struct topic *topic_create(const char *name, int len, int partitions) {
  struct topic *t = NULL;
  pthread_rwlock_wrlock(&topics_lock);
  if (len > 0 && len < (int)sizeof t->name && !find_locked(name, len) && topics < TOPICS_MAX) {
    t = calloc(1, sizeof *t);
    memcpy(t->name, name, (size_t)len);
    t->name_len = len;
    memcpy(t->id, "the limit.", 10);
    store32(t->id + 12, topics);
    t->partitions = partitions;
    t->partition = calloc((size_t)partitions, sizeof *t->partition);
    for (int i = 0; i < partitions; i++) {
      struct partition *p = calloc(1, sizeof *p + (size_t)options.loops * sizeof p->pending[0]);
      p->topic = t;
      p->number = i;
      p->fd = -1;
      pthread_mutex_init(&p->lock, NULL);
      t->partition[i] = p;
    }
    unsigned h = hash(name, len);
    t->next = buckets[h];
    buckets[h] = t;
    all[topics++] = t;
  }
  pthread_rwlock_unlock(&topics_lock);
  return t;
}

int topic_list(struct topic **out, int max) {
  int n = 0;
  pthread_rwlock_rdlock(&topics_lock);
  for (int i = 0; i < topics; i++) {
    if (all[i]->dead) continue;
    if (n < max) out[n] = all[i];
    n++;
  }
  pthread_rwlock_unlock(&topics_lock);
  return n;
}

static void partition_path(struct partition *p, char *path, size_t size) {
  uint32_t number;
  memcpy(&number, p->topic->id + 12, 4);
  snprintf(path, size, "%s/%u-%d.log", options.dir, be32toh(number), p->number);
}

// release closes a dead partition's file once nothing is sent from it.
static void release(struct partition *p) {
  if (!p->dead || p->refs || p->fd < 0) return;
  close(p->fd);
  p->fd = -1;
}

bool topic_delete(struct topic *t) {
  pthread_rwlock_wrlock(&topics_lock);
  bool first = !t->dead;
  t->dead = true;
  pthread_rwlock_unlock(&topics_lock);
  for (int i = 0; first && i < t->partitions; i++) {
    struct partition *p = t->partition[i];
    pthread_mutex_lock(&p->lock);
    p->dead = true;
    if (p->fd >= 0) {
      char path[PATH_MAX];
      partition_path(p, path, sizeof path);
      unlink(path);
    }
    free(p->index);
    p->index = NULL;
    p->entries = p->entries_cap = 0;
    release(p);
    pthread_mutex_unlock(&p->lock);
  }
  return first;
}

void partition_ref(struct partition *p) {
  pthread_mutex_lock(&p->lock);
  p->refs++;
  pthread_mutex_unlock(&p->lock);
}

void partition_unref(struct partition *p) {
  pthread_mutex_lock(&p->lock);
  p->refs--;
  release(p);
  pthread_mutex_unlock(&p->lock);
}

void append_add(struct loop *l, struct partition *p, struct append a) {
  struct pending *turn = &p->pending[l->number];
  if (turn->n == 0) {
    l->grown = grow(l->grown, &l->grown_cap, l->ngrown + 1, sizeof *l->grown);
    l->grown[l->ngrown++] = p;
  }
  turn->list = grow(turn->list, &turn->cap, turn->n + 1, sizeof *turn->list);
  turn->list[turn->n++] = a;
}

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// make_ready opens the file, and allocates blocks and page cache ahead of an
// append. Both grow with the file, so that many small ones cost little.
static bool make_ready(struct partition *p, int64_t bytes) {
  if (p->fd < 0) {
    char path[PATH_MAX];
    partition_path(p, path, sizeof path);
    p->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (p->fd < 0) return false;
  }
  int64_t end = p->size + bytes;
  if (options.prealloc && end > p->allocated) {
    int64_t chunk = min64(options.prealloc, max64(1 << 20, p->size)) + bytes;
    if (fallocate(p->fd, FALLOC_FL_KEEP_SIZE, p->allocated, chunk)) {
      if (errno != EOPNOTSUPP) return false;
      p->allocated = INT64_MAX; // the file system cannot: never again
    } else {
      p->allocated += chunk;
    }
  }
  return true;
}

// zero_ahead writes zeros behind a small append: the following ones then find
// pages, and blocks that are no longer new, instead of making them bit by bit.
static void zero_ahead(struct partition *p, int64_t bytes) {
  static uint8_t zeros[1 << 20];
  int64_t ahead = min64(options.zero_ahead, p->size);
  if (bytes > ahead / 2 || p->size + bytes <= p->zeroed) return;
  struct iovec iov[64];
  int n = 0;
  int64_t from = max64(p->zeroed, p->size), len = ahead;
  // On to a page's border.
  len += (4096 - (from + len) % 4096) % 4096;
  for (int64_t left = len; left > 0 && n < 64; n++) {
    iov[n] = (struct iovec){zeros, (size_t)min64(left, sizeof zeros)};
    left -= (int64_t)iov[n].iov_len;
  }
  ssize_t wrote = pwritev(p->fd, iov, n, from);
  if (wrote > 0) p->zeroed = from + wrote;
}

static bool write_all(struct partition *p, struct iovec *iov, int n) {
  int64_t at = p->size;
  while (n > 0) {
    ssize_t wrote = pwritev(p->fd, iov, n > IOV_MAX ? IOV_MAX : n, at);
    if (wrote < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    at += wrote;
    for (; n > 0 && (size_t)wrote >= iov->iov_len; iov++, n--) wrote -= (ssize_t)iov->iov_len;
    if (n > 0) {
      iov->iov_base = (uint8_t *)iov->iov_base + wrote;
      iov->iov_len -= (size_t)wrote;
    }
  }
  return true;
}

static void index_batch(struct partition *p, int64_t offset, int64_t position, int64_t len) {
  p->tail[p->tail_n++ % TAIL] = (struct entry){offset, position};
  p->largest = max64(p->largest, len);
  if (p->entries && position - p->index[p->entries - 1].position < INDEX_INTERVAL) return;
  if (p->entries == p->entries_cap) {
    p->entries_cap = p->entries_cap ? 2 * p->entries_cap : 64;
    p->index = realloc(p->index, p->entries_cap * sizeof *p->index);
    if (!p->index) die("index");
  }
  p->index[p->entries++] = (struct entry){offset, position};
}

// A null server's partition: the latest batches in memory, for readers at the
// tail only.
#define MEMORY_BYTES (8 << 20)
#define MEMORY_BATCHES 65536
struct memory {
  uint8_t *bytes;
  int64_t written; // virtual position of the next batch
  uint64_t n;      // batches so far
  struct {
    int64_t offset, next, at;
    int32_t len;
  } batch[MEMORY_BATCHES];
};

static void remember(struct partition *p, const uint8_t *batch, size_t len, int64_t offset, int32_t records) {
  struct memory *m = p->memory;
  if (len > MEMORY_BYTES) return;
  int64_t at = m->written;
  if (at % MEMORY_BYTES + (int64_t)len > MEMORY_BYTES) at += MEMORY_BYTES - at % MEMORY_BYTES;
  memcpy(m->bytes + at % MEMORY_BYTES, batch, len);
  m->written = at + (int64_t)len;
  uint64_t i = m->n++ % MEMORY_BATCHES;
  m->batch[i].offset = offset;
  m->batch[i].next = offset + records;
  m->batch[i].at = at;
  m->batch[i].len = (int32_t)len;
}

bool append_flush(struct loop *l, struct partition *p) {
  static __thread struct iovec *iov;
  static __thread int iov_cap;
  struct pending *turn = &p->pending[l->number];
  iov = grow(iov, &iov_cap, turn->n, sizeof *iov);
  int64_t bytes = 0;
  pthread_mutex_lock(&p->lock);
  int64_t offset = p->end_offset, position = p->size;
  for (int i = 0; i < turn->n; i++) {
    struct append *a = &turn->list[i];
    if (!options.null || p->memory) {
      store64(a->batch, offset);
      store32(a->batch + 12, 0); // leader epoch
    }
    iov[i] = (struct iovec){a->batch, a->len};
    offset += a->records;
    bytes += (int64_t)a->len;
  }
  bool ok = !p->dead;
  if (ok && !options.null) {
    ok = make_ready(p, bytes);
    if (ok) zero_ahead(p, bytes);
    if (ok && !(ok = write_all(p, iov, turn->n))) perror("limit: append");
  }
  int64_t base = p->end_offset;
  for (int i = 0; i < turn->n; i++) {
    struct append *a = &turn->list[i];
    if (a->conn && !a->conn->closed) {
      uint8_t *answer = a->conn->out.buf + a->base_offset_at;
      store64(answer, ok ? base : -1);
      if (!ok) store16(answer - 2, KAFKA_STORAGE_ERROR);
    }
    if (!ok) continue;
    if (!options.null) index_batch(p, base, position, (int64_t)a->len);
    else if (p->memory) remember(p, a->batch, a->len, base, a->records);
    base += a->records;
    position += (int64_t)a->len;
  }
  if (ok) {
    p->end_offset = base;
    p->size = position;
    p->zeroed = max64(p->zeroed, position);
    atomic_fetch_add_explicit(&p->version, 1, memory_order_release);
  }
  pthread_mutex_unlock(&p->lock);
  turn->n = 0;
  return ok;
}

// scan walks batch headers from an index entry to the batch that holds offset.
static int64_t scan(struct partition *p, struct entry from, int64_t offset, int64_t *batch_len) {
  uint8_t buf[2 * INDEX_INTERVAL];
  int64_t at = from.position, loaded = 0, loaded_at = at;
  while (at + HEADER <= p->size) {
    if (at + HEADER > loaded_at + loaded) {
      ssize_t n = pread(p->fd, buf, (size_t)min64(sizeof buf, p->size - at), at);
      if (n < HEADER) return -1;
      loaded_at = at;
      loaded = n;
    }
    struct reader r = {buf + (at - loaded_at), buf + loaded, false, false};
    int64_t base = get64(&r), len = get32(&r) + (int64_t)OVERHEAD;
    r.p += 11; // epoch, magic, CRC, attributes
    if (base + get32(&r) >= offset) {
      *batch_len = len;
      return at;
    }
    at += len;
  }
  return -1;
}

// look_up finds the last batch known to begin at or below offset, and says
// whether it is the one that holds it.
static bool look_up(struct partition *p, int64_t offset, struct entry *e) {
  uint64_t first = p->tail_n > TAIL ? p->tail_n - TAIL : 0;
  bool tail = p->tail[first % TAIL].offset <= offset;
  uint64_t low = tail ? first : 0, high = tail ? p->tail_n : p->entries;
  while (high - low > 1) {
    uint64_t mid = (low + high) / 2;
    if ((tail ? p->tail[mid % TAIL] : p->index[mid]).offset <= offset) low = mid;
    else high = mid;
  }
  *e = tail ? p->tail[low % TAIL] : p->index[low];
  return tail || e->offset == offset;
}

int range_find(struct partition *p, int64_t offset, int64_t max, bool whole, struct range *out) {
  int error = NONE;
  pthread_mutex_lock(&p->lock);
  *out = (struct range){p->end_offset, p->size, 0};
  if (offset < 0 || offset > p->end_offset || p->dead) {
    error = p->dead ? UNKNOWN_TOPIC_OR_PARTITION : OFFSET_OUT_OF_RANGE;
  } else if (offset < p->end_offset) {
    struct entry e;
    bool exact = look_up(p, offset, &e);
    int64_t batch_len = 0, at = e.position;
    if (!exact || (whole && max < p->largest)) at = scan(p, e, offset, &batch_len);
    if (at < 0) {
      error = KAFKA_STORAGE_ERROR;
    } else {
      out->position = at;
      out->len = min64(p->size - at, whole ? max64(max, batch_len) : max);
    }
  }
  pthread_mutex_unlock(&p->lock);
  return error;
}

// memory_first is the oldest batch that is still whole and holds offset.
static bool memory_first(struct memory *m, int64_t offset, uint64_t *first) {
  uint64_t low = m->n > MEMORY_BATCHES ? m->n - MEMORY_BATCHES : 0, high = m->n;
  while (low < high) {
    uint64_t mid = (low + high) / 2;
    if (m->batch[mid % MEMORY_BATCHES].next <= offset) low = mid + 1;
    else high = mid;
  }
  *first = low;
  return low < m->n && m->batch[low % MEMORY_BATCHES].offset <= offset &&
         m->batch[low % MEMORY_BATCHES].at > m->written - MEMORY_BYTES;
}

static int memory_take(struct partition *p, int64_t offset, int64_t max, struct range *out, struct writer *w) {
  int error = NONE;
  pthread_mutex_lock(&p->lock);
  *out = (struct range){p->end_offset, 0, 0};
  if (!p->memory) {
    p->memory = calloc(1, sizeof *p->memory);
    p->memory->bytes = malloc(MEMORY_BYTES);
  }
  struct memory *m = p->memory;
  uint64_t i;
  if (offset < 0 || offset > p->end_offset) {
    error = OFFSET_OUT_OF_RANGE;
  } else if (offset < p->end_offset && !memory_first(m, offset, &i)) {
    error = OFFSET_OUT_OF_RANGE; // forgotten
  } else if (offset < p->end_offset) {
    for (; i < m->n && (out->len == 0 || out->len + m->batch[i % MEMORY_BATCHES].len <= max); i++) {
      int32_t len = m->batch[i % MEMORY_BATCHES].len;
      if (w) memcpy(room(w, (size_t)len), m->bytes + m->batch[i % MEMORY_BATCHES].at % MEMORY_BYTES, (size_t)len);
      out->len += len;
    }
  }
  pthread_mutex_unlock(&p->lock);
  return error;
}

int memory_range(struct partition *p, int64_t offset, int64_t max, struct range *out, struct writer *w) {
  return memory_take(p, offset, max, out, w);
}

int memory_has(struct partition *p, int64_t offset, int64_t max, struct range *out) {
  return memory_take(p, offset, max, out, NULL);
}
