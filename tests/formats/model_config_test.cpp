#include "src/model/formats/model_config.h"

#include <gtest/gtest.h>

#include "src/model/formats/read_config.h"
#include "tests/formats/expect_error.h"
#include "tests/formats/tiny_models.h"

namespace kvcost {
namespace {

using nlohmann::json;

// What the published config.json files say, less the keys that change no number.
const char* const kLlama2 =
    R"({"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
  "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": null, "tie_word_embeddings": false, "torch_dtype": "float16",
  "transformers_version": "4.31.0.dev0", "vocab_size": 32000})";
const char* const kLlama31 = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
  "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 131072,
  "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0,
  "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
  "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": false,
  "transformers_version": "4.42.3", "vocab_size": 128256})";
const char* const kTinyLlama = R"({"attention_bias": false, "hidden_act": "silu", "hidden_size": 2048,
  "intermediate_size": 5632, "max_position_embeddings": 2048, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 22, "num_key_value_heads": 4, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "rope_theta": 10000.0, "tie_word_embeddings": false, "transformers_version": "4.35.0", "vocab_size": 32000})";
const char* const kSmolLM2 = R"({"attention_bias": false, "hidden_act": "silu", "hidden_size": 576,
  "intermediate_size": 1536, "is_llama_config": true, "max_position_embeddings": 8192, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
  "rms_norm_eps": 1e-05, "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000,
  "tie_word_embeddings": true, "transformers_version": "4.42.3", "vocab_size": 49152})";
const char* const kMistral1 = R"({"hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
  "tie_word_embeddings": false, "transformers_version": "4.34.0.dev0", "vocab_size": 32000})";
const char* const kNemo = R"({"head_dim": 128, "hidden_act": "silu", "hidden_size": 5120,
  "intermediate_size": 14336, "max_position_embeddings": 131072, "model_type": "mistral",
  "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
  "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false,
  "transformers_version": "4.43.0.dev0", "vocab_size": 131072})";
const char* const kQwen25 = R"({"attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 896,
  "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2",
  "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
  "transformers_version": "4.40.1", "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936})";
const char* const kQwen3 = R"({"attention_bias": false, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28,
  "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
  "tie_word_embeddings": true, "transformers_version": "4.51.0", "use_sliding_window": false,
  "vocab_size": 151936})";

ModelConfig parse(const json& config) { return parse_hf_config(config.dump(), "config.json"); }

json changed(const char* text, const char* key, const json& value) {
  json config = json::parse(text);
  config[key] = value;
  return config;
}

json without(const char* text, const char* key) {
  json config = json::parse(text);
  EXPECT_EQ(config.erase(key), 1U) << key;
  return config;
}

}  // namespace

struct Published {
  const char* name;
  const char* config;
  int64_t parameters, head_dim;
  double theta;
};

class PublishedConfig : public testing::TestWithParam<Published> {};

// Parameter counts: those of the published weights.
TEST_P(PublishedConfig, IsRead) {
  const Published& model = GetParam();
  ModelConfig config = parse_hf_config(model.config, "config.json");
  EXPECT_EQ(config.parameters(), model.parameters);
  EXPECT_EQ(config.head_dim, model.head_dim);
  EXPECT_EQ(config.rope.theta, model.theta);
  EXPECT_EQ(config.qkv_bias, config.architecture == "qwen2");
  EXPECT_EQ(config.qk_norm, config.architecture == "qwen3");
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedConfig,
                         testing::Values(Published{"Llama2", kLlama2, 6738415616, 128, 10000},
                                         Published{"Llama31", kLlama31, 8030261248, 128, 500000},
                                         Published{"TinyLlama", kTinyLlama, 1100048384, 64, 10000},
                                         Published{"SmolLM2", kSmolLM2, 134515008, 64, 100000},
                                         Published{"Mistral", kMistral1, 7241732096, 128, 10000},
                                         Published{"Nemo", kNemo, 12247782400, 128, 1000000},
                                         Published{"Qwen25", kQwen25, 494032768, 64, 1000000},
                                         Published{"Qwen3", kQwen3, 596049920, 128, 1000000}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(HfConfig, ReadsLlama3Scaling) {
  ModelConfig config = parse_hf_config(kLlama31, "config.json");
  EXPECT_EQ(config.rope.type, "llama3");
  EXPECT_EQ(config.rope.factor, 8);
  EXPECT_EQ(config.rope.low_freq_factor, 1);
  EXPECT_EQ(config.rope.high_freq_factor, 4);
  EXPECT_EQ(config.rope.original_max_positions, 8192);
}

TEST(HfConfig, ReadsBothTransformersGenerations) {
  json newer = without(kLlama31, "rope_scaling");
  newer.erase("rope_theta");
  newer["rope_parameters"] = json::parse(kLlama31)["rope_scaling"];
  newer["rope_parameters"]["rope_theta"] = 500000.0;
  ModelConfig from_newer = parse(newer), from_older = parse_hf_config(kLlama31, "config.json");
  EXPECT_EQ(from_newer.rope.theta, from_older.rope.theta);
  EXPECT_EQ(from_newer.rope.type, from_older.rope.type);
  EXPECT_EQ(from_newer.rope.factor, from_older.rope.factor);

  json oldest = json::parse(kLlama31);
  oldest["rope_scaling"].erase("rope_type");
  oldest["rope_scaling"]["type"] = "llama3";
  EXPECT_EQ(parse(oldest).rope.type, "llama3");

  json plain = without(kQwen25, "rope_theta");
  plain["rope_parameters"] = {{"rope_theta", 7.5}, {"rope_type", "default"}};
  EXPECT_EQ(parse(plain).rope.theta, 7.5);
  plain["rope_theta"] = 7.5;
  EXPECT_EQ(parse(plain).rope.theta, 7.5);
  plain["rope_theta"] = 8;
  expect_error([&] { parse(plain); }, {"config.json", "rope_theta is 8 at the top and 7.5 inside"});
}

TEST(HfConfig, TakesTheDefaultsThatTheClassesDocument) {
  EXPECT_EQ(parse(without(kLlama2, "num_key_value_heads")).kv_heads, 32);
  EXPECT_FALSE(parse(without(kSmolLM2, "tie_word_embeddings")).tied_output);
  EXPECT_EQ(parse(changed(kLlama2, "head_dim", nullptr)).head_dim, 128);
  EXPECT_EQ(parse(changed(kLlama2, "head_dim", 64)).head_dim, 64);
  for (const char* config : {kMistral1, kQwen25, kQwen3}) {
    expect_error([&] { parse(without(config, "num_key_value_heads")); }, {"num_key_value_heads is missing"});
  }
  expect_error([&] { parse(without(kQwen3, "head_dim")); }, {"head_dim is missing"});
  // Only configs older than the setting may leave it out.
  expect_error([&] { parse(without(kTinyLlama, "rope_theta")); }, {"rope_theta is missing"});
  expect_error([&] { parse(without(kQwen25, "rope_theta")); }, {"rope_theta is missing"});
}

TEST(HfConfig, SlidingWindows) {
  EXPECT_EQ(parse_hf_config(kMistral1, "c").sliding_window, 4096);
  EXPECT_FALSE(parse_hf_config(kNemo, "c").sliding_window);
  expect_error([&] { parse(without(kMistral1, "sliding_window")); }, {"sliding_window is missing"});
  EXPECT_FALSE(parse_hf_config(kQwen25, "c").sliding_window);
  json used = changed(kQwen25, "use_sliding_window", true);
  EXPECT_FALSE(parse(used).sliding_window) << "max_window_layers is the number of layers";
  used["max_window_layers"] = 23;
  EXPECT_EQ(parse(used).sliding_window, 32768);
}

TEST(HfConfig, NamesEveryMissingSetting) {
  for (const char* key : {"model_type", "hidden_act", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "vocab_size", "max_position_embeddings", "rms_norm_eps"}) {
    expect_error([&] { parse(without(kLlama31, key)); }, {"config.json", std::string(key) + " is missing"});
    expect_error([&] { parse(changed(kLlama31, key, nullptr)); }, {std::string(key) + " is missing"});
  }
  for (const char* key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "rope_type"}) {
    json config = json::parse(kLlama31);
    config["rope_scaling"].erase(key);
    expect_error([&] { parse(config); }, {"rope_scaling." + std::string(key) + " is missing"});
  }
}

struct BadSetting {
  const char* key;
  json value;
  std::string part;
};

TEST(HfConfig, RefusesByName) {
  const std::vector<BadSetting> cases{
      {"model_type", "gemma2", "architecture 'gemma2' is not supported"},
      {"model_type", 7, "model_type is 7, expected a string"},
      {"hidden_act", "gelu", "hidden_act is \"gelu\", expected silu"},
      {"attention_bias", true, "attention_bias is true"},
      {"attention_bias", "no", "attention_bias is \"no\", expected true or false"},
      {"mlp_bias", true, "mlp_bias is true"},
      {"rope_interleaved", true, "rope_interleaved is true"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor is 0.5"},
      {"quantization_config", {{"quant_method", "gptq"}}, "quantization_config is \"gptq\""},
      {"hidden_size", "4096", "hidden_size is \"4096\", expected an integer"},
      {"hidden_size", 4096.5, "hidden_size is 4096.5"},
      {"hidden_size", -4096, "hidden size is -4096"},
      {"hidden_size", 0, "hidden size is 0"},
      {"hidden_size", UINT64_MAX, "hidden_size is 18446744073709551615"},
      {"hidden_size", 100, "is not a multiple of 32 attention heads"},
      {"num_hidden_layers", 1000000000, "number of layers is 1000000000"},
      {"num_attention_heads", 0, "0 attention heads"},
      {"num_key_value_heads", 5, "32 attention heads are not a multiple of 5"},
      {"num_key_value_heads", 0, "key-value heads is 0"},
      {"head_dim", 7, "head dimension is 7, expected an even number"},
      {"vocab_size", int64_t{1} << 60, "vocabulary size is"},
      {"rms_norm_eps", 0, "epsilon is 0"},
      {"rms_norm_eps", "tiny", "rms_norm_eps is \"tiny\""},
      {"rope_theta", -1, "rotary base is -1"},
      {"rope_scaling", "linear", "rope_scaling is \"linear\", expected an object"},
      {"rope_scaling", {{"type", "yarn"}, {"factor", 4}}, "rotary type 'yarn' is not supported"},
      {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 4}}, "rotary type 'dynamic'"},
      {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4}}, "rotary type 'linear'"},
      {"rope_scaling", {{"rope_type", "longrope"}}, "rotary type 'longrope'"},
      {"rope_scaling", {{"type", "default"}, {"mrope_section", {16, 24, 24}}}, "mrope_section"},
      {"tie_word_embeddings", 1, "tie_word_embeddings is 1"},
  };
  for (const BadSetting& bad : cases) {
    SCOPED_TRACE(bad.key + std::string(": ") + bad.value.dump());
    json config = changed(kLlama31, bad.key, bad.value);
    if (std::string(bad.key) == "hidden_size") config.erase("head_dim");
    expect_error([&] { parse(config); }, {"config.json", bad.part});
  }
  expect_error([] { parse_hf_config("{", "config.json"); }, {"config.json: not valid JSON"});
  expect_error([] { parse_hf_config("[]", "config.json"); }, {"expected a JSON object"});
  expect_error([] { parse_hf_config(R"({"model_type": "llama", "model_type": "qwen2"})", "config.json"); },
               {"'model_type' is there twice"});
  expect_error([] { parse_hf_config(R"({"rope_theta": 1e999})", "config.json"); }, {"no double can hold"});
}

namespace {

ModelConfig parse_gguf(const tiny::GgufBuilder& file) {
  std::string bytes = file.bytes();
  return gguf_config(Gguf::parse(std::as_bytes(std::span(bytes)), "model.gguf"));
}

tiny::GgufBuilder gguf_of(const tiny::Model& model, const std::string& without = "") {
  tiny::GgufBuilder file;
  tiny::set_config(file, model, without);
  tiny::add_tensors(file, model);
  return file;
}

}  // namespace

class GgufConfig : public testing::TestWithParam<std::string> {};

TEST_P(GgufConfig, SaysWhatTheFolderSays) {
  for (bool tied : {false, true}) {
    tiny::Model model = tiny::make_model(GetParam(), tied);
    ModelConfig file = parse_gguf(gguf_of(model)), folder = parse(model.config);
    EXPECT_EQ(file.architecture, folder.architecture);
    EXPECT_EQ(file.layers, folder.layers);
    EXPECT_EQ(file.hidden, folder.hidden);
    EXPECT_EQ(file.intermediate, folder.intermediate);
    EXPECT_EQ(file.query_heads, folder.query_heads);
    EXPECT_EQ(file.kv_heads, folder.kv_heads);
    EXPECT_EQ(file.head_dim, folder.head_dim);
    EXPECT_EQ(file.vocabulary, folder.vocabulary);
    EXPECT_EQ(file.max_positions, folder.max_positions);
    EXPECT_EQ(file.norm_eps, folder.norm_eps);
    EXPECT_EQ(file.rope.theta, folder.rope.theta);
    EXPECT_EQ(file.qkv_bias, folder.qkv_bias);
    EXPECT_EQ(file.qk_norm, folder.qk_norm);
    EXPECT_EQ(file.tied_output, tied);
    EXPECT_EQ(file.parameters(), folder.parameters());
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, GgufConfig, testing::Values("llama", "qwen2", "qwen3"));

TEST(GgufConfigErrors, NamesEveryMissingSetting) {
  tiny::Model model = tiny::make_model("llama");
  for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length",
                          "attention.head_count", "attention.layer_norm_rms_epsilon", "rope.freq_base"}) {
    expect_error([&] { parse_gguf(gguf_of(model, key)); },
                 {"model.gguf", "'llama." + std::string(key) + "' is missing"});
  }
  expect_error([&] { parse_gguf(gguf_of(model, "general.architecture")); },
               {"'general.architecture' is missing"});
  tiny::GgufBuilder old = gguf_of(model, "rope.freq_base");
  old.version = 2;
  EXPECT_EQ(parse_gguf(old).rope.theta, 10000);
}

TEST(GgufConfigErrors, RefusesByName) {
  tiny::Model model = tiny::make_model("llama");
  auto refuse = [&](auto change, const std::string& part) {
    tiny::GgufBuilder file = gguf_of(model);
    change(file);
    expect_error([&] { parse_gguf(file); }, {"model.gguf", part});
  };
  using Builder = tiny::GgufBuilder;
  refuse([](Builder& f) { f.set_string("llama.rope.scaling.type", "yarn"); }, "scaling type 'yarn'");
  refuse(
      [](Builder& f) {
        f.set_string("llama.rope.scaling.type", "linear"), f.set_f32("llama.rope.scaling.factor", 4);
      },
      "'linear' is not supported");
  refuse([](Builder& f) { f.set_f32("llama.rope.scale_linear", 2); }, "linear rotary scaling by 2");
  refuse([](Builder& f) { f.set_u32("llama.rope.dimension_count", 4); }, "rope.dimension_count' is 4");
  refuse([](Builder& f) { f.set_u32("llama.attention.value_length", 4); }, "value_length' is 4");
  refuse([](Builder& f) { f.set_u32("llama.expert_count", 8); }, "'llama.expert_count'");
  refuse([](Builder& f) { f.set_f32("llama.logit_scale", 2); }, "'llama.logit_scale'");
  refuse([](Builder& f) { f.set_u32("llama.vocab_size", 9); }, "has 7 rows, but 'llama.vocab_size' is 9");
  refuse([](Builder& f) { f.set("split.count", 2, uint16_t{2}); }, "split GGUF");
  refuse([](Builder& f) { f.set_bool("llama.attention.causal", false); }, "'llama.attention.causal'");
  model.architecture = "gemma";
  refuse([](Builder&) {}, "architecture 'gemma' is not supported, expected one of llama, qwen2, qwen3");
}

}  // namespace kvcost
