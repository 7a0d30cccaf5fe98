#include "src/model/formats/safetensors.h"

#include <gtest/gtest.h>

#include "tests/formats/expect_error.h"
#include "tests/formats/tiny_models.h"

namespace kvcost {
namespace {

std::span<const std::byte> view(const std::string& text) { return std::as_bytes(std::span(text)); }

SafetensorsWriter sample() {
  SafetensorsWriter writer;
  writer.set_metadata("row", "\"keys\": {\"bits\": 4} \xC3\xA9");
  writer.add<float>("losses", {2, 3}, std::vector<float>{1, 2, 3, 4, 5, -0.5F});
  writer.add<uint8_t>("flags", {1, 0, 255});
  writer.add<double>("mean", {}, std::vector<double>{0.1});
  writer.add<int32_t>("ids", {7, -7});
  writer.add<int64_t>("counts", {INT64_MIN, 9});
  writer.add<float>("none", {0, 4}, std::span<const float>());
  std::vector<uint16_t> half{0x3f80, 0xc000};
  writer.add_bytes("bf16", "BF16", {2}, std::as_bytes(std::span(half)));
  return writer;
}

}  // namespace

TEST(Safetensors, ReadsBackWhatItWrites) {
  auto folder = tiny::fresh_folder("safetensors");
  sample().write(folder / "unit.safetensors");
  auto file = SafetensorsFile::open(folder / "unit.safetensors");
  EXPECT_EQ(file.names().size(), 7U);
  EXPECT_EQ(file.metadata().at("row"), "\"keys\": {\"bits\": 4} \xC3\xA9");
  EXPECT_EQ(file.tensor("losses").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.numbers<float>("losses"), (std::vector<float>{1, 2, 3, 4, 5, -0.5F}));
  EXPECT_EQ(file.numbers<uint8_t>("flags"), (std::vector<uint8_t>{1, 0, 255}));
  EXPECT_EQ(file.numbers<double>("mean"), std::vector<double>{0.1});
  EXPECT_TRUE(file.tensor("mean").shape.empty());
  EXPECT_EQ(file.numbers<int32_t>("ids"), (std::vector<int32_t>{7, -7}));
  EXPECT_EQ(file.numbers<int64_t>("counts"), (std::vector<int64_t>{INT64_MIN, 9}));
  EXPECT_TRUE(file.numbers<float>("none").empty());
  EXPECT_EQ(file.tensor("bf16").dtype, "BF16");
  EXPECT_EQ(file.bytes("bf16").size(), 4U);
  EXPECT_EQ(file.find("absent"), nullptr);
  expect_error([&] { file.numbers<float>("loses"); }, {"unit.safetensors", "'loses'", "'losses'"});
  expect_error([&] { file.numbers<double>("losses"); }, {"'losses' is F32, expected F64"});
}

TEST(Safetensors, WritesTheSameBytesAndAlignsThem) {
  std::string content = sample().content();
  EXPECT_EQ(content, sample().content());
  auto file = SafetensorsFile::parse(view(content), "memory");
  for (const std::string& name : file.names()) {
    const SafetensorsTensor& tensor = file.tensor(name);
    if (tensor.numbers() == 0) continue;
    uint64_t width = (tensor.end - tensor.begin) / static_cast<uint64_t>(tensor.numbers());
    EXPECT_EQ(tensor.begin % width, 0U) << name;
  }
}

TEST(Safetensors, RefusesToWriteWhatDoesNotFit) {
  SafetensorsWriter writer;
  EXPECT_THROW(writer.add<float>("a", {3}, std::vector<float>{1, 2}), Failure);
  EXPECT_THROW(writer.add_bytes("a", "F31", {1}, {}), Failure);
  writer.add<float>("a", std::vector<float>{1});
  EXPECT_THROW(writer.add<float>("a", std::vector<float>{1}), Failure);
}

TEST(Safetensors, RefusesEveryTruncation) {
  std::string whole = sample().content();
  for (size_t size = 0; size < whole.size(); ++size) {
    std::string cut = whole.substr(0, size);
    EXPECT_THROW(SafetensorsFile::parse(view(cut), "cut"), InputError) << size;
  }
}

struct BadHeader {
  std::string header, data, part;
};

TEST(Safetensors, RefusesHostileHeaders) {
  const std::string four(4, '\0'), eight(8, '\0');
  auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::vector<BadHeader> cases{
      {"[]", "", "not a JSON object"},
      {"{", "", "not valid JSON"},
      {std::string(1000, '['), "", "deeper than 32"},
      {one("F32", "[1]", "[0,4]"), eight, "4 bytes after the last tensor"},
      {one("F32", "[1]", "[4,8]"), eight, "a hole"},
      {one("F32", "[2]", "[0,4]"), four, "4 bytes, but its shape and dtype need 8"},
      {one("F32", "[1]", "[0,8]"), four, "cut off?"},
      {one("F32", "[1]", "[4,0]"), four, "bytes 4 to 0"},
      {one("F32", "[-1]", "[0,4]"), four, "size in its shape"},
      {one("F32", "[1.0]", "[0,4]"), four, "size in its shape"},
      {one("F32", "[9223372036854775807,2]", "[0,4]"), four, "size in its shape"},
      {one("F32", "[4294967296,4294967296]", "[0,0]"), "", "size in its shape"},
      {one("F32", "[18446744073709551615]", "[0,4]"), four, "size in its shape"},
      {one("F4", "[1]", "[0,4]"), four, "unknown dtype 'F4'"},
      {one("F32", "[1]", "[0,4,8]"), four, "two data_offsets"},
      {one("F32", "[1]", "[0,-4]"), four, "two data_offsets"},
      {one("F32", "1", "[0,4]"), four, "expected a dtype"},
      {R"({"a":7})", "", "tensor 'a'"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
       "123456", "two tensors overlap"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       "1", "'a' is there twice"},
      {R"({"__metadata__":{"x":1}})", "", "__metadata__ 'x' is not a string"},
      {R"({"__metadata__":[]})", "", "__metadata__ is not an object"},
  };
  for (const BadHeader& bad : cases) {
    std::string content = tiny::safetensors(bad.header, bad.data);
    SCOPED_TRACE(bad.header.substr(0, 200));
    expect_error([&] { SafetensorsFile::parse(view(content), "bad.safetensors"); },
                 {"bad.safetensors", bad.part});
  }
  std::string large(8, '\xff');
  expect_error([&] { SafetensorsFile::parse(view(large), "bad"); }, {"header of 18446744073709551615 bytes"});
}

}  // namespace kvcost
