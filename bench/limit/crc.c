// CRC32C (Castagnoli): three streams at once with SSE4.2 where the CPU has it,
// a table otherwise.

#define _GNU_SOURCE
#include "limit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define POLY 0x82f63b78u // reflected

static uint32_t table[256];

#if defined(__x86_64__)
#include <nmmintrin.h>

// The crc32 instruction takes three cycles and can start each cycle: three
// neighbouring blocks are taken at once, and their results put together by
// moving a CRC over the zeros that stand for the blocks behind it.
#define LONG_BLOCK 4096
#define SHORT_BLOCK 256

static uint32_t shift_long[4][256], shift_short[4][256];
static int have_sse42;

// zeros moves a CRC register over one byte of zeros at a time.
static uint32_t zeros(uint32_t crc, size_t n) {
  while (n--) crc = (crc >> 8) ^ table[crc & 0xff];
  return crc;
}

static void make_shift(uint32_t shift[4][256], size_t n) {
  // The register is linear: the effect of each of its bytes is looked up.
  uint32_t bit[32];
  for (int i = 0; i < 32; i++) bit[i] = zeros(1u << i, n);
  for (int byte = 0; byte < 4; byte++)
    for (int v = 0; v < 256; v++) {
      uint32_t sum = 0;
      for (int i = 0; i < 8; i++)
        if (v >> i & 1) sum ^= bit[byte * 8 + i];
      shift[byte][v] = sum;
    }
}

static inline uint32_t shifted(uint32_t shift[4][256], uint32_t crc) {
  return shift[0][crc & 0xff] ^ shift[1][crc >> 8 & 0xff] ^ shift[2][crc >> 16 & 0xff] ^ shift[3][crc >> 24];
}

static inline uint64_t load64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

__attribute__((target("sse4.2"))) static uint32_t three(uint32_t crc, const uint8_t *p, size_t block,
                                                        uint32_t shift[4][256]) {
  uint64_t a = crc, b = 0, c = 0;
  for (size_t i = 0; i < block; i += 8) {
    a = _mm_crc32_u64(a, load64(p + i));
    b = _mm_crc32_u64(b, load64(p + block + i));
    c = _mm_crc32_u64(c, load64(p + 2 * block + i));
  }
  crc = shifted(shift, (uint32_t)a) ^ (uint32_t)b;
  return shifted(shift, crc) ^ (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t hardware(const uint8_t *p, size_t n) {
  uint32_t crc = ~0u;
  for (; n >= 3 * LONG_BLOCK; p += 3 * LONG_BLOCK, n -= 3 * LONG_BLOCK) crc = three(crc, p, LONG_BLOCK, shift_long);
  for (; n >= 3 * SHORT_BLOCK; p += 3 * SHORT_BLOCK, n -= 3 * SHORT_BLOCK) crc = three(crc, p, SHORT_BLOCK, shift_short);
  uint64_t rest = crc;
  for (; n >= 8; p += 8, n -= 8) rest = _mm_crc32_u64(rest, load64(p));
  crc = (uint32_t)rest;
  for (; n; p++, n--) crc = _mm_crc32_u8(crc, *p);
  return ~crc;
}
#endif

void crc_init(void) {
  for (int i = 0; i < 256; i++) {
    uint32_t c = (uint32_t)i;
    for (int k = 0; k < 8; k++) c = c & 1 ? (c >> 1) ^ POLY : c >> 1;
    table[i] = c;
  }
#if defined(__x86_64__)
  have_sse42 = __builtin_cpu_supports("sse4.2");
  make_shift(shift_long, LONG_BLOCK);
  make_shift(shift_short, SHORT_BLOCK);
#endif
}

uint32_t crc32c(const uint8_t *p, size_t n) {
#if defined(__x86_64__)
  if (have_sse42) return hardware(p, n);
#endif
  uint32_t crc = ~0u;
  for (; n; p++, n--) crc = (crc >> 8) ^ table[(crc ^ *p) & 0xff];
  return ~crc;
}

int crc_test(void) {
  static uint8_t data[1 << 20];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 2654435761u >> 13);
  // The three-stream path against the plain one.
  for (size_t n = 0; n < 40000; n += 1 + n / 7) {
    uint32_t plain = ~0u;
    for (size_t i = 0; i < n; i++) plain = (plain >> 8) ^ table[(plain ^ data[i]) & 0xff];
    if (crc32c(data, n) != ~plain) {
      fprintf(stderr, "CRC32C of %zu bytes is wrong\n", n);
      return 1;
    }
  }
  uint32_t sum = 0;
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int i = 0; i < 1024; i++) sum ^= crc32c(data, sizeof data - (size_t)i);
  clock_gettime(CLOCK_MONOTONIC, &to);
  double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
  printf("%08x, %.1f GiB/s (%08x)\n", crc32c((const uint8_t *)"123456789", 9), 1 / seconds, sum);
  return 0;
}
