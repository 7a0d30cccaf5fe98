#include "src/harness/config/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/base/error.h"

namespace kvcost {
namespace {

constexpr int kDeepest = 32;
constexpr size_t kMostKeys = 1000;

bool is_index(const std::string& part) {
  return !part.empty() && part.size() < 10 &&
         std::all_of(part.begin(), part.end(), [](unsigned char c) { return c >= '0' && c <= '9'; });
}

/// Watches the parse, so that hostile text is refused before it is built.
class Watch {
 public:
  explicit Watch(const std::string& what) : what_(what) {}

  bool operator()(int depth, OrderedJson::parse_event_t event, OrderedJson& value) {
    using Event = OrderedJson::parse_event_t;
    if (depth > kDeepest) refuse(fmt::format("nested deeper than {} levels", kDeepest));
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      auto name = value.get<std::string>();
      if (!keys_.back().insert(name).second) refuse(fmt::format("the key {} is there twice", shown(value)));
      if (keys_.back().size() > kMostKeys) refuse(fmt::format("more than {} keys in one object", kMostKeys));
    }
    if (event == Event::value) {
      bool large = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
      bool infinite = value.is_number_float() && !std::isfinite(value.get<double>());
      if (large || infinite) refuse("a number too large to hold");
    }
    return true;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw InputError(what_ + ": " + why); }
  const std::string& what_;
  std::vector<std::set<std::string>> keys_;
};

/// nlohmann's own message, less its prefix: "[json.exception.parse_error.101] parse error at line 3, ...".
std::string parser_message(const std::string& full) {
  size_t start = full.find("] ");
  std::string message = start == std::string::npos ? full : full.substr(start + 2);
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  if (message.size() > 300) message = message.substr(0, 300) + "...";
  return message;
}

}  // namespace

OrderedJson parse_bounded_json(std::string_view text, const std::string& what) {
  Watch watch(what);
  try {
    return OrderedJson::parse(
        text.begin(), text.end(),
        [&watch](int depth, OrderedJson::parse_event_t event, OrderedJson& value) {
          return watch(depth, event, value);
        },
        /*allow_exceptions=*/true, /*ignore_comments=*/true);
  } catch (const OrderedJson::exception& error) {
    throw InputError(what + ": " + parser_message(error.what()));
  }
}

std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

std::string joined_path(const std::vector<std::string>& parts) {
  std::string path;
  for (const std::string& part : parts) {
    if (is_index(part)) {
      path += "[" + part + "]";
    } else {
      path += (path.empty() ? "" : ".") + part;
    }
  }
  return path;
}

}  // namespace kvcost
