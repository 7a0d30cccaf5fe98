#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/model/formats/read_config.h"
#include "src/model/formats/read_json.h"

namespace kvcost {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kArchitectures{"llama", "mistral", "qwen2", "qwen3"};

/// One JSON object of the config; null counts as absent, as it does in transformers.
class Section {
 public:
  Section(const Json& object, std::string prefix, const std::string& origin)
      : object_(object), prefix_(std::move(prefix)), origin_(origin) {}

  const Json* find(const char* key) const {
    auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  /// Present, though perhaps null.
  bool states(const char* key) const { return object_.contains(key); }

  std::optional<int64_t> integer(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer()) throw wrong(key, *value, "an integer");
    if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      throw wrong(key, *value, "a smaller integer");
    }
    return value->get<int64_t>();
  }
  std::optional<double> number(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) throw wrong(key, *value, "a number");
    return value->get<double>();
  }
  std::optional<bool> boolean(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) throw wrong(key, *value, "true or false");
    return value->get<bool>();
  }
  std::optional<std::string> string(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) throw wrong(key, *value, "a string");
    return value->get<std::string>();
  }
  std::optional<Section> section(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_object()) throw wrong(key, *value, "an object");
    return Section(*value, prefix_ + key + ".", origin_);
  }
  template <class T>
  T need(const char* key, const std::optional<T>& value) const {
    if (!value) throw InputError(fmt::format("{}: {}{} is missing", origin_, prefix_, key));
    return *value;
  }
  int64_t need_integer(const char* key) const { return need(key, integer(key)); }
  double need_number(const char* key) const { return need(key, number(key)); }

  InputError wrong(const char* key, const Json& found, std::string_view expected) const {
    std::string text = found.dump(-1, ' ', false, Json::error_handler_t::replace);
    return InputError(
        fmt::format("{}: {}{} is {}, expected {}", origin_, prefix_, key, printable(text), expected));
  }
  InputError unsupported(const char* key, std::string_view expected) const {
    return wrong(key, *object_.find(key), expected);
  }

 private:
  const Json& object_;
  std::string prefix_;
  const std::string& origin_;
};

/// Whether the config was written before transformers 4.33, when the Llama class got its rope_theta setting.
bool written_before_rope_theta(const Section& config) {
  std::optional<std::string> version = config.string("transformers_version");
  int major = 0, minor = 0;
  return version && std::sscanf(version->c_str(), "%d.%d", &major, &minor) == 2 &&
         (major < 4 || (major == 4 && minor < 33));
}

RopeConfig read_rope(const Section& config, const std::string& architecture, const std::string& origin) {
  RopeConfig rope;
  const Json *newer = config.find("rope_parameters"), *older = config.find("rope_scaling");
  if (newer != nullptr && older != nullptr && *newer != *older) {
    throw config.wrong("rope_scaling", *older, "the same as rope_parameters");
  }
  std::optional<Section> parameters = config.section(newer != nullptr ? "rope_parameters" : "rope_scaling");

  std::optional<double> outer = config.number("rope_theta");
  std::optional<double> inner = parameters ? parameters->number("rope_theta") : std::nullopt;
  if (outer && inner && *outer != *inner) {
    throw InputError(fmt::format("{}: rope_theta is {} at the top and {} inside", origin, *outer, *inner));
  }
  if (inner) outer = inner;
  if (!outer && architecture == "llama" && written_before_rope_theta(config)) outer = 10000.0;
  rope.theta = config.need("rope_theta", outer);

  if (!parameters) return rope;
  std::optional<std::string> type = parameters->string("rope_type");
  if (!type) type = parameters->string("type");
  rope.type = parameters->need("rope_type", type);
  if (rope.type != "default" && rope.type != "llama3") {
    throw InputError(fmt::format("{}: rotary type '{}' is not supported, expected default or llama3", origin,
                                 printable(rope.type)));
  }
  if (rope.type == "llama3") {
    rope.factor = parameters->need_number("factor");
    rope.low_freq_factor = parameters->need_number("low_freq_factor");
    rope.high_freq_factor = parameters->need_number("high_freq_factor");
    rope.original_max_positions = parameters->need_integer("original_max_position_embeddings");
  }
  for (const char* key : {"partial_rotary_factor", "attention_factor"}) {
    if (parameters->number(key).value_or(1.0) != 1.0) throw parameters->unsupported(key, "1");
  }
  if (parameters->states("mrope_section")) throw parameters->unsupported("mrope_section", "none");
  return rope;
}

/// Settings that would change the numbers in ways the decoder does not know.
void refuse_unsupported(const Section& config) {
  for (const char* key : {"attention_bias", "mlp_bias", "rope_interleaved", "use_mrope"}) {
    if (config.boolean(key).value_or(false)) throw config.unsupported(key, "false (not supported)");
  }
  if (config.number("partial_rotary_factor").value_or(1.0) != 1.0) {
    throw config.unsupported("partial_rotary_factor", "1");
  }
  if (const Json* found = config.find("quantization_config")) {
    auto method = found->is_object() ? found->value("quant_method", Json("unknown")) : Json("unknown");
    throw config.wrong("quantization_config", method, "none (plain F32, F16 or BF16 weights)");
  }
  std::optional<std::string> activation = config.string("hidden_act");
  if (config.need("hidden_act", activation) != "silu") throw config.unsupported("hidden_act", "silu");
}

std::optional<int64_t> read_sliding_window(const Section& config, const std::string& architecture,
                                           int64_t layers) {
  if (architecture == "llama") return std::nullopt;
  std::optional<int64_t> window = config.integer("sliding_window");
  if (architecture == "mistral") {
    // The class default is 4096, which only the first Mistral had: a config that says nothing is unclear.
    if (!config.states("sliding_window")) (void)config.need("sliding_window", window);
    return window;
  }
  if (!config.boolean("use_sliding_window").value_or(false)) return std::nullopt;
  if (config.need_integer("max_window_layers") >= layers) return std::nullopt;
  return config.need("sliding_window", window);
}

ModelConfig read_config(const Section& config, const std::string& origin) {
  ModelConfig model;
  model.architecture = config.need("model_type", config.string("model_type"));
  const std::string& architecture = model.architecture;
  if (std::find(kArchitectures.begin(), kArchitectures.end(), architecture) == kArchitectures.end()) {
    throw InputError(
        fmt::format("{}: architecture '{}' is not supported, expected one of llama, mistral, qwen2, qwen3",
                    origin, printable(architecture)));
  }
  refuse_unsupported(config);
  model.layers = config.need_integer("num_hidden_layers");
  model.hidden = config.need_integer("hidden_size");
  model.intermediate = config.need_integer("intermediate_size");
  model.query_heads = config.need_integer("num_attention_heads");
  model.vocabulary = config.need_integer("vocab_size");
  model.max_positions = config.need_integer("max_position_embeddings");
  model.norm_eps = config.need_number("rms_norm_eps");

  // What the classes of transformers document for a key that is absent: only Llama has as many KV heads as
  // query heads, and only Qwen3 does not divide the hidden size.
  std::optional<int64_t> kv_heads = config.integer("num_key_value_heads");
  if (!kv_heads && architecture == "llama") kv_heads = model.query_heads;
  model.kv_heads = config.need("num_key_value_heads", kv_heads);
  std::optional<int64_t> head_dim = config.integer("head_dim");
  if (!head_dim && architecture != "qwen3") {
    if (model.query_heads < 1 || model.hidden % model.query_heads != 0) {
      throw InputError(
          fmt::format("{}: hidden_size {} is not a multiple of {} attention heads, and head_dim is missing",
                      origin, model.hidden, model.query_heads));
    }
    head_dim = model.hidden / model.query_heads;
  }
  model.head_dim = config.need("head_dim", head_dim);
  model.tied_output = config.boolean("tie_word_embeddings").value_or(false);

  model.qkv_bias = architecture == "qwen2";
  model.qk_norm = architecture == "qwen3";
  model.rope = read_rope(config, architecture, origin);
  model.sliding_window = read_sliding_window(config, architecture, model.layers);
  check_config(model, origin);
  return model;
}

}  // namespace

ModelConfig parse_hf_config(std::string_view json, const std::string& origin) {
  Json root = read_json(json, origin);
  if (!root.is_object()) throw InputError(fmt::format("{}: expected a JSON object", origin));
  return read_config(Section(root, "", origin), origin);
}

}  // namespace kvcost
