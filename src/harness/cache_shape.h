#pragma once
#include "src/cache/policy.h"
#include "src/model/formats/model_config.h"

namespace kvcost {

/// Of a text of so many tokens, the first `prompt` of which come before the scored ones.
inline CacheShape cache_shape(const ModelConfig& config, int64_t tokens, int64_t prompt) {
  CacheShape shape;
  shape.layers = static_cast<int>(config.layers);
  shape.query_heads = config.query_heads, shape.kv_heads = config.kv_heads;
  shape.head_dim = config.head_dim;
  shape.tokens = tokens, shape.prompt = prompt;
  return shape;
}

}  // namespace kvcost
