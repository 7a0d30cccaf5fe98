// kvcost budget: bytes of the KV cache, by arithmetic alone: no model is run.
#include "src/report/budget.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/cli/commands.h"
#include "src/harness/config/experiment.h"
#include "src/harness/config/json_text.h"
#include "src/harness/open_model.h"

namespace kvcost {
namespace {

struct BudgetCommand {
  std::string model, config, memory, weights;
  std::vector<std::string> rows;
  int64_t context = 32768, batch = 1, block = 0;
};

/// "40,40,128" -> layers, KV heads, head_dim; false if the text is not three numbers.
bool read_shape(const std::string& text, CacheModel& model) {
  std::vector<int64_t> numbers(1, 0);
  size_t digits = 0;
  for (char c : text) {
    if (c == ',') {
      if (digits == 0) return false;
      numbers.push_back(0);
      digits = 0;
    } else if (c >= '0' && c <= '9' && ++digits <= 9) {
      numbers.back() = 10 * numbers.back() + (c - '0');
    } else {
      return false;
    }
  }
  if (numbers.size() != 3 || digits == 0) return false;
  model.name = text;
  model.layers = numbers[0];
  model.kv_heads = numbers[1];
  model.head_dim = numbers[2];
  return true;
}

CacheModel read_model(const std::string& name) {
  CacheModel model;
  if (read_shape(name, model)) return model;
  std::unique_ptr<WeightSource> weights = open_weights(find_model(name));
  const ModelConfig& config = weights->config();
  return {name,
          config.layers,
          config.query_heads,
          config.kv_heads,
          config.head_dim,
          2 * static_cast<uint64_t>(config.parameters())};
}

/// What to show when no row is asked for: the articles' levers.
const char* kUsualRows = R"json([
  {"name": "8 bits, per token", "keys": {"codec": "minmax", "bits": 8, "axis": "token", "group": GROUP, "scales": "fp16"},
                                "values": {"codec": "minmax", "bits": 8, "axis": "token", "group": GROUP, "scales": "fp16"}},
  {"name": "4 bits, per token", "keys": {"codec": "minmax", "bits": 4, "axis": "token", "group": GROUP, "scales": "fp16"},
                                "values": {"codec": "minmax", "bits": 4, "axis": "token", "group": GROUP, "scales": "fp16"}},
  {"name": "2 bits, keys per channel, last 128 exact (KIVI)",
           "keys" : {"codec" : "minmax", "bits" : 2, "axis" : "channel", "group" : 32, "scales" : "fp16"},
           "values" : {"codec" : "minmax", "bits" : 2, "axis" : "token", "group" : GROUP, "scales" : "fp16"},
           "exact_last" : 128
},
  {"name": "4 sink tokens + recent ones, a quarter in all",
   "evict": {"policy": "sinks", "capacity": QUARTER, "sinks": 4}},
  {"name": "4 bits per token, and a quarter of them",
   "evict": {"policy": "sinks", "capacity": QUARTER, "sinks": 4},
   "keys": {"codec": "minmax", "bits": 4, "axis": "token", "group": GROUP, "scales": "fp16"},
   "values": {"codec": "minmax", "bits": 4, "axis": "token", "group": GROUP, "scales": "fp16"}}])json";

std::string usual_rows(const CacheModel& model, int64_t context) {
  std::string rows = kUsualRows;
  auto fill = [&](const std::string& mark, int64_t value) {
    for (size_t at = rows.find(mark); at != std::string::npos; at = rows.find(mark)) {
      rows.replace(at, mark.size(), std::to_string(value));
    }
  };
  fill("GROUP", std::min<int64_t>(32, model.head_dim));
  fill("QUARTER", std::max<int64_t>(5, context / 4));
  return rows;
}

/// Rows given as JSON are read as an experiment's are, so that grids and every check hold for them too.
std::vector<RowSpec> read_rows(const std::string& list, const std::string& what) {
  std::string whole =
      R"({"model": "-", "text": "-", "windows": {"count": 1, "length": 2, "scored": 1}, "rows": )" + list +
      "}";
  return parse_experiment(whole, what).rows;
}

std::vector<RowSpec> all_rows(const BudgetCommand& command, const CacheModel& model) {
  std::vector<RowSpec> rows;
  if (!command.config.empty()) rows = read_experiment(command.config).rows;
  for (const std::string& text : command.rows) {
    OrderedJson row = parse_bounded_json(text, "--row");
    if (row.is_object() && !row.contains("name")) {
      std::string name = text;  // braces would make it a template
      std::replace(name.begin(), name.end(), '{', '(');
      std::replace(name.begin(), name.end(), '}', ')');
      row["name"] = name;
    }
    for (RowSpec& spec : read_rows("[" + row.dump() + "]", "--row")) rows.push_back(std::move(spec));
  }
  if (command.config.empty() && command.rows.empty()) {
    rows = read_rows(usual_rows(model, command.context), "usual-rows");
  }
  return rows;
}

void run(const BudgetCommand& command) {
  if (command.model.empty()) {
    if (!command.config.empty() || !command.rows.empty() || !command.memory.empty() || command.block != 0) {
      throw InputError("--model: found nothing, expected a model's name, path or LAYERS,KV_HEADS,HEAD_DIM");
    }
    fmt::print("{}\n{}", eviction_article_budget(), bytes_per_token_article_budget());
    return;
  }
  CacheModel model = read_model(command.model);
  if (!command.weights.empty()) model.weight_bytes = parse_size(command.weights, "--weights");
  BudgetRequest request;
  request.context = command.context;
  request.batch = command.batch;
  if (command.block != 0) request.block = command.block;
  if (!command.memory.empty()) request.memory_bytes = parse_size(command.memory, "--memory");
  check_budget(model, request);
  std::vector<RowBudget> rows;
  for (const RowSpec& row : all_rows(command, model)) {
    rows.push_back(row_budget(model, request, row.config(), row.name, row.path));
  }
  fmt::print("{}", budget_table(model, request, rows));
}

}  // namespace

void register_budget(CLI::App& app) {
  auto command = std::make_shared<BudgetCommand>();
  CLI::App* sub =
      app.add_subcommand("budget", "Print what a KV cache takes: the articles' tables, or any model's");
  sub->add_option("--model", command->model, "name, folder, .gguf file, or LAYERS,KV_HEADS,HEAD_DIM")
      ->type_name("MODEL");
  sub->add_option("--context", command->context, "tokens of a sequence (32768)")->type_name("TOKENS");
  sub->add_option("--batch", command->batch, "sequences (1)")->type_name("N");
  sub->add_option("--config", command->config, "an experiment: its rows are budgeted")->type_name("FILE");
  sub->add_option("--row", command->rows, "one row of an experiment; may be repeated")->type_name("JSON");
  sub->add_option("--block", command->block, "tokens a block of a paged cache holds")->type_name("TOKENS");
  sub->add_option("--memory", command->memory, "how many sequences fit, e.g. 24GiB")->type_name("SIZE");
  sub->add_option("--weights", command->weights, "what the weights take (default: 2 bytes a parameter)")
      ->type_name("SIZE");
  sub->callback([command] { run(*command); });
}

}  // namespace kvcost
