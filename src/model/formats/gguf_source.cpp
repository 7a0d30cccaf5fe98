#include <fmt/format.h>

#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/model/formats/sources.h"

namespace kvcost {
namespace {

/// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight".
std::string gguf_name(const std::string& name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  static const std::map<std::string, std::string, std::less<>> kParts{
      {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  constexpr std::string_view kPrefix = "model.layers.";
  size_t dot = name.find('.', kPrefix.size()), last = name.rfind('.');
  std::string part = name.substr(dot + 1, last - dot - 1);
  return "blk." + name.substr(kPrefix.size(), dot - kPrefix.size()) + "." + kParts.find(part)->second +
         name.substr(last);
}

class GgufSource : public WeightSource {
 public:
  explicit GgufSource(Gguf file) : file_(std::move(file)), config_(gguf_config(file_)) {
    std::set<std::string> used;
    for (const ExpectedTensor& expected : expected_tensors(config_)) {
      std::string stored = gguf_name(expected.name);
      const GgufTensor* tensor = file_.find(stored);
      if (tensor == nullptr) {
        throw InputError(fmt::format("{}: tensor '{}' is missing", file_.origin(), stored));
      }
      check_tensor(expected, tensor->shape, stored, file_.origin());
      used.insert(stored);
      names_.push_back(expected.name);
      tensors_.emplace(expected.name, Entry{tensor, heads_to_unpermute(expected.name)});
    }
    if (const GgufTensor* divisors = file_.find("rope_freqs.weight")) read_divisors(*divisors);
    for (const GgufTensor& tensor : file_.tensors()) {
      // llama.cpp ignores old files' rotary tables too: they hold what the config says.
      if (used.count(tensor.name) != 0 || tensor.name == "rope_freqs.weight" ||
          tensor.name.ends_with(".attn_rot_embd")) {
        continue;
      }
      throw InputError(fmt::format("{}: tensor '{}' is no part of a {} model of {} layers", file_.origin(),
                                   printable(tensor.name), config_.architecture, config_.layers));
    }
  }

  const ModelConfig& config() const override { return config_; }
  const std::vector<std::string>& names() const override { return names_; }

  std::optional<TensorInfo> find(std::string_view name) const override {
    auto found = tensors_.find(name);
    if (found == tensors_.end()) return std::nullopt;
    const GgufTensor& tensor = *found->second.tensor;
    return TensorInfo{tensor.shape, std::string(info(tensor.type).name)};
  }

  void read(std::string_view name, float* out) const override {
    auto found = tensors_.find(name);
    if (found == tensors_.end()) throw Failure(fmt::format("{}: no tensor '{}'", file_.origin(), name));
    const GgufTensor& tensor = *found->second.tensor;
    int64_t heads = found->second.unpermute_heads;
    if (heads == 0) return dequantize(tensor.type, tensor.bytes.data(), tensor.numbers(), out);
    // Adjacent pairs of rows (2i, 2i + 1) of a head go to i and i + head_dim / 2.
    int64_t half = config_.head_dim / 2;
    auto row_of = [&](int64_t row) {
      int64_t head = row / config_.head_dim, inside = row % config_.head_dim;
      return head * config_.head_dim + (inside % 2) * half + inside / 2;
    };
    int64_t rows = heads * config_.head_dim;
    if (tensor.shape.size() == 1) {
      std::vector<float> stored(static_cast<size_t>(rows));
      dequantize(tensor.type, tensor.bytes.data(), rows, stored.data());
      for (int64_t row = 0; row < rows; ++row) out[row_of(row)] = stored[static_cast<size_t>(row)];
      return;
    }
    int64_t columns = tensor.shape[1];
    size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(rows);
    for (int64_t row = 0; row < rows; ++row) {
      dequantize(tensor.type, tensor.bytes.data() + static_cast<size_t>(row) * row_bytes, columns,
                 out + row_of(row) * columns);
    }
  }

  std::vector<float> rope_divisors() const override { return divisors_; }
  void release_pages() const override { file_.release(); }
  std::string hash() const override {
    std::call_once(hashed_, [this] { hash_ = sha256(file_.file()); });
    return hash_;
  }
  uint64_t file_bytes() const override { return file_.file().size(); }

 private:
  struct Entry {
    const GgufTensor* tensor;
    /// 0: rows are in rotate-half order already.
    int64_t unpermute_heads;
  };

  /// Only files of the llama architecture are permuted for rotary pairs of adjacent channels.
  int64_t heads_to_unpermute(const std::string& name) const {
    if (config_.architecture != "llama") return 0;
    if (name.find(".q_proj.") != std::string::npos) return config_.query_heads;
    if (name.find(".k_proj.") != std::string::npos) return config_.kv_heads;
    return 0;
  }

  void read_divisors(const GgufTensor& tensor) {
    check_tensor({"rope_freqs.weight", {config_.head_dim / 2}}, tensor.shape, "rope_freqs.weight",
                 file_.origin());
    divisors_.resize(static_cast<size_t>(config_.head_dim / 2));
    dequantize(tensor.type, tensor.bytes.data(), tensor.numbers(), divisors_.data());
    for (float divisor : divisors_) {
      if (!(divisor > 0) || !std::isfinite(divisor)) {
        throw InputError(fmt::format("{}: 'rope_freqs.weight' holds {}, expected positive numbers",
                                     file_.origin(), divisor));
      }
    }
  }

  Gguf file_;
  ModelConfig config_;
  std::vector<std::string> names_;
  std::map<std::string, Entry, std::less<>> tensors_;
  std::vector<float> divisors_;
  mutable std::once_flag hashed_;
  mutable std::string hash_;
};

}  // namespace

std::unique_ptr<WeightSource> open_gguf_weights(Gguf file) {
  return std::make_unique<GgufSource>(std::move(file));
}

}  // namespace kvcost
