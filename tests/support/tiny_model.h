#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "src/model/formats/safetensors.h"

namespace kvcost {

/// A two-layer random Qwen2 (so that keys have a bias) in a Hugging Face folder, with a byte-level tokenizer
/// that has one token for each byte. `weight_scale` above 1e30 makes its numbers overflow.
inline void write_tiny_model(const std::filesystem::path& folder, double weight_scale = 1) {
  constexpr int64_t kHidden = 32, kMlp = 48, kHeads = 4, kKvHeads = 2, kDim = 8, kLayers = 2,
                    kVocabulary = 300;
  std::filesystem::create_directories(folder);
  nlohmann::json config = {{"model_type", "qwen2"},          {"architectures", {"Qwen2ForCausalLM"}},
                           {"hidden_size", kHidden},         {"intermediate_size", kMlp},
                           {"num_attention_heads", kHeads},  {"num_key_value_heads", kKvHeads},
                           {"num_hidden_layers", kLayers},   {"vocab_size", kVocabulary},
                           {"max_position_embeddings", 512}, {"rms_norm_eps", 1e-6},
                           {"rope_theta", 10000.0},          {"hidden_act", "silu"},
                           {"use_sliding_window", false},    {"tie_word_embeddings", true}};
  std::ofstream(folder / "config.json") << config.dump(1);

  SafetensorsWriter writer;
  std::minstd_rand random(7);
  auto add = [&](const std::string& name, std::vector<int64_t> shape, double scale, double middle = 0) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) {
      value = static_cast<float>(middle + scale * (static_cast<double>(random()) / random.max() * 2 - 1));
    }
    writer.add<float>(name, std::move(shape), values);
  };
  add("model.embed_tokens.weight", {kVocabulary, kHidden}, 1);
  add("model.norm.weight", {kHidden}, 0.1, 1);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    std::string prefix = "model.layers." + std::to_string(layer) + ".";
    add(prefix + "input_layernorm.weight", {kHidden}, 0.1, 1);
    add(prefix + "post_attention_layernorm.weight", {kHidden}, 0.1, 1);
    add(prefix + "self_attn.q_proj.weight", {kHeads * kDim, kHidden}, 0.5);
    add(prefix + "self_attn.q_proj.bias", {kHeads * kDim}, 0.5);
    add(prefix + "self_attn.k_proj.weight", {kKvHeads * kDim, kHidden}, 0.5);
    add(prefix + "self_attn.k_proj.bias", {kKvHeads * kDim}, 4);
    add(prefix + "self_attn.v_proj.weight", {kKvHeads * kDim, kHidden}, 0.5);
    add(prefix + "self_attn.v_proj.bias", {kKvHeads * kDim}, 0.5);
    add(prefix + "self_attn.o_proj.weight", {kHidden, kHeads * kDim}, 0.5);
    add(prefix + "mlp.gate_proj.weight", {kMlp, kHidden}, 0.5);
    add(prefix + "mlp.up_proj.weight", {kMlp, kHidden}, 0.5 * weight_scale);
    add(prefix + "mlp.down_proj.weight", {kHidden, kMlp}, 0.5 * weight_scale);
  }
  writer.write(folder / "model.safetensors");

  // GPT-2's printable stand-ins for bytes: printable Latin-1 stands for itself, the rest is moved to U+0100
  // on.
  nlohmann::json vocabulary = nlohmann::json::object();
  int moved = 0;
  for (int byte = 0; byte < 256; ++byte) {
    bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    int point = printable ? byte : 256 + moved++;
    std::string text;
    if (point < 128) {
      text = static_cast<char>(point);
    } else {
      text = {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
    }
    vocabulary[text] = byte;
  }
  nlohmann::json stage = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  nlohmann::json tokenizer = {{"version", "1.0"},
                              {"truncation", nullptr},
                              {"padding", nullptr},
                              {"added_tokens", nlohmann::json::array()},
                              {"normalizer", nullptr},
                              {"pre_tokenizer", stage},
                              {"post_processor", nullptr},
                              {"decoder", stage},
                              {"model",
                               {{"type", "BPE"},
                                {"dropout", nullptr},
                                {"unk_token", nullptr},
                                {"continuing_subword_prefix", ""},
                                {"end_of_word_suffix", ""},
                                {"fuse_unk", false},
                                {"byte_fallback", false},
                                {"vocab", vocabulary},
                                {"merges", nlohmann::json::array()}}}};
  std::ofstream(folder / "tokenizer.json") << tokenizer.dump();
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": false})";
}

/// Repeatable text of `bytes` ASCII letters and spaces.
inline std::string tiny_text(size_t bytes, unsigned seed = 3) {
  std::minstd_rand random(seed);
  std::string text;
  while (text.size() < bytes) text += "abcdefghijklmnopqrstuvwxyz     "[random() % 31];
  return text;
}

}  // namespace kvcost
