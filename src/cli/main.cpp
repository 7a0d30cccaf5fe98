#include <fmt/format.h>

#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app("kvcost: what a smaller KV cache costs a trained language model");
  app.set_version_flag("--version", KVCOST_VERSION);
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
