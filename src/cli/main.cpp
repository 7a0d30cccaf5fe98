#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/cli/commands.h"

namespace kvcost {
namespace {

/// One line on stderr, whatever the message holds.
int fail(std::string message, int code) {
  message = message.substr(0, message.find('\n'));
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  std::fprintf(stderr, "kvcost: error: %s\n", message.c_str());
  return code;
}

/// What could have been meant by an argument that nothing took.
std::string suggestion(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> valid;
  auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      valid.push_back(command->get_name());
    }
  } else {
    for (const CLI::Option* option : chosen[0]->get_options()) {
      for (const std::string& name : option->get_lnames()) valid.push_back("--" + name);
    }
  }
  return hint(argument.substr(0, argument.find('=')), valid);
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  auto chosen = app.get_subcommands();
  std::vector<std::string> rest = chosen.empty() ? app.remaining() : chosen[0]->remaining();
  if (rest.empty()) {
    return fail(std::string(error.what()) + "; see kvcost " +
                    (chosen.empty() ? "" : chosen[0]->get_name() + " ") + "--help",
                2);
  }
  bool is_option = rest[0].rfind("-", 0) == 0;
  std::string kind = is_option ? "option" : chosen.empty() ? "command" : "argument";
  return fail("unknown " + kind + " '" + rest[0] + "'" +
                  (is_option || chosen.empty() ? suggestion(app, rest[0]) : ""),
              2);
}

int run(int argc, char** argv) {
  CLI::App app("kvcost: what a smaller KV cache costs a trained language model");
  app.set_version_flag("--version", KVCOST_VERSION);
  app.require_subcommand(1);
  register_run(app);
  register_recall(app);
  register_kept(app);
  register_stream(app);
  register_validate(app);
  register_list(app);
  register_inspect(app);
  register_table(app);
  register_plot(app);
  register_budget(app);
  register_stats(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help and --version
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  }
  return 0;
}

}  // namespace
}  // namespace kvcost

int main(int argc, char** argv) {
  try {
    return kvcost::run(argc, argv);
  } catch (const kvcost::InputError& error) {
    return kvcost::fail(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return kvcost::fail("out of memory", 1);
  } catch (const std::exception& error) {
    return kvcost::fail(error.what(), 1);
  }
}
