#include "src/model/formats/weight_source.h"

#include <gtest/gtest.h>

#include <thread>

#include "src/base/file.h"
#include "tests/formats/expect_error.h"
#include "tests/formats/tiny_models.h"

namespace kvcost {
namespace {

using tiny::make_model;
using tiny::Model;

/// Every tensor of `model`, and no other, is read as it was written.
void expect_same(const WeightSource& source, const Model& model) {
  EXPECT_EQ(source.names().size(), model.tensors.size());
  for (const std::string& name : source.names()) {
    auto made = model.tensors.find(name);
    ASSERT_NE(made, model.tensors.end()) << name;
    auto info = source.find(name);
    ASSERT_TRUE(info) << name;
    EXPECT_EQ(info->shape, made->second.shape) << name;
    std::vector<float> values(static_cast<size_t>(info->numbers()));
    source.read(name, values.data());
    EXPECT_EQ(values, made->second.values) << name;
  }
  EXPECT_FALSE(source.find("model.layers.99.mlp.up_proj.weight"));
}

}  // namespace

class EveryArchitecture : public testing::TestWithParam<std::string> {};

TEST_P(EveryArchitecture, IsReadFromAFolder) {
  for (const char* dtype : {"F32", "F16", "BF16"}) {
    for (bool tied : {false, true}) {
      Model model = make_model(GetParam(), tied);
      auto source = open_weights(write_folder(model, "folder_" + GetParam(), dtype));
      expect_same(*source, model);
      EXPECT_EQ(source->find("model.norm.weight")->dtype, dtype);
      EXPECT_EQ(source->config().tied_output, tied);
    }
  }
}

TEST_P(EveryArchitecture, IsReadFromShards) {
  Model model = make_model(GetParam());
  expect_same(*open_weights(write_shards(model, "shards_" + GetParam(), 3)), model);
}

INSTANTIATE_TEST_SUITE_P(Architectures, EveryArchitecture,
                         testing::Values("llama", "mistral", "qwen2", "qwen3"));

class EveryGgufArchitecture : public testing::TestWithParam<std::string> {};

// Queries and keys come back in rotate-half order, whether the architecture's files permute them or not.
TEST_P(EveryGgufArchitecture, IsReadFromGguf) {
  for (bool tied : {false, true}) {
    Model model = make_model(GetParam(), tied);
    auto source = open_weights(write_gguf(model, "gguf_" + GetParam()));
    expect_same(*source, model);
    EXPECT_EQ(source->find("model.layers.0.mlp.up_proj.weight")->dtype, "F16");
    EXPECT_TRUE(source->rope_divisors().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, EveryGgufArchitecture, testing::Values("llama", "qwen2", "qwen3"));

TEST(GgufWeights, UnpermutesBiasesToo) {
  Model model = make_model("qwen2");
  model.architecture = "llama";
  auto source = open_weights(write_gguf(model, "gguf_bias"));
  EXPECT_TRUE(source->config().qkv_bias);
  expect_same(*source, model);
}

TEST(GgufWeights, ReadsRotaryDivisors) {
  Model model = make_model("llama");
  tiny::GgufBuilder file;
  set_config(file, model);
  add_tensors(file, model);
  tiny::GgufBuilder wrong = file, zero = file;
  file.add("rope_freqs.weight", {3}, 0, tiny::encode({1, 2, 8}, "F32"));
  EXPECT_EQ(open_weights(write_gguf(file, "divisors"))->rope_divisors(), (std::vector<float>{1, 2, 8}));
  wrong.add("rope_freqs.weight", {2}, 0, tiny::encode({1, 2}, "F32"));
  expect_error([&] { open_weights(write_gguf(wrong, "divisors")); },
               {"'rope_freqs.weight' is [2], the config needs [3]"});
  zero.add("rope_freqs.weight", {3}, 0, tiny::encode({1, 0, 2}, "F32"));
  expect_error([&] { open_weights(write_gguf(zero, "divisors")); }, {"'rope_freqs.weight' holds 0"});
}

TEST(GgufWeights, NamesWhatIsWrong) {
  for (const auto& [name, tensor] : make_model("qwen2").tensors) {
    if (name == "lm_head.weight") continue;  // absent means tied
    Model model = make_model("qwen2");
    model.tensors.erase(name);
    expect_error([&] { open_weights(write_gguf(model, "missing")); },
                 {"model.gguf", "'" + tiny::gguf_tensor_name(name) + "' is missing"});
  }
  Model model = make_model("qwen2");
  model.tensors["model.layers.1.mlp.up_proj.weight"].shape = {24, 10};
  expect_error([&] { open_weights(write_gguf(model, "shape")); },
               {"'blk.1.ffn_up.weight' is [24, 10], the config needs [10, 24]"});
  model = make_model("llama");
  model.tensors["model.layers.0.self_attn.o_proj.bias"] = {{1}, {1}};
  expect_error([&] { open_weights(write_gguf(model, "extra")); },
               {"'blk.0.attn_output.bias' is no part of a llama model of 2 layers"});
}

TEST(FolderWeights, NamesEveryMissingTensor) {
  for (const auto& [name, tensor] : make_model("qwen3").tensors) {
    Model model = make_model("qwen3");
    model.tensors.erase(name);
    expect_error([&] { open_weights(write_folder(model, "missing")); },
                 {"model.safetensors", "'" + name + "' is missing"});
    expect_error([&] { open_weights(write_shards(model, "missing_shards", 2)); },
                 {"model.safetensors.index.json", "'" + name + "' is missing"});
  }
}

TEST(FolderWeights, NamesWhatIsWrong) {
  Model model = make_model("llama");
  model.config["vocab_size"] = 8;
  expect_error([&] { open_weights(write_folder(model, "wrong")); },
               {"'model.embed_tokens.weight' is [7, 24], the config needs [8, 24]"});
  model = make_model("llama");
  model.tensors["model.layers.0.self_attn.q_proj.bias"] = {{24}, std::vector<float>(24)};
  expect_error([&] { open_weights(write_folder(model, "wrong")); },
               {"'model.layers.0.self_attn.q_proj.bias' is no part of a llama model"});

  auto folder = write_folder(make_model("llama"), "wrong");
  std::string header =
      R"({"model.embed_tokens.weight":{"dtype":"U8","shape":[7,24],"data_offsets":[0,168]}})";
  tiny::write_file(folder / "model.safetensors", tiny::safetensors(header, std::string(168, 'x')));
  expect_error([&] { open_weights(folder); },
               {"'model.embed_tokens.weight' is U8, expected F32, F16 or BF16"});

  std::filesystem::remove(folder / "model.safetensors");
  expect_error([&] { open_weights(folder); }, {"neither model.safetensors nor model.safetensors.index.json"});
  std::filesystem::remove(folder / "config.json");
  expect_error([&] { open_weights(folder); }, {"no config.json"});
  expect_error([&] { open_weights(folder / "absent"); }, {"absent: no such model"});
  tiny::write_file(folder / "text.gguf", "hello");
  expect_error([&] { open_weights(folder / "text.gguf"); }, {"text.gguf: not a GGUF file"});
}

TEST(FolderWeights, ChecksTheIndex) {
  Model model = make_model("llama");
  auto folder = write_shards(model, "index", 2);
  // Neither a file that the index does not name nor a tensor it does not place matters.
  tiny::write_file(folder / "consolidated.safetensors", "not even a safetensors file");
  expect_same(*open_weights(folder), model);

  auto index = nlohmann::json::parse(read_text(folder / "model.safetensors.index.json"));
  auto rewrite = [&](const std::string& tensor, const nlohmann::json& shard) {
    auto changed = index;
    changed["weight_map"][tensor] = shard;
    tiny::write_file(folder / "model.safetensors.index.json", changed.dump());
  };
  rewrite("model.norm.weight", "part-7.safetensors");
  expect_error([&] { open_weights(folder); }, {"index.json: names 'part-7.safetensors', which is not there"});
  rewrite("model.norm.weight", "../secret.safetensors");
  expect_error([&] { open_weights(folder); }, {"'model.norm.weight' is not the name of a file beside it"});
  rewrite("model.norm.weight", 7);
  expect_error([&] { open_weights(folder); }, {"'model.norm.weight' is not the name of a file beside it"});
  std::string there = index["weight_map"]["model.norm.weight"];
  rewrite("model.norm.weight", there == "part-0.safetensors" ? "part-1.safetensors" : "part-0.safetensors");
  expect_error([&] { open_weights(folder); }, {"tensor 'model.norm.weight' is missing, though"});
  tiny::write_file(folder / "model.safetensors.index.json", "{}");
  expect_error([&] { open_weights(folder); }, {"weight_map is missing"});
}

TEST(Weights, ManyThreadsReadTheSame) {
  Model model = make_model("llama");
  auto source = open_weights(write_gguf(model, "threads"));
  std::vector<int> good(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      std::string hash = source->hash();
      for (int repeat = 0; repeat < 20; ++repeat) {
        for (const auto& [name, tensor] : model.tensors) {
          std::vector<float> values(tensor.values.size());
          source->read(name, values.data());
          if (values != tensor.values || source->hash() != hash) return;
        }
        source->release_pages();
      }
      good[t] = 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(4, 1));
}

TEST(Weights, TheHashIsOfTheContent) {
  Model model = make_model("llama");
  auto path = write_gguf(model, "hash");
  EXPECT_EQ(open_weights(path)->hash(), sha256(read_text(path)));
  EXPECT_EQ(open_weights(path)->file_bytes(), std::filesystem::file_size(path));
  std::string folder = open_weights(write_folder(model, "hash_a"))->hash();
  EXPECT_EQ(open_weights(write_folder(model, "hash_b"))->hash(), folder);
  model.tensors["model.norm.weight"].values[0] += 1;
  std::string weights = open_weights(write_folder(model, "hash_a"))->hash();
  EXPECT_NE(weights, folder);
  model.config["rope_theta"] = 20000.0;
  EXPECT_NE(open_weights(write_folder(model, "hash_a"))->hash(), weights);
}

}  // namespace kvcost
