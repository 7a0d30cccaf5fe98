#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/cli/commands.h"
#include "src/harness/open_model.h"
#include "src/model/formats/sources.h"

namespace kvcost {
namespace {

struct InspectOptions {
  std::string model;
  int64_t length = 2048, scored = 1024;
  std::string dtype = "fp32";
  bool tensors = false;
};

/// What a run holds at its peak: weights, the full cache's keys, values and logits, and a row's own scratch.
double peak_bytes(const ModelConfig& config, const InspectOptions& options) {
  double weights = static_cast<double>(config.parameters()) * (options.dtype == "bf16" ? 2 : 4);
  double tokens = static_cast<double>(options.length), scored = static_cast<double>(options.scored);
  double kept = tokens * static_cast<double>(config.layers * config.cached_numbers_per_layer());
  double logits = scored * static_cast<double>(config.vocabulary + 4096);
  double widest =
      static_cast<double>(2 * config.intermediate + 4 * config.hidden +
                          2 * config.query_heads * config.head_dim + 4 * config.cached_numbers_per_layer());
  return weights + 4 * (kept + logits + tokens * widest);
}

void print_key_biases(const WeightSource& weights) {
  const ModelConfig& config = weights.config();
  if (!config.qkv_bias) {
    fmt::print("key bias: none\n");
    return;
  }
  std::vector<float> bias(static_cast<size_t>(config.kv_heads * config.head_dim));
  fmt::print("largest key bias, by layer:");
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    weights.read(fmt::format("model.layers.{}.self_attn.k_proj.bias", layer), bias.data());
    float largest = 0;
    for (float value : bias) largest = std::max(largest, std::fabs(value));
    fmt::print("{}{:.1f}", layer % 12 == 0 ? "\n  " : " ", largest);
  }
  fmt::print("\n");
}

void print_tensors(const WeightSource& weights, bool all) {
  std::map<std::string, int64_t> numbers;
  for (const std::string& name : weights.names()) {
    auto info = weights.find(name);
    if (!info) continue;
    numbers[info->dtype] += info->numbers();
    if (all) fmt::print("  {:50} {:6} {}\n", name, info->dtype, shape_text(info->shape));
  }
  std::string line;
  for (const auto& [dtype, count] : numbers) {
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", count, dtype);
  }
  fmt::print("numbers as stored: {} ({:.1f} MB of files)\n", line,
             static_cast<double>(weights.file_bytes()) / 1e6);
}

void inspect(const InspectOptions& options) {
  OpenedModel model = open_model(options.model);
  const ModelConfig& config = model.weights->config();
  fmt::print("{}: {}\n", options.model, model.path.string());
  fmt::print("architecture: {}, {} layers, hidden {}, MLP {}, vocabulary {}, output {}\n",
             config.architecture, config.layers, config.hidden, config.intermediate, config.vocabulary,
             config.tied_output ? "tied to the embedding" : "of its own");
  fmt::print("attention: {} query heads, {} KV heads of {}{}{}\n", config.query_heads, config.kv_heads,
             config.head_dim, config.qkv_bias ? ", QKV bias" : "", config.qk_norm ? ", QK norm" : "");
  fmt::print("rotary: theta {}, {}; trained on {} positions{}\n", config.rope.theta, config.rope.type,
             config.max_positions,
             config.sliding_window ? fmt::format(", own window {}", *config.sliding_window) : "");
  fmt::print("parameters: {}\n", config.parameters());
  print_tensors(*model.weights, options.tensors);
  fmt::print("tokenizer: {}{}\n", model.tokenizer->describe(),
             model.tokenizer->default_bos()
                 ? fmt::format(", BOS {} by default", *model.tokenizer->default_bos())
                 : ", no BOS by default");
  fmt::print("KV cache at 16 bits: {} bytes a token\n",
             config.layers * config.cached_numbers_per_layer() * 2);
  print_key_biases(*model.weights);
  fmt::print("a run's peak memory, windows of {} with {} scored, {}: about {:.1f} GB\n", options.length,
             options.scored, options.dtype, peak_bytes(config, options) / 1e9);
  fmt::print("weights sha256: {}\ntokenizer sha256: {}\n", model.weights->hash(), model.tokenizer->hash());
}

}  // namespace

void register_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show a model's shapes, tokenizer, cache size and memory");
  command->add_option("MODEL", options->model, "A name, a folder or a .gguf file")->required();
  command->add_option("--length", options->length, "Window length for the memory estimate")
      ->check(CLI::Range(int64_t{2}, int64_t{1048576}))
      ->capture_default_str();
  command->add_option("--scored", options->scored, "Scored tokens for the memory estimate")
      ->check(CLI::Range(int64_t{1}, int64_t{1048575}))
      ->capture_default_str();
  command->add_option("--dtype", options->dtype, "fp32 or bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  command->add_flag("--tensors", options->tensors, "List every tensor");
  command->callback([options] { inspect(*options); });
}

}  // namespace kvcost
