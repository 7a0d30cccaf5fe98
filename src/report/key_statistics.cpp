#include "src/report/key_statistics.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/report/fields.h"

namespace kvcost {

KeyStatistics key_statistics(int layer, const at::Tensor& keys, const at::Tensor& bias) {
  if (keys.dim() != 3 || keys.size(0) < 2) {
    throw InputError(fmt::format("layer {}: key statistics need at least 2 tokens", layer));
  }
  at::Tensor x = keys.to(at::kDouble);
  auto span = [](const at::Tensor& t) { return (t.amax(-1) - t.amin(-1)).mean().item<double>(); };
  KeyStatistics s;
  s.layer = layer;
  s.span = s.span_without_bias = span(x);
  if (bias.defined()) {
    at::Tensor b = bias.to(at::kDouble);
    s.largest_bias = b.abs().max().item<double>();
    s.span_without_bias = span(x - b);
  }
  s.variation = x.std(0, /*unbiased=*/true).mean().item<double>();
  return s;
}

std::string key_statistics_lines(std::span<const KeyStatistics> layers, int64_t channels) {
  // Each column as wide as the article's, wider only where a number needs it.
  size_t bias = 0, span = 0, without = 0;
  for (const KeyStatistics& s : layers) {
    bias = std::max(bias, fmt::formatted_size("{:.1f}", s.largest_bias));
    span = std::max(span, fmt::formatted_size("{:.1f}", s.span));
    without = std::max(without, fmt::formatted_size("{:.1f}", s.span_without_bias));
  }
  std::string out;
  for (const KeyStatistics& s : layers) {
    out += fmt::format(
        "layer {:2d} keys: largest bias {:{}.1f}; a token's {} channels span {:{}.1f} on average, {:{}.1f} "
        "without the bias; a channel varies from token to token by {:.2f}\n",
        s.layer, s.largest_bias, std::max<size_t>(bias, 5), channels, s.span, std::max<size_t>(span, 5),
        s.span_without_bias, std::max<size_t>(without, 4), s.variation);
  }
  return out;
}

nlohmann::ordered_json key_statistics_to_json(std::span<const KeyStatistics> layers) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const KeyStatistics& s : layers) {
    list.push_back({{"layer", s.layer},
                    {"largest_bias", s.largest_bias},
                    {"span", s.span},
                    {"span_without_bias", s.span_without_bias},
                    {"variation", s.variation}});
  }
  return list;
}

std::vector<KeyStatistics> key_statistics_from_json(const nlohmann::json& list, const std::string& path) {
  std::vector<KeyStatistics> layers;
  if (list.is_null()) return layers;
  if (!list.is_array()) throw InputError(fmt::format("{}: expected a list of layers", path));
  for (size_t i = 0; i < list.size(); ++i) {
    Fields row(list[i], fmt::format("{}[{}]", path, i));
    layers.push_back({static_cast<int>(row.integer("layer", 0, 100000)), row.number("largest_bias"),
                      row.number("span"), row.number("span_without_bias"), row.number("variation")});
  }
  return layers;
}

}  // namespace kvcost
