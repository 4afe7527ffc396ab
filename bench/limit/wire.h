// Reading and writing Kafka's primitive types. A read beyond the end sets bad
// and gives zeros, so that a request is checked once, at its end.

#ifndef WIRE_H
#define WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reader {
  const uint8_t *p, *end;
  bool flexible, bad;
};

struct text {
  const char *p;
  int len; // -1 is null
};

static inline const uint8_t *take(struct reader *r, size_t n) {
  static const uint8_t nothing[16];
  if ((size_t)(r->end - r->p) < n) {
    r->bad = true;
    r->p = r->end;
    return n <= sizeof nothing ? nothing : NULL;
  }
  const uint8_t *at = r->p;
  r->p += n;
  return at;
}

static inline int8_t get8(struct reader *r) { return (int8_t)*take(r, 1); }

static inline int16_t get16(struct reader *r) {
  uint16_t v;
  memcpy(&v, take(r, 2), 2);
  return (int16_t)be16toh(v);
}

static inline int32_t get32(struct reader *r) {
  uint32_t v;
  memcpy(&v, take(r, 4), 4);
  return (int32_t)be32toh(v);
}

static inline int64_t get64(struct reader *r) {
  uint64_t v;
  memcpy(&v, take(r, 8), 8);
  return (int64_t)be64toh(v);
}

static inline uint32_t get_uvarint(struct reader *r) {
  uint32_t v = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    uint8_t b = *take(r, 1);
    v |= (uint32_t)(b & 0x7f) << shift;
    if (!(b & 0x80)) return v;
  }
  r->bad = true;
  return 0;
}

// get_count is the length of an array, -1 for null. Every element takes a byte
// at least, so that a lie about the length cannot keep the loop busy.
static inline int get_count(struct reader *r) {
  int64_t n = r->flexible ? (int64_t)get_uvarint(r) - 1 : get32(r);
  if (n < -1 || n > r->end - r->p) {
    r->bad = true;
    return 0;
  }
  return (int)n;
}

static inline struct text get_text(struct reader *r) {
  int64_t n = r->flexible ? (int64_t)get_uvarint(r) - 1 : get16(r);
  struct text t = {NULL, -1};
  if (n >= 0 && n <= r->end - r->p) {
    t.len = (int)n;
    t.p = (const char *)take(r, (size_t)n);
  } else if (n != -1) {
    r->bad = true;
  }
  return t;
}

static inline struct text get_bytes(struct reader *r) {
  int64_t n = r->flexible ? (int64_t)get_uvarint(r) - 1 : get32(r);
  struct text t = {NULL, -1};
  if (n >= 0 && n <= r->end - r->p) {
    t.len = (int)n;
    t.p = (const char *)take(r, (size_t)n);
  } else if (n != -1) {
    r->bad = true;
  }
  return t;
}

// skip_tags ends a flexible structure.
static inline void skip_tags(struct reader *r) {
  if (!r->flexible) return;
  for (uint32_t n = get_uvarint(r); n && !r->bad; n--) {
    get_uvarint(r);
    uint32_t size = get_uvarint(r);
    if (size > (size_t)(r->end - r->p)) r->bad = true;
    else r->p += size;
  }
}

// A writer grows its buffer; it is a connection's output.
struct writer {
  uint8_t *buf;
  size_t len, cap;
  bool flexible;
};

void writer_grow(struct writer *w, size_t more);

static inline uint8_t *room(struct writer *w, size_t n) {
  if (w->cap - w->len < n) writer_grow(w, n);
  uint8_t *at = w->buf + w->len;
  w->len += n;
  return at;
}

static inline void put8(struct writer *w, int8_t v) { *room(w, 1) = (uint8_t)v; }

static inline void store16(uint8_t *at, int16_t v) {
  uint16_t b = htobe16((uint16_t)v);
  memcpy(at, &b, 2);
}

static inline void store32(uint8_t *at, int32_t v) {
  uint32_t b = htobe32((uint32_t)v);
  memcpy(at, &b, 4);
}

static inline void store64(uint8_t *at, int64_t v) {
  uint64_t b = htobe64((uint64_t)v);
  memcpy(at, &b, 8);
}

static inline void put16(struct writer *w, int16_t v) { store16(room(w, 2), v); }
static inline void put32(struct writer *w, int32_t v) { store32(room(w, 4), v); }
static inline void put64(struct writer *w, int64_t v) { store64(room(w, 8), v); }

static inline void put_uvarint(struct writer *w, uint32_t v) {
  for (; v >= 0x80; v >>= 7) put8(w, (int8_t)(v | 0x80));
  put8(w, (int8_t)v);
}

static inline void put_count(struct writer *w, int n) {
  if (w->flexible) put_uvarint(w, (uint32_t)(n + 1));
  else put32(w, n);
}

static inline void put_text(struct writer *w, const char *p, int len) {
  if (w->flexible) put_uvarint(w, (uint32_t)(len + 1));
  else put16(w, (int16_t)len);
  if (len > 0) memcpy(room(w, (size_t)len), p, (size_t)len);
}

static inline void put_tags(struct writer *w) {
  if (w->flexible) put8(w, 0);
}

#endif
