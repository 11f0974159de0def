/* SPDX-License-Identifier: Apache-2.0
 * An engine's view of the installed codec: makes a handle from head table bytes, encodes a fixed input and
 * compares the rows with the golden ones.
 * Usage: program HEAD_TABLE ROWS */
#include <math.h>
#include <so4codec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 4, CHANNELS = 64, MAX_FILE = 1 << 16 };

static size_t ReadFile(const char* path, uint8_t* bytes) {
  FILE* file = fopen(path, "rb");
  size_t size;
  if (file == NULL) {
    fprintf(stderr, "can't read %s\n", path);
    exit(1);
  }
  size = fread(bytes, 1, MAX_FILE, file);
  fclose(file);
  return size;
}

static void Require(int ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "failed: %s\n", what);
  exit(1);
}

int main(int argc, char** argv) {
  static uint8_t table[MAX_FILE], golden[MAX_FILE], rows[MAX_FILE];
  float x[TOKENS * CHANNELS], x_hat[TOKENS * CHANNELS], out[CHANNELS];
  char message[200];
  double error = 0, energy = 0;
  uint32_t state = 1;
  size_t table_bytes, golden_bytes;
  so4_codec* codec;
  int i;

  Require(argc == 3, "usage: program HEAD_TABLE ROWS");
  table_bytes = ReadFile(argv[1], table);
  golden_bytes = ReadFile(argv[2], golden);
  for (i = 0; i < TOKENS * CHANNELS; ++i) { /* multiples of 1/512 in [-4, 4) */
    state = state * 1664525u + 1013904223u;
    x[i] = (float)((int)(state >> 20) - 2048) / 512;
  }

  if (so4_create(table, table_bytes, &codec, message, sizeof message) != SO4_OK) {
    fprintf(stderr, "%s\n", message);
    return 1;
  }
  Require(so4_head_dim(codec) == CHANNELS, "head_dim");
  Require(so4_row_bytes(codec) * TOKENS == golden_bytes, "row bytes");
  Require(so4_encode(codec, x, TOKENS, CHANNELS, rows, golden_bytes, NULL) == SO4_OK, "encode");
  Require(memcmp(rows, golden, golden_bytes) == 0, "rows equal the golden ones");

  Require(so4_decode(codec, rows, golden_bytes, x_hat, TOKENS, NULL) == SO4_OK, "decode");
  for (i = 0; i < TOKENS * CHANNELS; ++i) {
    error += (x_hat[i] - x[i]) * (x_hat[i] - x[i]);
    energy += x[i] * x[i];
  }
  Require(error < 0.05 * energy, "decoded values are near the input");
  Require(so4_attention(codec, codec, rows, golden_bytes, rows, golden_bytes, TOKENS, 0.125f, x, 1, out,
                        NULL) == SO4_OK,
          "attention");
  for (i = 0; i < CHANNELS; ++i) Require(isfinite(out[i]), "attention output is finite");

  so4_destroy(codec);
  Require(
      so4_create(table, table_bytes - 1, &codec, message, sizeof message) == SO4_ERROR_TABLE && codec == NULL,
      "a truncated table is refused");
  printf("so4codec %06x: %s\n", (unsigned)so4_version(), message);
  return 0;
}
