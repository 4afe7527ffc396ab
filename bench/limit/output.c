// A connection's answers: bytes and ranges of files, in order.

#define _GNU_SOURCE
#include "limit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

void writer_grow(struct writer *w, size_t more) {
  size_t cap = w->cap ? w->cap : 256;
  while (cap < w->len + more) cap *= 2;
  w->buf = realloc(w->buf, cap);
  if (!w->buf) die("output");
  w->cap = cap;
}

static struct piece *add_piece(struct conn *c) {
  if (c->first_piece && c->first_piece == c->npieces) c->first_piece = c->npieces = 0;
  c->pieces = grow(c->pieces, &c->pieces_cap, c->npieces + 1, sizeof *c->pieces);
  struct piece *piece = &c->pieces[c->npieces++];
  *piece = (struct piece){.ticket = c->wrote ? c->loop->sync.ticket : 0};
  return piece;
}

// out_seal makes a piece of the bytes that are in none yet.
void out_seal(struct conn *c) {
  int64_t len = (int64_t)(c->out.len - c->out_counted);
  if (len == 0) return;
  c->out_counted = c->out.len;
  struct piece *last = c->npieces > c->first_piece ? &c->pieces[c->npieces - 1] : NULL;
  if (last && !last->file && last->ticket >= (c->wrote ? c->loop->sync.ticket : 0)) last->len += len;
  else add_piece(c)->len = len;
}

void out_range(struct conn *c, struct partition *p, int64_t position, int64_t len) {
  if (len == 0) return;
  out_seal(c);
  struct piece *piece = add_piece(c);
  piece->file = p;
  piece->position = position;
  piece->len = len;
  partition_ref(p);
}

static void want(struct conn *c, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = c};
  if (epoll_ctl(c->loop->epoll, EPOLL_CTL_MOD, c->fd, &event)) die("epoll_ctl");
}

bool out_flush(struct conn *c) {
  out_seal(c);
  while (c->first_piece < c->npieces) {
    struct piece *piece = &c->pieces[c->first_piece];
    if (options.sync && piece->ticket > c->loop->sync.covered) return true;
    ssize_t n;
    if (piece->file) {
      off_t at = piece->position;
      n = sendfile(c->fd, piece->file->fd, &at, (size_t)piece->len);
      if (n == 0) return false; // the file was cut under us
    } else {
      // A header leaves together with what follows it.
      bool more = c->first_piece + 1 < c->npieces && c->pieces[c->first_piece + 1].file;
      n = send(c->fd, c->out.buf + c->out_sent, (size_t)piece->len, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
      if (n > 0) c->out_sent += (size_t)n;
    }
    if (n < 0 && errno == EAGAIN) {
      if (!c->blocked) want(c, EPOLLOUT);
      c->blocked = true;
      return true;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    piece->position += n;
    piece->len -= n;
    if (piece->len) continue;
    if (piece->file) partition_unref(piece->file);
    c->first_piece++;
  }
  c->out.len = c->out_sent = c->out_counted = 0;
  if (c->blocked) want(c, EPOLLIN);
  c->blocked = false;
  return true;
}

void out_free(struct conn *c) {
  for (int i = c->first_piece; i < c->npieces; i++)
    if (c->pieces[i].file) partition_unref(c->pieces[i].file);
  free(c->pieces);
  free(c->out.buf);
}
