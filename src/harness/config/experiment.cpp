#include "src/harness/config/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>

#include "schema_text.h"
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/harness/config/grid.h"
#include "src/harness/config/json_text.h"
#include "src/harness/config/override.h"
#include "src/harness/config/schema_check.h"

namespace kvcost {
namespace {

constexpr size_t kMostRows = 10000;
constexpr size_t kLargestConfig = size_t{4} << 20;

/// Names go into one-line outputs and file names.
void refuse_control_characters(const std::string& text, const std::string& path) {
  for (unsigned char c : text) {
    if (c < ' ' || c == 127) throw InputError(fmt::format("{}: found a control character", path));
  }
}

void refuse_bad_file_name(const std::string& name) {
  bool good = !name.empty() && name[0] != '.' && name.size() <= 100;
  for (unsigned char c : name) good = good && (std::isalnum(c) || c == '.' || c == '_' || c == '-');
  if (!good) {
    throw InputError(fmt::format("name: found {}, expected letters, digits, '.', '_' or '-'", shown(name)));
  }
}

Perturbation perturbation_of(const nlohmann::json& object) {
  return {object["relative"].get<double>(), object["repeats"].get<int64_t>(),
          object.value("seed", int64_t{0}), object.value("windows", int64_t{0})};
}

/// The experiment's perturbation is for rows that round; a row's own setting goes before it.
std::optional<Perturbation> row_perturbation(const nlohmann::json& row,
                                             const std::optional<Perturbation>& general,
                                             const std::string& path) {
  bool rounds = row.contains("keys") || row.contains("values");
  if (!row.contains("perturb")) return rounds ? general : std::nullopt;
  const auto& own = row["perturb"];
  if (own.is_object()) return perturbation_of(own);
  if (own == nlohmann::json(false)) return std::nullopt;
  if (!general) throw InputError(path + ".perturb: found true, expected a \"perturb\" in the experiment too");
  return general;
}

RowSpec row_of(const nlohmann::json& json, const std::optional<Perturbation>& general,
               const std::string& path) {
  RowSpec row;
  row.path = path;
  row.name = json["name"].get<std::string>();
  row.section = json.value("section", "");
  refuse_control_characters(row.name, path + ".name");
  refuse_control_characters(row.section, path + ".section");
  if (json.contains("evict")) row.evict = json["evict"];
  if (json.contains("keys")) row.keys = json["keys"];
  if (json.contains("values")) row.values = json["values"];
  row.exact_last = json.value("exact_last", int64_t{0});
  row.perturb = row_perturbation(json, general, path);
  return row;
}

void add_rows(Experiment& experiment, const OrderedJson& rows, const std::optional<Perturbation>& general) {
  std::map<std::string, std::string> places = {{kFullCacheName, "the full cache, always measured first"}};
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string path = fmt::format("rows[{}]", i);
    for (const auto& json : expand_row(rows[i], path, kMostRows - experiment.rows.size())) {
      RowSpec row = row_of(json, general, path);
      auto [place, is_new] = places.emplace(row.name, path);
      if (!is_new) {
        throw InputError(fmt::format("{}.name: '{}' is also the name of {}{}", path, row.name, place->second,
                                     place->second == path ? "'s other rows: let it say {evict.capacity} or "
                                                             "whatever else differs"
                                                           : ""));
      }
      experiment.rows.push_back(std::move(row));
    }
  }
}

void keep_matching_rows(std::vector<RowSpec>& rows, const std::string& pattern) {
  try {
    std::regex regex(pattern);
    size_t before = rows.size();
    std::erase_if(rows, [&](const RowSpec& row) { return !std::regex_search(row.name, regex); });
    if (rows.empty() && before > 0) {
      throw InputError(fmt::format("--rows {}: matches none of the {} rows", pattern, before));
    }
  } catch (const std::regex_error&) {
    throw InputError(fmt::format("--rows {}: not a regular expression", pattern));
  }
}

void apply(OrderedJson& config, const ExperimentChanges& changes) {
  for (const std::string& assignment : changes.set) apply_override(config, assignment);
  if (changes.windows) apply_override(config, fmt::format("windows.count={}", *changes.windows));
  if (changes.cases) apply_override(config, fmt::format("recall.cases={}", *changes.cases));
  if (changes.threads) apply_override(config, fmt::format("threads={}", *changes.threads));
}

RecallSpec recall_of(const nlohmann::json& object) {
  RecallSpec recall;
  recall.cases = object["cases"].get<int64_t>();
  recall.context_tokens = object["context_tokens"].get<int64_t>();
  recall.seed = object.value("seed", int64_t{0});
  for (const auto& depth : object["depths"]) {
    recall.depths.push_back(depth.get<double>());
    if (std::count(recall.depths.begin(), recall.depths.end(), recall.depths.back()) > 1) {
      throw InputError(fmt::format("recall.depths: found {} twice", depth.dump()));
    }
  }
  return recall;
}

StreamSpec stream_of(const nlohmann::json& object) {
  StreamSpec stream;
  stream.tokens = object["tokens"].get<int64_t>();
  stream.chunk = object.value("chunk", int64_t{2048});
  if (object.contains("full_limit")) stream.full_limit = object["full_limit"].get<int64_t>();
  return stream;
}

/// Windows, or recall or stream in their place.
void read_what_is_asked(Experiment& experiment, const nlohmann::json& config) {
  for (const auto& [one, other] :
       {std::pair{"windows", "recall"}, {"windows", "stream"}, {"recall", "stream"}}) {
    if (!config.contains(one) || !config.contains(other)) continue;
    throw InputError(fmt::format("{}: found beside \"{}\", expected one of the two", one, other));
  }
  if (config.contains("recall")) {
    experiment.recall = recall_of(config["recall"]);
    return;
  }
  if (config.contains("stream")) {
    experiment.stream = stream_of(config["stream"]);
    return;
  }
  if (!config.contains("windows")) throw InputError("windows: found nothing, expected an object");
  const auto& windows = config["windows"];
  experiment.windows = windows["count"].get<int64_t>();
  experiment.length = windows["length"].get<int64_t>();
  experiment.scored = windows["scored"].get<int64_t>();
  if (experiment.scored >= experiment.length) {
    throw InputError(fmt::format("windows.scored: found {}, expected at most length - 1 = {}",
                                 experiment.scored, experiment.length - 1));
  }
}

/// A stream is run once: a setting that asks for repeats would be passed over in silence.
void refuse_perturbation(const Experiment& experiment, bool general) {
  std::string path = general ? "perturb" : "";
  for (const RowSpec& row : experiment.rows) {
    if (path.empty() && row.perturb) path = row.path + ".perturb";
  }
  if (!path.empty()) throw InputError(path + ": found beside \"stream\", which has no repeats");
}

Experiment parse(const OrderedJson& ordered, const std::string& stem) {
  nlohmann::json config = ordered;
  Experiment experiment;
  experiment.name = config.value("name", stem);
  refuse_bad_file_name(experiment.name);
  experiment.model = config["model"].get<std::string>();
  const auto& text = config["text"];
  for (const auto& path : text.is_array() ? text : nlohmann::json::array({text})) {
    experiment.text.push_back(path.get<std::string>());
  }
  experiment.special_tokens = config.value("special_tokens", false);
  read_what_is_asked(experiment, config);
  experiment.dtype = config.value("dtype", "fp32");
  experiment.threads = config.value("threads", int64_t{0});
  std::optional<Perturbation> general;
  if (config.contains("perturb")) general = perturbation_of(config["perturb"]);
  add_rows(experiment, ordered["rows"], general);
  if (experiment.stream) refuse_perturbation(experiment, general.has_value());
  experiment.config = std::move(config);
  return experiment;
}

}  // namespace

nlohmann::json RowSpec::config() const {
  nlohmann::json config = nlohmann::json::object();
  if (!evict.is_null()) config["evict"] = evict;
  if (!keys.is_null()) config["keys"] = keys;
  if (!values.is_null()) config["values"] = values;
  if (exact_last != 0) config["exact_last"] = exact_last;
  return config;
}

Experiment parse_experiment(std::string_view text, const std::string& what,
                            const ExperimentChanges& changes) {
  if (text.size() > kLargestConfig) throw InputError(what + ": larger than 4 MiB");
  OrderedJson ordered = parse_bounded_json(text, what);
  if (!ordered.is_object()) throw InputError(what + ": found " + shown(ordered) + ", expected an object");
  apply(ordered, changes);
  check_schema(ordered, experiment_schema(), what);
  try {
    Experiment experiment = parse(ordered, std::filesystem::path(what).stem().string());
    if (changes.rows) keep_matching_rows(experiment.rows, *changes.rows);
    return experiment;
  } catch (const InputError& error) {
    throw InputError(what + ": " + error.what());
  }
}

Experiment read_experiment(const std::filesystem::path& path, const ExperimentChanges& changes) {
  return parse_experiment(read_text(path, kLargestConfig), path.string(), changes);
}

const nlohmann::json& experiment_schema() {
  static const nlohmann::json schema = nlohmann::json::parse(kExperimentSchema);
  return schema;
}

}  // namespace kvcost
