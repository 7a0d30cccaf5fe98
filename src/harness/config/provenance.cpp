#include "src/harness/config/provenance.h"

#include "src/base/file.h"
#include "src/harness/config/json_text.h"

namespace kvcost {

using nlohmann::json;

Provenance provenance_from(const JsonReader& reader) {
  Provenance made;
  made.name = reader.text("name");
  made.config = reader.at("config");
  made.model = reader.text("model");
  made.program_version = reader.text("program_version");
  made.commit = reader.text("commit");
  made.host = reader.text("host");
  made.processor = reader.text("processor");
  made.dtype = reader.text("dtype");
  for (const json& entry : reader.list("capabilities", 1000)) {
    if (!entry.is_string()) reader.refuse("capabilities", "a list of texts");
    made.capabilities.push_back(entry.get<std::string>());
  }
  made.threads = reader.integer("threads", 1);
  made.weights_sha256 = reader.text("weights_sha256");
  made.tokenizer_sha256 = reader.text("tokenizer_sha256");
  made.text_sha256 = reader.text("text_sha256");
  return made;
}

void add_provenance(nlohmann::ordered_json& object, const Provenance& provenance) {
  object["name"] = provenance.name;
  object["config"] = provenance.config;
  object["model"] = provenance.model;
  object["program_version"] = provenance.program_version;
  object["commit"] = provenance.commit;
  object["host"] = provenance.host;
  object["processor"] = provenance.processor;
  object["dtype"] = provenance.dtype;
  object["capabilities"] = provenance.capabilities;
  object["threads"] = provenance.threads;
  object["weights_sha256"] = provenance.weights_sha256;
  object["tokenizer_sha256"] = provenance.tokenizer_sha256;
  object["text_sha256"] = provenance.text_sha256;
}

void check_kind(const JsonReader& reader, const json& object, const std::string& what,
                const std::string& kind, int64_t schema_version) {
  if (!object.contains("kind") || object["kind"] != kind) {
    throw InputError(fmt::format("{}: not a result of kvcost {}", what, kind));
  }
  const int64_t version = reader.integer("schema_version", 0);
  if (version != schema_version) {
    throw InputError(fmt::format("{}.schema_version: found {}, expected {}", what, version, schema_version));
  }
}

std::string result_kind(const std::filesystem::path& path) {
  const json object = parse_bounded_json(read_text(path, kLargestResult), path.string());
  JsonReader(object, path.string());  // refuses what is no object
  auto kind = object.find("kind");
  if (kind == object.end() || !kind->is_string()) return "windows";
  return kind->get<std::string>();
}

}  // namespace kvcost
