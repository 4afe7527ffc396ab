// Options and start.

#define _GNU_SOURCE
#include "limit.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct options options = {
    .host = "127.0.0.1", .loops = 1, .prealloc = 128 << 20, .zero_ahead = -1, .congestion = "cubic"};

void die(const char *what) {
  perror(what);
  exit(1);
}

void *grow(void *p, int *cap, int need, size_t each) {
  if (need <= *cap) return p;
  int more = *cap ? *cap : 16;
  while (more < need) more *= 2;
  p = realloc(p, (size_t)more * each);
  if (!p) die("memory");
  *cap = more;
  return p;
}

static void usage(FILE *to) {
  fputs("usage: limit --dir DIR [options]\n"
        "  --port N             listen there on --host (0 picks one)\n"
        "  --host A             IPv4 address (127.0.0.1)\n"
        "  --topic NAME:N       a topic with N partitions; may be repeated\n"
        "  --loops N            event loops (1)\n"
        "  --prealloc BYTES     blocks allocated at once, 0 lets files grow (128 MiB)\n"
        "  --zero-ahead BYTES   zeros written ahead of small appends (256 KiB; 16 MiB with --sync)\n"
        "  --sync               answer after an fdatasync that covers the append\n"
        "  --sync-inline        make it in the loop instead of by io_uring\n"
        "  --congestion NAME    TCP congestion control of connections (cubic), \"\" leaves the host's\n"
        "  --null               answer produce requests and keep nothing (readers at the tail get it from memory)\n"
        "  --crc-test           print CRC32C(\"123456789\") and its speed, and end\n",
        to);
}

static int64_t number(const char *text) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (errno || *end || end == text || v < 0) {
    fprintf(stderr, "limit: %s is no number\n", text);
    exit(2);
  }
  return v;
}

static void add_topic(const char *text) {
  const char *colon = strrchr(text, ':');
  int partitions = colon ? (int)number(colon + 1) : 1;
  int len = colon ? (int)(colon - text) : (int)strlen(text);
  if (partitions < 1 || !topic_create(text, len, partitions)) {
    fprintf(stderr, "limit: bad or repeated topic %s\n", text);
    exit(2);
  }
}

static void parse(int argc, char **argv, char **topics, int *ntopics) {
  static const struct option longs[] = {
      {"dir", 1, 0, 'd'},       {"port", 1, 0, 'p'},        {"host", 1, 0, 'h'},       {"topic", 1, 0, 't'},
      {"loops", 1, 0, 'l'},     {"prealloc", 1, 0, 'a'},    {"zero-ahead", 1, 0, 'z'}, {"sync", 0, 0, 's'},
      {"sync-inline", 0, 0, 'i'}, {"congestion", 1, 0, 'c'}, {"null", 0, 0, 'n'},      {"crc-test", 0, 0, 'x'},
      {"help", 0, 0, '?'},      {0, 0, 0, 0}};
  for (int o; (o = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
    switch (o) {
    case 'd': options.dir = optarg; break;
    case 'p': options.port = (int)number(optarg); break;
    case 'h': options.host = optarg; break;
    case 't': topics[(*ntopics)++] = optarg; break;
    case 'l': options.loops = (int)number(optarg); break;
    case 'a': options.prealloc = number(optarg); break;
    case 'z': options.zero_ahead = number(optarg); break;
    case 's': options.sync = true; break;
    case 'i': options.sync = options.sync_inline = true; break;
    case 'c': options.congestion = optarg; break;
    case 'n': options.null = true; break;
    case 'x': exit(crc_test());
    default: usage(stderr); exit(2);
    }
  }
  if (options.zero_ahead < 0) options.zero_ahead = options.sync ? 16 << 20 : 256 << 10;
  if (options.loops < 1 || options.loops > LOOPS_MAX || (!options.dir && !options.null) || optind != argc ||
      (options.null && options.sync) || options.port > 65535) {
    usage(stderr);
    exit(2);
  }
}

static void finish(int signal) {
  (void)signal;
  _exit(0); // nothing here outlives the process
}

int main(int argc, char **argv) {
  int ntopics = 0;
  char **topics = calloc((size_t)argc, sizeof *topics);
  crc_init();
  parse(argc, argv, topics, &ntopics);
  for (int i = 0; i < ntopics; i++) add_topic(topics[i]);
  if (options.dir && mkdir(options.dir, 0755) && errno != EEXIST) die(options.dir);
  struct rlimit files;
  if (!getrlimit(RLIMIT_NOFILE, &files)) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGTERM, finish);
  signal(SIGINT, finish);
  for (int i = 0; i < options.loops; i++) {
    struct loop *l = &loops[i];
    l->number = i;
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l->epoll < 0 || l->wake < 0) die("epoll");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &l->wake};
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &event)) die("epoll_ctl");
    options.port = loop_listen(l, options.host, options.port);
  }
  printf("limit ready %s:%d\n", options.host, options.port);
  fflush(stdout);
  for (int i = 1; i < options.loops; i++)
    if (pthread_create(&loops[i].thread, NULL, loop_run, &loops[i])) die("thread");
  loop_run(&loops[0]);
}
