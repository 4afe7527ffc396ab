// Connections and turns.

#define _GNU_SOURCE
#include "limit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 512
#define CHUNK (256 << 10)   // received at once
#define PREDICTED 4096      // frames from here on are cut by the receive itself
#define LOWAT (64 << 10)    // the rest of a frame worth waiting for as a whole
#define FRAME_MAX (128 << 20)
#define PARKED_MAX (1 << 20) // bytes behind a waiting fetch

struct loop loops[LOOPS_MAX];

int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void out_touch(struct conn *c) {
  struct loop *l = c->loop;
  if (c->listed) return;
  c->listed = true;
  l->touched = grow(l->touched, &l->touched_cap, l->ntouched + 1, sizeof *l->touched);
  l->touched[l->ntouched++] = c;
}

static void end(struct conn *c) {
  struct loop *l = c->loop;
  c->closed = true;
  if (c->dying) return;
  c->dying = true;
  l->dying = grow(l->dying, &l->dying_cap, l->ndying + 1, sizeof *l->dying);
  l->dying[l->ndying++] = c;
}

static void park(struct conn *c) {
  struct loop *l = c->loop;
  c->parked = true;
  if (c->in_parked) return;
  c->in_parked = true;
  l->parked = grow(l->parked, &l->parked_cap, l->nparked + 1, sizeof *l->parked);
  l->parked[l->nparked++] = c;
}

// frame is the length of the frame at in_start with its prefix, 0 if that is
// not there yet.
static size_t frame(struct conn *c) {
  if (c->in_end - c->in_start < 4) return 0;
  uint32_t len;
  memcpy(&len, c->in + c->in_start, 4);
  return 4 + (size_t)be32toh(len);
}

// process handles the whole frames that are there.
static void process(struct conn *c) {
  while (!c->closed && !c->blocked) {
    size_t len = frame(c);
    if (len > FRAME_MAX) {
      end(c);
      return;
    }
    if (len == 0 || c->in_end - c->in_start < len) return;
    switch (handle(c, c->in + c->in_start + 4, len - 4)) {
    case PARKED: park(c); return;
    case BROKEN: end(c); return;
    case HANDLED: break;
    }
    c->parked = c->expired = false;
    c->in_start += len;
    c->last_frame = len;
  }
}

// chunk is how much to receive: such that it ends where a frame does, if the
// next ones are like the last one, so that nothing is left over to be moved.
static size_t chunk(struct conn *c) {
  size_t len = frame(c), have = c->in_end - c->in_start;
  size_t need = len > have ? len - have : 0, last = c->last_frame, want = CHUNK;
  if (last > CHUNK) want = need ? need : last;
  else if (last >= PREDICTED && need < CHUNK) want = need + (CHUNK - need) / last * last;
  if (want < need) want = need;
  return want ? want : CHUNK;
}

static void set_lowat(struct conn *c) {
  size_t len = frame(c), have = c->in_end - c->in_start;
  int lowat = len > have + LOWAT && len <= FRAME_MAX ? (int)(len - have) : 1;
  if (lowat == c->lowat) return;
  if (lowat == 1 || c->lowat == 1) setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof lowat);
  c->lowat = lowat;
}

// receive is called at most once a turn, before its appends are written:
// what is moved here is nobody's any more.
static void receive(struct conn *c) {
  if (c->in_start == c->in_end) c->in_start = c->in_end = 0;
  size_t want = chunk(c), have = c->in_end - c->in_start;
  if (have + want > FRAME_MAX + CHUNK || (c->parked && have > PARKED_MAX)) {
    end(c);
    return;
  }
  if (c->in_end + want > c->in_cap) {
    if (have + want > c->in_cap) {
      c->in_cap = have + want;
      uint8_t *in = malloc(c->in_cap);
      if (!in) die("input");
      if (have) memcpy(in, c->in + c->in_start, have);
      free(c->in);
      c->in = in;
    } else {
      memmove(c->in, c->in + c->in_start, have);
    }
    c->in_start = 0;
    c->in_end = have;
  }
  ssize_t n = recv(c->fd, c->in + c->in_end, want, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    end(c);
    return;
  }
  c->in_end += (size_t)n;
  if (!c->parked) process(c);
  if (!c->closed) set_lowat(c);
}

int loop_listen(struct loop *l, const char *host, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
    fprintf(stderr, "limit: %s is no IPv4 address\n", host);
    exit(2);
  }
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (options.loops > 1) setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  socklen_t size = sizeof address;
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 4096) ||
      getsockname(fd, (struct sockaddr *)&address, &size))
    die("listen");
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = &l->listener};
  if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
  l->listener = fd;
  return ntohs(address.sin_port);
}

static void take_connections(struct loop *l) {
  for (int i = 0; i < 256; i++) {
    int fd = accept4(l->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
    if (fd < 0) {
      if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) perror("limit: accept");
      return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (*options.congestion &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options.congestion, (socklen_t)strlen(options.congestion)))
      perror("limit: congestion control");
    struct conn *c = calloc(1, sizeof *c);
    if (!c) die("connection");
    c->fd = fd;
    c->loop = l;
    c->lowat = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
  }
}

static void connection_event(struct conn *c, uint32_t events) {
  if (c->closed) return;
  if (c->blocked) {
    if (events & (EPOLLERR | EPOLLHUP) || !out_flush(c)) end(c);
    else if (!c->blocked) process(c);
  } else {
    receive(c);
  }
}

// write_appends writes what the turn brought and tells the other loops.
static void write_appends(struct loop *l) {
  if (l->ngrown == 0) return;
  for (int i = 0; i < l->ngrown; i++)
    if (append_flush(l, l->grown[i]) && options.sync) sync_dirty(l, l->grown[i]);
  l->ngrown = 0;
  for (int i = 0; i < options.loops; i++) {
    uint64_t one = 1;
    if (&loops[i] != l && atomic_load(&loops[i].has_parked) && write(loops[i].wake, &one, sizeof one) < 0) continue;
  }
}

static bool may_go(struct conn *c) {
  if (c->closed || !c->parked) return false;
  if (c->loop->now >= c->deadline) c->expired = true;
  if (c->expired || c->nwaits > WAITS) return true;
  for (int i = 0; i < c->nwaits; i++)
    if (c->waits[i].p && atomic_load_explicit(&c->waits[i].p->version, memory_order_acquire) != c->waits[i].version)
      return true;
  return false;
}

static void serve_parked(struct loop *l) {
  for (int i = 0; i < l->nparked;) {
    struct conn *c = l->parked[i];
    if (may_go(c)) process(c);
    if (c->parked && !c->closed) {
      i++;
      continue;
    }
    c->in_parked = false;
    l->parked[i] = l->parked[--l->nparked];
  }
  atomic_store(&l->has_parked, l->nparked);
}

// send_answers sends what may go. Connections whose answers wait for a sync
// stay listed.
static void send_answers(struct loop *l) {
  for (int i = 0; i < l->ntouched; i++) {
    out_seal(l->touched[i]);
    l->touched[i]->wrote = false;
  }
  if (options.sync) sync_start(l);
  int left = 0;
  for (int i = 0; i < l->ntouched; i++) {
    struct conn *c = l->touched[i];
    if (!c->closed && !c->blocked && !out_flush(c)) end(c);
    if (!c->closed && !c->blocked && c->first_piece < c->npieces) {
      l->touched[left++] = c;
    } else {
      c->listed = false;
    }
  }
  l->ntouched = left;
}

static void bury(struct loop *l) {
  for (int i = 0; i < l->ndying; i++) {
    struct conn *c = l->dying[i];
    for (int k = 0; c->in_parked && k < l->nparked; k++)
      if (l->parked[k] == c) l->parked[k--] = l->parked[--l->nparked];
    close(c->fd);
    out_free(c);
    free(c->in);
    free(c);
  }
  l->ndying = 0;
}

// wait_ms is the time until the first waiting fetch gives up.
static int wait_ms(struct loop *l) {
  int64_t first = INT64_MAX;
  for (int i = 0; i < l->nparked; i++)
    if (l->parked[i]->deadline < first) first = l->parked[i]->deadline;
  if (first == INT64_MAX) return -1;
  int64_t wait = first - now_ms() + 1;
  return wait < 0 ? 0 : wait > 60000 ? 60000 : (int)wait;
}

void *loop_run(void *arg) {
  struct loop *l = arg;
  struct epoll_event events[EVENTS];
  sync_open(l);
  for (;;) {
    int n = epoll_wait(l->epoll, events, EVENTS, wait_ms(l));
    if (n < 0 && errno != EINTR) die("epoll_wait");
    l->now = now_ms();
    for (int i = 0; i < n; i++) {
      void *of = events[i].data.ptr;
      uint64_t count;
      if (of == &l->listener) take_connections(l);
      else if (of == &l->sync) sync_finish(l);
      else if (of != &l->wake) connection_event(of, events[i].events);
      else if (read(l->wake, &count, sizeof count) < 0) continue;
    }
    do {
      write_appends(l);
      serve_parked(l); // behind a waiting fetch there may be more appends
    } while (l->ngrown);
    send_answers(l);
    bury(l);
  }
  return NULL;
}
