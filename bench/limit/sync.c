// Group commit: while one sync is at work, turns go on and gather answers for
// the next. The syncs are made by io_uring, without its library, where the
// kernel lets us, else in the loop.

#define _GNU_SOURCE
#include "limit.h"

#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RING_ENTRIES 64

void sync_open(struct loop *l) {
  struct sync *s = &l->sync;
  s->ring = s->event = -1;
  s->ticket = 1;
  if (!options.sync || options.sync_inline) return;
  struct io_uring_params params = {0};
  int ring = (int)syscall(SYS_io_uring_setup, RING_ENTRIES, &params);
  if (ring < 0) {
    perror("limit: io_uring_setup (syncing in the loop instead)");
    return;
  }
  size_t sq_size = params.sq_off.array + params.sq_entries * sizeof(unsigned);
  size_t cq_size = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
  int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
  uint8_t *sq = mmap(NULL, sq_size, prot, flags, ring, IORING_OFF_SQ_RING);
  uint8_t *cq = mmap(NULL, cq_size, prot, flags, ring, IORING_OFF_CQ_RING);
  void *sqes = mmap(NULL, params.sq_entries * sizeof(struct io_uring_sqe), prot, flags, ring, IORING_OFF_SQES);
  s->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED || s->event < 0 ||
      syscall(SYS_io_uring_register, ring, IORING_REGISTER_EVENTFD, &s->event, 1) < 0)
    die("io_uring");
  s->ring = ring;
  s->sqes = sqes;
  s->sq_tail = (unsigned *)(sq + params.sq_off.tail);
  s->sq_mask = (unsigned *)(sq + params.sq_off.ring_mask);
  s->sq_array = (unsigned *)(sq + params.sq_off.array);
  s->cq_head = (unsigned *)(cq + params.cq_off.head);
  s->cq_tail = (unsigned *)(cq + params.cq_off.tail);
  s->cq_mask = (unsigned *)(cq + params.cq_off.ring_mask);
  s->cqes = cq + params.cq_off.cqes;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};
  if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, s->event, &event)) die("epoll_ctl");
}

void sync_dirty(struct loop *l, struct partition *p) {
  struct sync *s = &l->sync;
  for (int i = 0; i < s->ndirty; i++)
    if (s->dirty[i] == p) return;
  s->dirty = grow(s->dirty, &s->dirty_cap, s->ndirty + 1, sizeof *s->dirty);
  s->dirty[s->ndirty++] = p;
  partition_ref(p);
}

static void ended(struct sync *s) {
  for (int i = 0; i < s->nsyncing; i++) partition_unref(s->syncing[i]);
  s->nsyncing = 0;
  // An answer that cannot be kept is not given: durability is the point here.
  if (s->failed) die("fdatasync");
  s->covered = s->under_way;
}

static void submit(struct sync *s) {
  for (int at = 0; at < s->nsyncing;) {
    int batch = s->nsyncing - at < RING_ENTRIES ? s->nsyncing - at : RING_ENTRIES;
    unsigned tail = *s->sq_tail;
    for (int i = 0; i < batch; i++, tail++) {
      unsigned slot = tail & *s->sq_mask;
      s->sqes[slot] = (struct io_uring_sqe){
          .opcode = IORING_OP_FSYNC, .fd = s->syncing[at + i]->fd, .fsync_flags = IORING_FSYNC_DATASYNC};
      s->sq_array[slot] = slot;
    }
    __atomic_store_n(s->sq_tail, tail, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, s->ring, batch, 0, 0, NULL, 0) != batch) die("io_uring_enter");
    at += batch;
  }
}

void sync_start(struct loop *l) {
  struct sync *s = &l->sync;
  if (s->nsyncing || !s->ndirty) return;
  struct partition **list = s->syncing;
  int cap = s->syncing_cap;
  s->syncing = s->dirty;
  s->syncing_cap = s->dirty_cap;
  s->nsyncing = s->ndirty;
  s->dirty = list;
  s->dirty_cap = cap;
  s->ndirty = 0;
  s->under_way = s->ticket++;
  if (s->ring < 0) {
    for (int i = 0; i < s->nsyncing; i++) s->failed |= fdatasync(s->syncing[i]->fd) != 0;
    ended(s);
    return;
  }
  s->unfinished = s->nsyncing;
  submit(s);
}

bool sync_finish(struct loop *l) {
  struct sync *s = &l->sync;
  if (s->ring < 0) return false;
  uint64_t count;
  if (read(s->event, &count, sizeof count) < 0) return false;
  unsigned head = *s->cq_head;
  for (; head != __atomic_load_n(s->cq_tail, __ATOMIC_ACQUIRE); head++) {
    struct io_uring_cqe *cqe = (struct io_uring_cqe *)s->cqes + (head & *s->cq_mask);
    s->failed |= cqe->res < 0;
    s->unfinished--;
  }
  __atomic_store_n(s->cq_head, head, __ATOMIC_RELEASE);
  if (s->unfinished || !s->nsyncing) return false;
  ended(s);
  return true;
}
