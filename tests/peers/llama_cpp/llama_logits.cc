// SPDX-License-Identifier: Apache-2.0
// Logits of every token of a text by llama.cpp, as raw f32 [tokens, vocabulary]:
//   llama_logits MODEL.gguf TEXT OUT [CACHE_TYPE]       CACHE_TYPE: f16 (default), f32 or q4_0, for keys and
//   values
#include <llama.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: %s MODEL TEXT OUT [f16|f32|q4_0]\n", argv[0]), 2;
  llama_backend_init();
  const llama_model_params model_params = llama_model_default_params();
  llama_model* model = llama_model_load_from_file(argv[1], model_params);
  if (model == nullptr) return 1;
  const llama_vocab* vocab = llama_model_get_vocab(model);
  const auto length = static_cast<int>(std::strlen(argv[2]));
  std::vector<llama_token> tokens(static_cast<std::size_t>(length) + 8);
  const int count =
      llama_tokenize(vocab, argv[2], length, tokens.data(), static_cast<int>(tokens.size()), true, true);
  if (count <= 0) return 1;
  tokens.resize(static_cast<std::size_t>(count));

  llama_context_params params = llama_context_default_params();
  const char* cache = argc > 4 ? argv[4] : "f16";
  params.type_k = params.type_v = !std::strcmp(cache, "q4_0")  ? GGML_TYPE_Q4_0
                                  : !std::strcmp(cache, "f32") ? GGML_TYPE_F32
                                                               : GGML_TYPE_F16;
  params.n_ctx = 1024;
  params.n_batch = params.n_ubatch = 1024;
  params.n_threads = params.n_threads_batch = 2;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  llama_batch batch = llama_batch_init(count, 0, 1);
  batch.n_tokens = count;
  for (int i = 0; i < count; ++i) {
    batch.token[i] = tokens[static_cast<std::size_t>(i)];
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  if (llama_decode(context, batch) != 0) return 1;
  std::ofstream out(argv[3], std::ios::binary);
  for (int i = 0; i < count; ++i)
    out.write(reinterpret_cast<const char*>(llama_get_logits_ith(context, i)),
              static_cast<std::streamsize>(sizeof(float)) * llama_vocab_n_tokens(vocab));
  return out ? 0 : 1;
}
