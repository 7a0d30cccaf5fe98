// Models of a few numbers, written as Hugging Face folders and GGUF files by code that shares nothing with
// the readers.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace kvcost::tiny {

namespace fs = std::filesystem;
using Json = nlohmann::json;

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Exact for small multiples of 1/8, the only values used here.
inline std::string encode(const std::vector<float>& values, const std::string& dtype) {
  std::string out;
  for (float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (dtype == "F32") append(out, bits);
    if (dtype == "BF16") append(out, static_cast<uint16_t>(bits >> 16));
    if (dtype == "F16") {
      uint32_t exponent = (bits >> 23) & 255;
      uint32_t half = exponent == 0 ? 0 : ((exponent - 112) << 10) | ((bits >> 13) & 1023);
      append(out, static_cast<uint16_t>(half | ((bits >> 16) & 0x8000)));
    }
  }
  return out;
}

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct Model {
  std::string architecture;
  Json config;
  std::map<std::string, Tensor> tensors;
  int64_t heads = 4, kv_heads = 2, head_dim = 6, hidden = 24, intermediate = 10, vocabulary = 7, layers = 2;
};

inline Model make_model(const std::string& architecture, bool tied = false) {
  Model m;
  m.architecture = architecture;
  if (architecture == "qwen3") m.head_dim = 8;
  m.config = {{"model_type", architecture},
              {"hidden_size", m.hidden},
              {"intermediate_size", m.intermediate},
              {"num_hidden_layers", m.layers},
              {"num_attention_heads", m.heads},
              {"num_key_value_heads", m.kv_heads},
              {"vocab_size", m.vocabulary},
              {"max_position_embeddings", 64},
              {"rms_norm_eps", 0.0009765625},
              {"hidden_act", "silu"},
              {"rope_theta", 10000.0},
              {"tie_word_embeddings", tied}};
  if (architecture == "qwen3") m.config["head_dim"] = m.head_dim;
  if (architecture == "mistral") m.config["sliding_window"] = nullptr;
  std::mt19937 random(11);
  auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    Tensor tensor{std::move(shape), {}};
    for (int64_t i = 0; i < count; ++i) {
      tensor.values.push_back((static_cast<float>(random() % 129) - 64.0F) / 8.0F);
    }
    m.tensors[name] = std::move(tensor);
  };
  int64_t q = m.heads * m.head_dim, k = m.kv_heads * m.head_dim;
  add("model.embed_tokens.weight", {m.vocabulary, m.hidden});
  add("model.norm.weight", {m.hidden});
  if (!tied) add("lm_head.weight", {m.vocabulary, m.hidden});
  for (int64_t i = 0; i < m.layers; ++i) {
    std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm.weight", {m.hidden});
    add(layer + "post_attention_layernorm.weight", {m.hidden});
    add(layer + "self_attn.q_proj.weight", {q, m.hidden});
    add(layer + "self_attn.k_proj.weight", {k, m.hidden});
    add(layer + "self_attn.v_proj.weight", {k, m.hidden});
    add(layer + "self_attn.o_proj.weight", {m.hidden, q});
    add(layer + "mlp.gate_proj.weight", {m.intermediate, m.hidden});
    add(layer + "mlp.up_proj.weight", {m.intermediate, m.hidden});
    add(layer + "mlp.down_proj.weight", {m.hidden, m.intermediate});
    if (architecture == "qwen2") {
      add(layer + "self_attn.q_proj.bias", {q});
      add(layer + "self_attn.k_proj.bias", {k});
      add(layer + "self_attn.v_proj.bias", {k});
    }
    if (architecture == "qwen3") {
      add(layer + "self_attn.q_norm.weight", {m.head_dim});
      add(layer + "self_attn.k_norm.weight", {m.head_dim});
    }
  }
  return m;
}

/// An empty folder of the running test's own: tests run side by side, each in its own process.
inline fs::path fresh_folder(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string owner = std::string(test->test_suite_name()) + "_" + test->name();
  std::replace(owner.begin(), owner.end(), '/', '_');
  fs::path folder = fs::path(testing::TempDir()) / ("kvcost_" + owner + "_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

inline void write_file(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// A safetensors file from a header and its data.
inline std::string safetensors(const std::string& header, const std::string& data) {
  std::string out;
  append(out, static_cast<uint64_t>(header.size()));
  return out + header + data;
}

inline std::string safetensors(const std::map<std::string, Tensor>& tensors, const std::string& dtype) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    std::string bytes = encode(tensor.values, dtype);
    header[name] = {{"dtype", dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  }
  header["__metadata__"] = {{"format", "pt"}};
  return safetensors(header.dump(), data);
}

inline fs::path write_folder(const Model& model, const std::string& name, const std::string& dtype = "F32") {
  fs::path folder = fresh_folder(name);
  write_file(folder / "config.json", model.config.dump());
  write_file(folder / "model.safetensors", safetensors(model.tensors, dtype));
  return folder;
}

/// The same in `shards` files and an index.
inline fs::path write_shards(const Model& model, const std::string& name, int shards) {
  fs::path folder = fresh_folder(name);
  write_file(folder / "config.json", model.config.dump());
  std::vector<std::map<std::string, Tensor>> parts(static_cast<size_t>(shards));
  Json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", Json::object()}};
  size_t next = 0;
  for (const auto& [tensor, content] : model.tensors) {
    size_t part = next++ % parts.size();
    parts[part][tensor] = content;
    index["weight_map"][tensor] = "part-" + std::to_string(part) + ".safetensors";
  }
  for (size_t part = 0; part < parts.size(); ++part) {
    write_file(folder / ("part-" + std::to_string(part) + ".safetensors"), safetensors(parts[part], "F32"));
  }
  write_file(folder / "model.safetensors.index.json", index.dump());
  return folder;
}

/// Builds a GGUF file byte by byte.
class GgufBuilder {
 public:
  uint32_t version = 3;
  uint32_t alignment = 32;

  void key(const std::string& name, uint32_t type) {
    ++keys_;
    put_string(metadata_, name);
    append(metadata_, type);
  }
  template <class T>
  void set(const std::string& name, uint32_t type, T value) {
    key(name, type);
    append(metadata_, value);
  }
  void set_u32(const std::string& name, int64_t value) { set(name, 4, static_cast<uint32_t>(value)); }
  void set_u64(const std::string& name, int64_t value) { set(name, 10, static_cast<uint64_t>(value)); }
  void set_f32(const std::string& name, float value) { set(name, 6, value); }
  void set_bool(const std::string& name, bool value) { set(name, 7, static_cast<uint8_t>(value)); }
  void set_string(const std::string& name, const std::string& value) {
    key(name, 8);
    put_string(metadata_, value);
  }
  template <class T>
  void set_array(const std::string& name, uint32_t type, const std::vector<T>& values) {
    key(name, 9);
    append(metadata_, type);
    append(metadata_, static_cast<uint64_t>(values.size()));
    for (const T& value : values) {
      if constexpr (std::is_same_v<T, std::string>) {
        put_string(metadata_, value);
      } else {
        append(metadata_, value);
      }
    }
  }
  /// Metadata as it stands in the file.
  void add_raw_metadata(const std::string& bytes) { metadata_ += bytes; }
  /// `shape` rows first.
  void add(const std::string& name, const std::vector<int64_t>& shape, uint32_t type,
           const std::string& bytes) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    add_at(name, shape, type, data_.size());
    data_ += bytes;
  }
  void add_at(const std::string& name, const std::vector<int64_t>& shape, uint32_t type, uint64_t offset) {
    ++tensors_;
    put_string(infos_, name);
    append(infos_, static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;) append(infos_, static_cast<uint64_t>(shape[i]));
    append(infos_, type);
    append(infos_, offset);
  }
  std::string bytes() const {
    std::string out = "GGUF";
    append(out, version);
    append(out, tensors_);
    append(out, keys_);
    out += metadata_ + infos_;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data_;
  }

 private:
  static void put_string(std::string& out, const std::string& text) {
    append(out, static_cast<uint64_t>(text.size()));
    out += text;
  }
  uint64_t tensors_ = 0, keys_ = 0;
  std::string metadata_, infos_, data_;
};

/// As llama.cpp's converter permutes queries and keys: [heads, 2, d/2, ...] -> [heads, d/2, 2, ...].
inline std::vector<float> permuted(const Tensor& tensor, int64_t heads) {
  std::vector<float> out;
  int64_t half = tensor.shape[0] / heads / 2, columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < half; ++i) {
      for (int64_t s = 0; s < 2; ++s) {
        auto row = tensor.values.begin() + ((head * 2 + s) * half + i) * columns;
        out.insert(out.end(), row, row + columns);
      }
    }
  }
  return out;
}

/// The settings of `model`, less the one named `without`.
inline void set_config(GgufBuilder& file, const Model& model, const std::string& without = "") {
  std::string arch = model.architecture;
  auto integer = [&](const std::string& name, int64_t value) {
    if (name != without) file.set_u32(arch + "." + name, value);
  };
  auto number = [&](const std::string& name, float value) {
    if (name != without) file.set_f32(arch + "." + name, value);
  };
  if (without != "general.architecture") file.set_string("general.architecture", arch);
  integer("block_count", model.layers);
  integer("context_length", 64);
  if (without != "embedding_length") file.set_u64(arch + ".embedding_length", model.hidden);
  integer("feed_forward_length", model.intermediate);
  integer("attention.head_count", model.heads);
  integer("attention.head_count_kv", model.kv_heads);
  if (model.head_dim * model.heads != model.hidden) integer("attention.key_length", model.head_dim);
  number("attention.layer_norm_rms_epsilon", 0.0009765625F);
  number("rope.freq_base", 10000.0F);
}

inline std::string gguf_tensor_name(std::string name) {
  static const std::vector<std::pair<std::string, std::string>> kNames{
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"model.layers", "blk"},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  for (const auto& [from, to] : kNames) {
    if (size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  }
  return name;
}

/// Matrices as F16, vectors as F32; all but the one named `without`.
inline void add_tensors(GgufBuilder& file, const Model& model, const std::string& without = "") {
  for (const auto& [name, tensor] : model.tensors) {
    if (name == without) continue;
    std::vector<float> stored = tensor.values;
    bool query = name.find("q_proj") != std::string::npos, key = name.find("k_proj") != std::string::npos;
    if (model.architecture == "llama" && query) stored = permuted(tensor, model.heads);
    if (model.architecture == "llama" && key) stored = permuted(tensor, model.kv_heads);
    bool vector = tensor.shape.size() == 1;
    file.add(gguf_tensor_name(name), tensor.shape, vector ? 0 : 1, encode(stored, vector ? "F32" : "F16"));
  }
}

inline fs::path write_gguf(const GgufBuilder& file, const std::string& name) {
  fs::path path = fresh_folder(name) / "model.gguf";
  write_file(path, file.bytes());
  return path;
}

inline fs::path write_gguf(const Model& model, const std::string& name) {
  GgufBuilder file;
  set_config(file, model);
  add_tensors(file, model);
  return write_gguf(file, name);
}

}  // namespace kvcost::tiny
