#pragma once
#include <vector>

#include "src/harness/config/stream_result.h"
#include "src/harness/unit_store.h"

namespace kvcost {

/// What result.rows says of losses, from each row's unit (loss_bits[t - 1] is the loss of the token at t);
/// their configs, the result's trained_tokens and block_tokens stand already.
void assemble_stream(StreamResult& result, const std::vector<Unit>& units);

/// Per-token losses, one F32 tensor a row under the row's name: entry t - 1 is the loss of the token at t.
void write_stream_losses(const StreamResult& result, const std::vector<Unit>& units,
                         const std::filesystem::path& path);

}  // namespace kvcost
