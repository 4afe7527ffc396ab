// The requests.

#include "limit.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  PRODUCE = 0,
  FETCH = 1,
  LIST_OFFSETS = 2,
  METADATA = 3,
  API_VERSIONS = 18,
  CREATE_TOPICS = 19,
  DELETE_TOPICS = 20,
  INIT_PRODUCER_ID = 22,
};

struct request {
  struct conn *c;
  struct reader r;
  struct writer *w;
  int16_t version;
  int32_t correlation;
  size_t frame_at; // of the answer's length prefix
};

// Each API with the versions that are served and the first flexible one.
static const struct api {
  int16_t key, min, max, flexible;
} apis[] = {
    {PRODUCE, 3, 13, 9},       {FETCH, 4, 17, 12},        {LIST_OFFSETS, 1, 8, 6},     {METADATA, 4, 12, 9},
    {API_VERSIONS, 0, 4, 3},   {CREATE_TOPICS, 2, 7, 5},  {DELETE_TOPICS, 1, 6, 4},    {INIT_PRODUCER_ID, 0, 4, 2},
};
enum { APIS = sizeof apis / sizeof apis[0] };

static void begin(struct request *q, bool tags) {
  q->frame_at = q->w->len;
  put32(q->w, 0);
  put32(q->w, q->correlation);
  if (tags) put_tags(q->w);
}

static void finish(struct request *q, int64_t file_bytes) {
  int64_t len = (int64_t)(q->w->len - q->frame_at - 4) + file_bytes;
  store32(q->w->buf + q->frame_at, (int32_t)len);
  out_touch(q->c);
}

// get_topic reads a topic's name, or its id from by_id on.
static struct topic *get_topic(struct request *q, bool by_id, struct text *name, const uint8_t **id) {
  if (by_id) {
    *id = take(&q->r, 16);
    *name = (struct text){NULL, -1};
    return topic_find_id(*id);
  }
  *name = get_text(&q->r);
  *id = NULL;
  return topic_find(name->p, name->len);
}

static void put_topic(struct writer *w, struct text name, const uint8_t *id) {
  if (id) memcpy(room(w, 16), id, 16);
  else put_text(w, name.p, name.len);
}

static struct partition *get_partition(struct topic *t, int32_t number) {
  return t && number >= 0 && number < t->partitions ? t->partition[number] : NULL;
}

// --- Produce

// check takes one whole batch: magic, length, CRC, count.
static int check(struct text records, int32_t *count) {
  struct reader r = {(const uint8_t *)records.p, (const uint8_t *)records.p + records.len, false, false};
  if (records.len < 61) return INVALID_RECORD;
  get64(&r); // base offset
  int32_t len = get32(&r);
  get32(&r); // leader epoch
  int8_t magic = get8(&r);
  uint32_t crc = (uint32_t)get32(&r);
  get16(&r); // attributes
  int32_t last_delta = get32(&r);
  r.p += 8 + 8 + 8 + 2 + 4; // times, producer id and epoch, sequence
  *count = get32(&r);
  if (magic != 2 || len != records.len - 12 || *count < 1 || *count != last_delta + 1) return INVALID_RECORD;
  if (!options.null && crc32c((const uint8_t *)records.p + 21, (size_t)records.len - 21) != crc) return CORRUPT_MESSAGE;
  return NONE;
}

static void produce_partition(struct request *q, struct topic *t, bool answered) {
  struct writer *w = q->w;
  int32_t number = get32(&q->r), count = 0;
  struct text records = get_bytes(&q->r);
  skip_tags(&q->r);
  if (q->r.bad) return;
  struct partition *p = get_partition(t, number);
  int error = p ? check(records, &count) : UNKNOWN_TOPIC_OR_PARTITION;
  struct append a = {.batch = (uint8_t *)records.p, .len = (size_t)records.len, .records = count};
  if (answered) {
    put32(w, number);
    put16(w, (int16_t)error);
    a.conn = q->c;
    a.base_offset_at = w->len;
    put64(w, -1);
    put64(w, -1);                     // append time
    if (q->version >= 5) put64(w, error ? -1 : 0); // log start
    if (q->version >= 8) {
      put_count(w, 0);    // record errors
      put_text(w, NULL, -1); // message
    }
    put_tags(w);
    q->c->wrote = true;
  }
  if (!error) append_add(q->c->loop, p, a);
}

static void produce(struct request *q) {
  struct writer *w = q->w;
  bool by_id = q->version >= 13;
  get_text(&q->r); // transactional id
  int16_t acks = get16(&q->r);
  get32(&q->r); // timeout
  bool answered = acks != 0;
  if (answered) begin(q, true);
  int topics = get_count(&q->r);
  if (answered) put_count(w, topics);
  for (int i = 0; i < topics && !q->r.bad; i++) {
    struct text name;
    const uint8_t *id;
    struct topic *t = get_topic(q, by_id, &name, &id);
    int partitions = get_count(&q->r);
    if (answered) {
      put_topic(w, name, id);
      put_count(w, partitions);
    }
    for (int j = 0; j < partitions && !q->r.bad; j++) produce_partition(q, t, answered);
    skip_tags(&q->r);
    if (answered) put_tags(w);
  }
  if (!answered) return;
  put32(w, 0); // throttle
  put_tags(w);
  finish(q, 0);
}

// --- Fetch

struct asked {
  struct topic *topic;
  struct text name;
  const uint8_t *id;
  int32_t number;
  int64_t offset, max;
  struct range range;
  int error;
  bool first, last; // of its topic
};

// fetch_read takes the request apart. asked is the loop's own, kept.
static int fetch_read(struct request *q, struct asked **asked, int *cap, int32_t *wait, int32_t *min, int32_t *max) {
  int n = 0, v = q->version;
  struct reader *r = &q->r;
  if (v <= 14) get32(r); // replica
  *wait = get32(r);
  *min = get32(r);
  *max = get32(r);
  get8(r); // isolation
  if (v >= 7) {
    get32(r); // session
    get32(r);
  }
  int topics = get_count(r);
  for (int i = 0; i < topics && !r->bad; i++) {
    struct text name;
    const uint8_t *id;
    struct topic *t = get_topic(q, v >= 13, &name, &id);
    int partitions = get_count(r);
    for (int j = 0; j < partitions && !r->bad; j++, n++) {
      *asked = grow(*asked, cap, n + 1, sizeof **asked);
      struct asked *a = &(*asked)[n];
      *a = (struct asked){.topic = t, .name = name, .id = id, .first = j == 0, .last = j == partitions - 1};
      a->number = get32(r);
      if (v >= 9) get32(r); // current leader epoch
      a->offset = get64(r);
      if (v >= 12) get32(r); // last fetched epoch
      if (v >= 5) get64(r);  // log start
      a->max = get32(r);
      skip_tags(r);
    }
    skip_tags(r);
  }
  return n;
}

// fetch_find looks what there is; it returns the bytes, and whether an error
// or a full answer says not to wait.
static int64_t fetch_find(struct asked *asked, int n, int32_t max, bool *now) {
  int64_t total = 0;
  for (int i = 0; i < n; i++) {
    struct asked *a = &asked[i];
    struct partition *p = get_partition(a->topic, a->number);
    a->range = (struct range){-1, 0, 0};
    int64_t left = max - total;
    if (left > a->max) left = a->max;
    if (left < 0) left = 0;
    if (!p) a->error = UNKNOWN_TOPIC_OR_PARTITION;
    else if (options.null) a->error = memory_has(p, a->offset, left, &a->range);
    else a->error = range_find(p, a->offset, left, total == 0, &a->range);
    if (a->error) *now = true;
    total += a->range.len;
  }
  return total;
}

static void fetch_answer(struct request *q, struct asked *asked, int n, int topics) {
  struct writer *w = q->w;
  int v = q->version;
  begin(q, true);
  put32(w, 0); // throttle
  if (v >= 7) {
    put16(w, NONE);
    put32(w, 0); // no session
  }
  put_count(w, topics);
  int64_t file_bytes = 0;
  for (int i = 0; i < n; i++) {
    struct asked *a = &asked[i];
    if (a->first) {
      int partitions = 1;
      while (!asked[i + partitions - 1].last) partitions++;
      put_topic(w, a->name, a->id);
      put_count(w, partitions);
    }
    put32(w, a->number);
    put16(w, (int16_t)a->error);
    put64(w, a->range.end_offset); // high watermark
    put64(w, a->range.end_offset); // last stable offset
    if (v >= 5) put64(w, a->error ? -1 : 0);
    put_count(w, -1); // aborted transactions
    if (v >= 11) put32(w, -1);
    int64_t len = a->range.len;
    if (w->flexible) put_uvarint(w, (uint32_t)len + 1);
    else put32(w, (int32_t)len);
    struct partition *p = get_partition(a->topic, a->number);
    if (len > 0 && options.null) {
      memory_range(p, a->offset, len, &a->range, w);
    } else if (len > 0) {
      out_range(q->c, p, a->range.position, len);
      file_bytes += len;
    }
    put_tags(w);
    if (a->last) put_tags(w);
  }
  put_tags(w);
  finish(q, file_bytes);
}

static enum outcome fetch(struct request *q) {
  static __thread struct asked *asked;
  static __thread int cap;
  struct conn *c = q->c;
  int32_t wait, min, max;
  int n = fetch_read(q, &asked, &cap, &wait, &min, &max);
  if (q->r.bad) return BROKEN;
  bool now = false;
  // Noted before the look, so that an append between the two is not missed.
  c->nwaits = n;
  for (int i = 0; i < n && i < WAITS; i++) {
    c->waits[i].p = get_partition(asked[i].topic, asked[i].number);
    if (c->waits[i].p) c->waits[i].version = atomic_load_explicit(&c->waits[i].p->version, memory_order_acquire);
  }
  int64_t total = fetch_find(asked, n, max, &now);
  if (!now && total < min && wait > 0 && !c->expired) {
    if (!c->parked) c->deadline = c->loop->now + wait;
    return PARKED;
  }
  int topics = 0;
  for (int i = 0; i < n; i++) topics += asked[i].first;
  fetch_answer(q, asked, n, topics);
  return HANDLED;
}

// --- the rest

static void list_offsets(struct request *q) {
  struct writer *w = q->w;
  int v = q->version;
  get32(&q->r); // replica
  if (v >= 2) get8(&q->r);
  begin(q, true);
  if (v >= 2) put32(w, 0);
  int topics = get_count(&q->r);
  put_count(w, topics);
  for (int i = 0; i < topics && !q->r.bad; i++) {
    struct text name = get_text(&q->r);
    struct topic *t = topic_find(name.p, name.len);
    int partitions = get_count(&q->r);
    put_text(w, name.p, name.len);
    put_count(w, partitions);
    for (int j = 0; j < partitions && !q->r.bad; j++) {
      int32_t number = get32(&q->r);
      if (v >= 4) get32(&q->r); // epoch
      int64_t time = get64(&q->r);
      skip_tags(&q->r);
      struct partition *p = get_partition(t, number);
      struct range range = {-1, 0, 0};
      // Only the ends are known: -2 is the start, all else the end.
      if (p) range_find(p, INT64_MAX, 0, false, &range);
      put32(w, number);
      put16(w, p ? NONE : UNKNOWN_TOPIC_OR_PARTITION);
      put64(w, -1);
      put64(w, p && time == -2 ? 0 : range.end_offset);
      if (v >= 4) put32(w, p ? 0 : -1);
      put_tags(w);
    }
    skip_tags(&q->r);
    put_tags(w);
  }
  put_tags(w);
  finish(q, 0);
}

static void put_metadata(struct request *q, struct topic *t, struct text name, const uint8_t *id) {
  static const uint8_t none[16];
  struct writer *w = q->w;
  int v = q->version;
  put16(w, t ? NONE : UNKNOWN_TOPIC_OR_PARTITION);
  if (t) put_text(w, t->name, t->name_len);
  else put_text(w, name.p ? name.p : "", name.p || v >= 12 ? name.len : 0);
  if (v >= 10) memcpy(room(w, 16), t ? t->id : id ? id : none, 16);
  put8(w, 0); // internal
  put_count(w, t ? t->partitions : 0);
  for (int i = 0; t && i < t->partitions; i++) {
    put16(w, NONE);
    put32(w, i);
    put32(w, NODE_ID);
    if (v >= 7) put32(w, 0); // leader epoch
    for (int list = 0; list < 2; list++) { // replicas, in sync
      put_count(w, 1);
      put32(w, NODE_ID);
    }
    if (v >= 5) put_count(w, 0); // offline
    put_tags(w);
  }
  if (v >= 8) put32(w, INT32_MIN);
  put_tags(w);
}

static void metadata(struct request *q) {
  struct writer *w = q->w;
  int v = q->version;
  begin(q, true);
  put32(w, 0);
  put_count(w, 1);
  put32(w, NODE_ID);
  put_text(w, options.host, (int)strlen(options.host));
  put32(w, options.port);
  put_text(w, NULL, -1); // rack
  put_tags(w);
  put_text(w, "the-limit", 9);
  put32(w, NODE_ID);
  int n = get_count(&q->r);
  if (n >= 0) {
    put_count(w, n);
    for (int i = 0; i < n && !q->r.bad; i++) {
      const uint8_t *id = v >= 10 ? take(&q->r, 16) : NULL;
      struct text name = get_text(&q->r);
      skip_tags(&q->r);
      put_metadata(q, name.len >= 0 || !id ? topic_find(name.p, name.len) : topic_find_id(id), name, id);
    }
  } else {
    int known = topic_list(NULL, 0);
    struct topic **list = calloc((size_t)known + 1, sizeof *list);
    int now = topic_list(list, known);
    known = now < known ? now : known;
    put_count(w, known);
    for (int i = 0; i < known; i++) put_metadata(q, list[i], (struct text){NULL, -1}, NULL);
    free(list);
  }
  if (v >= 8 && v <= 10) put32(w, INT32_MIN);
  put_tags(w);
  finish(q, 0);
}

static void put_versions(struct request *q, int error) {
  struct writer *w = q->w;
  begin(q, false); // its header has no tags, so that any client can read it
  put16(w, (int16_t)error);
  put_count(w, APIS);
  for (int i = 0; i < APIS; i++) {
    put16(w, apis[i].key);
    put16(w, apis[i].min);
    put16(w, apis[i].max);
    put_tags(w);
  }
  if (q->version >= 1) put32(w, 0);
  put_tags(w);
  finish(q, 0);
}

static void create_topics(struct request *q) {
  struct writer *w = q->w;
  struct reader *r = &q->r;
  int v = q->version;
  begin(q, true);
  put32(w, 0);
  int n = get_count(r);
  put_count(w, n);
  for (int i = 0; i < n && !r->bad; i++) {
    struct text name = get_text(r);
    int32_t partitions = get32(r);
    get16(r); // replication
    for (int k = get_count(r); k > 0 && !r->bad; k--) {
      get32(r);
      for (int m = get_count(r); m > 0 && !r->bad; m--) get32(r);
      skip_tags(r);
    }
    for (int k = get_count(r); k > 0 && !r->bad; k--) {
      get_text(r);
      get_text(r);
      skip_tags(r);
    }
    skip_tags(r);
    if (r->bad) return;
    if (partitions == -1) partitions = 1;
    int error = partitions < 1 || partitions > 100000 ? INVALID_PARTITIONS : NONE;
    struct topic *t = error ? NULL : topic_create(name.p, name.len, partitions);
    if (!error && !t) error = TOPIC_ALREADY_EXISTS;
    static const uint8_t none[16];
    put_text(w, name.p, name.len);
    if (v >= 7) memcpy(room(w, 16), t ? t->id : none, 16);
    put16(w, (int16_t)error);
    put_text(w, NULL, -1);
    if (v >= 5) {
      put32(w, error ? -1 : partitions);
      put16(w, error ? -1 : 1);
      put_count(w, error ? -1 : 0);
    }
    put_tags(w);
  }
  put_tags(w);
  finish(q, 0);
}

static void delete_topics(struct request *q) {
  struct writer *w = q->w;
  int v = q->version;
  begin(q, true);
  put32(w, 0);
  int n = get_count(&q->r);
  put_count(w, n);
  for (int i = 0; i < n && !q->r.bad; i++) {
    struct text name = get_text(&q->r);
    const uint8_t *id = v >= 6 ? take(&q->r, 16) : NULL;
    if (v >= 6) skip_tags(&q->r);
    struct topic *t = name.len >= 0 || !id ? topic_find(name.p, name.len) : topic_find_id(id);
    int error = t && topic_delete(t) ? NONE : UNKNOWN_TOPIC_OR_PARTITION;
    if (t) put_text(w, t->name, t->name_len);
    else put_text(w, name.p, name.len);
    if (v >= 6) {
      static const uint8_t none[16];
      memcpy(room(w, 16), t ? t->id : id ? id : none, 16);
    }
    put16(w, (int16_t)error);
    if (v >= 5) put_text(w, NULL, -1);
    put_tags(w);
  }
  put_tags(w);
  finish(q, 0);
}

static void init_producer_id(struct request *q) {
  static _Atomic int64_t ids;
  begin(q, true);
  put32(q->w, 0);
  put16(q->w, NONE);
  put64(q->w, atomic_fetch_add(&ids, 1));
  put16(q->w, 0);
  put_tags(q->w);
  finish(q, 0);
}

enum outcome handle(struct conn *c, uint8_t *payload, size_t len) {
  struct request q = {.c = c, .r = {payload, payload + len, false, false}, .w = &c->out};
  int16_t key = get16(&q.r);
  q.version = get16(&q.r);
  q.correlation = get32(&q.r);
  get_text(&q.r); // client id: not compact in any version
  const struct api *api = NULL;
  for (int i = 0; i < APIS; i++)
    if (apis[i].key == key) api = &apis[i];
  if (!api || q.r.bad) return BROKEN;
  if (q.version < api->min || q.version > api->max) {
    if (key != API_VERSIONS) return BROKEN;
    q.version = 0;
    q.w->flexible = false;
    put_versions(&q, UNSUPPORTED_VERSION);
    return HANDLED;
  }
  q.r.flexible = q.w->flexible = q.version >= api->flexible;
  skip_tags(&q.r);
  switch (key) {
  case PRODUCE: produce(&q); break;
  case FETCH: return fetch(&q);
  case LIST_OFFSETS: list_offsets(&q); break;
  case METADATA: metadata(&q); break;
  case API_VERSIONS: put_versions(&q, NONE); break;
  case CREATE_TOPICS: create_topics(&q); break;
  case DELETE_TOPICS: delete_topics(&q); break;
  case INIT_PRODUCER_ID: init_producer_id(&q); break;
  }
  return q.r.bad ? BROKEN : HANDLED;
}
