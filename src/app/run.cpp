#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "app/app.h"
#include "base/error.h"
#include "base/nearest.h"
#include "kernels/cpu.h"

namespace reel::app {

namespace {

void print_error(const std::string& what, const std::string& hint) {
  std::fflush(stdout);
  fmt::print(stderr, "reel: {}\n", what);
  for (std::size_t at = 0; at < hint.size();) {
    const std::size_t end = std::min(hint.find('\n', at), hint.size());
    fmt::print(stderr, "      {}\n", hint.substr(at, end - at));
    at = end + 1;
  }
}

// The verb that was being parsed: the deepest one given.
const CLI::App* deepest(const CLI::App& parser) {
  const auto given = parser.get_subcommands();
  return given.empty() ? &parser : deepest(*given.front());
}

std::string full_name(const CLI::App* verb) {
  return verb->get_parent() == nullptr ? "reel" : full_name(verb->get_parent()) + " " + verb->get_name();
}

std::string help_line(const CLI::App* verb) {
  const std::string name = full_name(verb);
  return name == "reel" ? "see 'reel help'" : fmt::format("see 'reel help{}'", name.substr(4));
}

// The first word nobody expected, with the nearest one that exists.
std::string hint_for_extra(const CLI::App* verb, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::Option* option : verb->get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const CLI::App* sub : verb->get_subcommands({})) known.push_back(sub->get_name());
  const std::string near = nearest(word.substr(0, word.find('=')), known);
  return near.empty() ? help_line(verb) : fmt::format("did you mean '{}'? {}", near, help_line(verb));
}

int parse_error(const CLI::App& parser, const CLI::ParseError& error) {
  const CLI::App* verb = deepest(parser);
  const auto extra = verb->remaining();
  if (!extra.empty()) {
    print_error(fmt::format("{}: '{}' is not known", full_name(verb), extra.front()),
                hint_for_extra(verb, extra.front()));
  } else {
    print_error(fmt::format("{}: {}", full_name(verb), error.what()), help_line(verb));
  }
  return 2;
}

int help(CLI::App& parser, int argc, const char* const* argv) {
  if (argc >= 3 && std::string_view(argv[2]) == "config") {
    fmt::print("{}", describe_config(argc >= 4 ? argv[3] : ""));
    return 0;
  }
  const CLI::App* verb = &parser;
  for (int i = 2; i < argc; ++i) {
    const auto subs = verb->get_subcommands([&](const CLI::App* each) { return each->get_name() == argv[i]; });
    if (subs.empty()) {
      print_error(fmt::format("{}: there is no '{}'", full_name(verb), argv[i]), hint_for_extra(verb, argv[i]));
      return 2;
    }
    verb = subs.front();
  }
  fmt::print("{}", verb->help(verb->get_parent() == nullptr ? "reel" : full_name(verb->get_parent())));
  return 0;
}

}  // namespace

int run(int argc, const char* const* argv) try {
  CLI::App parser("trains and runs video diffusion transformers with dynamically sparse attention");
  parser.require_subcommand(1);
  parser.set_version_flag("--version", "reel " REEL_VERSION);
  Action action;
  add_doctor(parser, action);
  add_bench(parser, action);
  add_train(parser, action);
  add_sample(parser, action);
  add_denoise(parser, action);
  add_inspect(parser, action);
  parser.add_subcommand("help", "explains a verb: reel help bench attention; reel help config: the keys of a run file");
  if (argc >= 2 && std::string_view(argv[1]) == "help") return help(parser, argc, argv);
  if (argc < 2) {
    print_error("no verb given", "see 'reel help'");
    return 2;
  }
  try {
    parser.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return parser.exit(success);
  } catch (const CLI::ParseError& error) {
    return parse_error(parser, error);
  }
  kernels::choose_target_once();
  action();
  return 0;
} catch (const Error& error) {
  print_error(error.what(), error.hint());
  return 2;
} catch (const std::exception& error) {
  print_error(fmt::format("the work failed: {}", error.what()), "");
  return 1;
}

}  // namespace reel::app
