#include "src/model/formats/gguf.h"

#include <gtest/gtest.h>

#include "tests/formats/expect_error.h"
#include "tests/formats/tiny_models.h"

namespace kvcost {
namespace {

using Builder = tiny::GgufBuilder;

std::span<const std::byte> view(const std::string& text) { return std::as_bytes(std::span(text)); }

Builder sample() {
  Builder file;
  file.set<uint8_t>("u8", 0, 200);
  file.set<int8_t>("i8", 1, -100);
  file.set<uint16_t>("u16", 2, 60000);
  file.set<int16_t>("i16", 3, -30000);
  file.set<uint32_t>("u32", 4, 4000000000U);
  file.set<int32_t>("i32", 5, -2000000000);
  file.set<float>("f32", 6, 0.5F);
  file.set_bool("flag", true);
  file.set_string("text", "a word");
  file.set<uint64_t>("u64", 10, UINT64_MAX);
  file.set<int64_t>("i64", 11, -5000000000);
  file.set<double>("f64", 12, 0.1);
  file.set_array<std::string>("strings", 8, {"one", "", "three"});
  file.set_array<float>("floats", 6, {1.5F, -2.0F});
  file.set_array<int32_t>("ints", 5, {1, -1, 3});
  file.add("vector", {3}, 0, tiny::encode({1, 2, 3}, "F32"));
  file.add("matrix", {2, 32}, 8, std::string(68, 'x'));
  return file;
}

}  // namespace

class GgufVersions : public testing::TestWithParam<uint32_t> {};

TEST_P(GgufVersions, ReadsEveryKindOfValue) {
  Builder made = sample();
  made.version = GetParam();
  std::string bytes = made.bytes();
  Gguf file = Gguf::parse(view(bytes), "sample.gguf");
  EXPECT_EQ(file.version(), GetParam());
  EXPECT_EQ(file.integer("u8"), 200);
  EXPECT_EQ(file.integer("i8"), -100);
  EXPECT_EQ(file.integer("u16"), 60000);
  EXPECT_EQ(file.integer("i16"), -30000);
  EXPECT_EQ(file.integer("u32"), 4000000000);
  EXPECT_EQ(file.integer("i32"), -2000000000);
  EXPECT_EQ(file.integer("i64"), -5000000000);
  EXPECT_EQ(file.number("f32"), 0.5);
  EXPECT_EQ(file.number("f64"), 0.1);
  EXPECT_EQ(file.boolean("flag"), true);
  EXPECT_EQ(file.string("text"), "a word");
  EXPECT_EQ(file.strings("strings"), (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(file.floats("floats"), (std::vector<float>{1.5F, -2.0F}));
  EXPECT_EQ(file.integers("ints"), (std::vector<int32_t>{1, -1, 3}));
  EXPECT_FALSE(file.integer("absent"));
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.find("matrix")->shape, (std::vector<int64_t>{2, 32}));
  EXPECT_EQ(file.find("matrix")->bytes.size(), 68U);
  EXPECT_EQ(file.find("matrix")->bytes[0], std::byte{'x'});
  expect_error([&] { file.integer("u64"); }, {"sample.gguf", "'u64'", "too large"});
  expect_error([&] { file.integer("text"); }, {"'text' is a string, expected an integer"});
  expect_error([&] { file.strings("floats"); }, {"'floats' is an array, expected an array of strings"});
}

INSTANTIATE_TEST_SUITE_P(Versions, GgufVersions, testing::Values(2U, 3U));

TEST(GgufFile, HonoursItsAlignment) {
  Builder made;
  made.alignment = 128;
  made.set_u32("general.alignment", 128);
  made.add("a", {1}, 0, tiny::encode({4}, "F32"));
  made.add("b", {1}, 0, tiny::encode({5}, "F32"));
  std::string bytes = made.bytes();
  Gguf file = Gguf::parse(view(bytes), "aligned");
  float value;
  std::memcpy(&value, file.find("b")->bytes.data(), 4);
  EXPECT_EQ(value, 5.0F);
}

TEST(GgufFile, RefusesEveryTruncation) {
  std::string whole = sample().bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    std::string cut = whole.substr(0, size);
    EXPECT_THROW(Gguf::parse(view(cut), "cut"), InputError) << size;
  }
}

// Most changes are refused; none may read outside the file (the sanitizers watch).
TEST(GgufFile, SurvivesEveryFlippedByte) {
  std::string whole = sample().bytes();
  int refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int flip : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      try {
        Gguf file = Gguf::parse(view(changed), "changed");
        for (const GgufTensor& tensor : file.tensors()) {
          std::vector<float> out(static_cast<size_t>(tensor.numbers()));
          dequantize(tensor.type, tensor.bytes.data(), tensor.numbers(), out.data());
        }
      } catch (const InputError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 300);
}

TEST(GgufFile, RefusesWhatItCannotRead) {
  auto refuse = [](const std::string& bytes, const std::vector<std::string>& parts) {
    expect_error([&] { Gguf::parse(view(bytes), "bad.gguf"); }, parts);
  };
  auto with = [](auto change) {
    Builder file;
    change(file);
    return file.bytes();
  };
  refuse("GGML....", {"bad.gguf", "not a GGUF file"});
  refuse(with([](Builder& f) { f.version = 1; }), {"version 1, expected 2 or 3"});
  refuse(with([](Builder& f) { f.version = 0x03000000; }), {"big-endian"});
  refuse(with([](Builder& f) { f.key("k", 13); }), {"'k'", "value type 13"});
  refuse(with([](Builder& f) { f.set_u32("k", 1), f.set_u32("k", 2); }), {"'k' is set twice"});
  refuse(with([](Builder& f) { f.set_u32("general.alignment", 24); }), {"alignment is 24", "power of two"});
  refuse(with([](Builder& f) { f.set_u32("general.alignment", 0); }), {"general.alignment is 0"});
  refuse(with([](Builder& f) { f.set_array<uint64_t>("k", 9, {}); }), {"'k'", "array of arrays"});
  refuse(with([](Builder& f) {
           f.key("k", 9);
           f.add_raw_metadata(std::string(4, '\6') + std::string(8, '\xff'));
         }),
         {"'k'", "array of type 101058054"});
  refuse(with([](Builder& f) {
           f.key("k", 9);
           f.add_raw_metadata(std::string("\6\0\0\0", 4) + std::string(8, '\xff'));
         }),
         {"'k'", "more than the file holds"});
  refuse(with([](Builder& f) {
           f.key("k", 8);
           f.add_raw_metadata(std::string(8, '\xff'));
         }),
         {"needs 18446744073709551615 bytes"});
  refuse(with([](Builder& f) {
           f.add("w", {1, 32}, 20, "");
         }),
         {"'w'", "type IQ4_NL is not supported", "Q4_K"});
  refuse(with([](Builder& f) { f.add("w", {1, 32}, 77, ""); }), {"'w'", "type 77"});
  refuse(with([](Builder& f) {
           f.add("w", {32, 1}, 2, "");
         }),
         {"'w'", "rows of 1 numbers", "multiple of 32"});
  refuse(with([](Builder& f) { f.add("w", {}, 0, ""); }), {"'w'", "0 dimensions"});
  refuse(with([](Builder& f) { f.add("w", {1, 1, 1, 1, 1}, 0, ""); }), {"'w'", "5 dimensions"});
  refuse(with([](Builder& f) { f.add("w", {0}, 0, ""); }), {"'w'", "impossible size 0"});
  refuse(with([](Builder& f) {
           f.add("w", {int64_t{1} << 40, int64_t{1} << 40}, 0, "");
         }),
         {"'w'", "impossible size"});
  refuse(with([](Builder& f) { f.add("w", {INT64_MAX}, 0, ""); }), {"'w'", "too large"});
  refuse(with([](Builder& f) { f.add("w", {2}, 0, "1234"); }), {"'w'", "8 bytes at 0", "4 bytes of data"});
  refuse(with([](Builder& f) { f.add_at("w", {1}, 0, 16); }), {"'w'", "offset 16 is not a multiple of 32"});
  refuse(with([](Builder& f) { f.add_at("w", {1}, 0, UINT64_MAX - 31); }), {"'w'", "cut off?"});
  refuse(with([](Builder& f) {
           f.add("v", {16}, 0, std::string(64, 'x'));
           f.add_at("w", {1}, 0, 32);
         }),
         {"'v' and 'w' overlap"});
  refuse(with([](Builder& f) {
           f.add("w", {1}, 0, "1234");
           f.add("w", {1}, 0, "1234");
         }),
         {"'w' appears twice"});
}

}  // namespace kvcost
