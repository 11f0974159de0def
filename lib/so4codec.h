/* SPDX-License-Identifier: Apache-2.0
 *
 * C interface of the so4cal codec for inference engines: one handle per head and side, made from the head
 * table bytes that `so4cal export --format c` writes (lib/CODEC.md). C99 and C++.
 *
 * No function throws, keeps global state, or writes any output when it returns an error. A handle is
 * immutable: any number of threads may use it at once.
 */
#ifndef SO4CODEC_H_
#define SO4CODEC_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SO4_API __attribute__((visibility("default")))
#else
#define SO4_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct so4_codec so4_codec;

typedef enum so4_status {
  SO4_OK = 0,
  SO4_ERROR_ARGUMENT = 1,       /* a null pointer, or a number outside its range */
  SO4_ERROR_SIZE = 2,           /* a buffer has another size than the other arguments ask for */
  SO4_ERROR_TABLE = 3,          /* the head table bytes are malformed or of an unknown version */
  SO4_ERROR_MEMORY = 4,         /* out of memory (so4_create only: nothing else allocates) */
  SO4_ERROR_NOT_FINITE = 5,     /* NaN or infinity in the input */
  SO4_ERROR_SCALE_OVERFLOW = 6, /* a block needs a scale above 65504 */
  SO4_ERROR_INVALID_CODE = 7,   /* a stored code has no level */
  SO4_ERROR_INVALID_SCALE = 8   /* a stored scale is NaN or infinite */
} so4_status;

/* Where encoding, decoding or attention met the error. */
typedef struct so4_place {
  size_t row;
  size_t channel;
} so4_place;

/* 0xMMmmpp: major, minor, patch of the library. */
SO4_API uint32_t so4_version(void);

/* A sentence in English; never null, whatever the status. */
SO4_API const char* so4_error_string(int status);

/* Makes a handle from `table_bytes` bytes. On error *codec is null, and `message` (may be null) receives the
 * reason as a string, cut to message_bytes bytes with its final 0. */
SO4_API int so4_create(const void* table, size_t table_bytes, so4_codec** codec, char* message,
                       size_t message_bytes);
SO4_API void so4_destroy(so4_codec* codec); /* null is allowed */

/* Channels per vector, and bytes per packed row; 0 for a null handle. */
SO4_API size_t so4_head_dim(const so4_codec* codec);
SO4_API size_t so4_row_bytes(const so4_codec* codec);

/* x: num_rows vectors of head_dim floats in the raw frame, row_stride (>= head_dim) floats from one to the
 * next. rows: num_rows * so4_row_bytes bytes. `where` may be null, here and below. */
SO4_API int so4_encode(const so4_codec* codec, const float* x, size_t num_rows, size_t row_stride,
                       uint8_t* rows, size_t rows_bytes, so4_place* where);

/* rows -> x: num_rows * head_dim floats in the raw frame. */
SO4_API int so4_decode(const so4_codec* codec, const uint8_t* rows, size_t rows_bytes, float* x,
                       size_t num_rows, so4_place* where);

/* The same without the inverse rotation and the offset. */
SO4_API int so4_decode_rotated(const so4_codec* codec, const uint8_t* rows, size_t rows_bytes, float* z,
                               size_t num_rows, so4_place* where);

/* out[i] = softmax(softmax_scale * queries[i] K^T) V from packed rows. queries: num_queries * head_dim of the
 * keys, raw frame; key_rows and value_rows: num_rows (>= 1) packed rows each; out: num_queries * head_dim of
 * the values, raw frame. Every query sees every row. `out` must not overlap `queries`. */
SO4_API int so4_attention(const so4_codec* keys, const so4_codec* values, const uint8_t* key_rows,
                          size_t key_rows_bytes, const uint8_t* value_rows, size_t value_rows_bytes,
                          size_t num_rows, float softmax_scale, const float* queries, size_t num_queries,
                          float* out, so4_place* where);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SO4CODEC_H_ */
