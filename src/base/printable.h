#pragma once
#include <string>
#include <string_view>

namespace kvcost {

/// Text from a file as it may stand in a message or a table: one line that moves no cursor and reverses no
/// text. Control characters and what is not UTF-8 become '?'; at most 200 bytes, then "...".
std::string printable(std::string_view text);

}  // namespace kvcost
