#include "reel/app/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <utility>

#include "reel/base/error.h"
#include "reel/files/nearest.h"

namespace reel::app {

namespace {

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

Error mistake(const CLI::App& parser, const CLI::ParseError& error) {
  const CLI::App* verb = deepest(parser);
  const auto extra = verb->remaining();
  if (extra.empty()) return Error(fmt::format("{}: {}", full_name(verb), error.what()), help_line(verb));
  return Error(fmt::format("{}: '{}' is not known", full_name(verb), extra.front()),
               hint_for_extra(verb, extra.front()));
}

// Checks one number; `wanted` is what help and the error say.
template <typename Number, typename Good>
CLI::Validator number_that(Good good, const std::string& wanted) {
  return {[=](std::string& text) {
            Number number{};
            if (CLI::detail::lexical_cast(text, number) && good(number)) return std::string();
            return fmt::format("it is {}, it must be {}", text, wanted);
          },
          wanted};
}

}  // namespace

Option* Option::required() { return option_.required(), this; }
Option* Option::type_name(const char* name) { return option_.type_name(name), this; }
Option* Option::capture_default_str() { return option_.capture_default_str(), this; }
Option* Option::delimiter(char between) { return option_.delimiter(between), this; }
Option* Option::one_word() { return option_.allow_extra_args(false), this; }
Option* Option::between(std::int64_t least, std::int64_t most) {
  const auto good = [=](std::int64_t x) { return x >= least && x <= most; };
  return option_.check(number_that<std::int64_t>(good, fmt::format("{} to {}", least, most))), this;
}
Option* Option::between(double least, double most) {
  const auto good = [=](double x) { return x >= least && x <= most; };  // never true of NaN
  return option_.check(number_that<double>(good, fmt::format("{} to {}", least, most))), this;
}
Option* Option::multiple_of(std::int64_t step) {
  const auto good = [=](std::int64_t x) { return x % step == 0; };
  return option_.check(number_that<std::int64_t>(good, fmt::format("a multiple of {}", step))), this;
}
Option* Option::not_negative() {
  return option_.check(number_that<double>([](double x) { return x >= 0; }, "0 or more")), this;
}
Option* Option::not_empty() {
  const auto complaint = [](const std::string& word) {
    return word.empty() ? "empty; name something or leave it out" : "";
  };
  return option_.check(CLI::Validator(complaint, "")), this;
}
Option* Option::to_write() {
  const auto complaint = [](const std::string& path) -> std::string {
    namespace fs = std::filesystem;
    std::error_code hidden;  // a folder that cannot be searched: writing says so
    const fs::file_status status = fs::status(path, hidden);
    if (fs::is_directory(status)) return fmt::format("{} is a folder; name a file in it", path);
    const fs::path parent = fs::path(path).parent_path(), folder = parent.empty() ? fs::path(".") : parent;
    if (!fs::is_directory(folder, hidden)) return fmt::format("{}: there is no folder {}", path, folder.string());
    // A file is replaced, which its folder has to allow; a device is written itself.
    const bool itself = fs::exists(status) && !fs::is_regular_file(status),
               link = fs::is_symlink(fs::symlink_status(path, hidden));  // /dev/stdout may lead to a file elsewhere
    if (!link && ::access(itself ? path.c_str() : folder.c_str(), W_OK) != 0)
      return fmt::format("{}: {} may not be written; name another place", path, itself ? path : folder.string());
    constexpr std::size_t kLongestName = 255;  // of every usual file system
    if (fs::path(path).filename().string().size() > kLongestName) return "the name is too long; shorten it";
    return {};
  };
  return option_.check(CLI::Validator(complaint, "")), this;
}
Option* Option::one_of(const std::vector<std::string>& words) { return option_.check(CLI::IsMember(words)), this; }

Verb::Verb(CLI::App& app) : app_(app) {}
Verb::~Verb() = default;

Verb* Verb::add_subcommand(const std::string& name, const std::string& help) {
  return verbs_.emplace_back(std::make_unique<Verb>(*app_.add_subcommand(name, help))).get();
}

void Verb::require_subcommand() { app_.require_subcommand(1); }
bool Verb::subcommand_given() const { return !app_.get_subcommands().empty(); }
bool Verb::given(const std::string& option) const { return app_.count(option) > 0; }

Option* Verb::keep(CLI::Option& option) { return options_.emplace_back(std::make_unique<Option>(option)).get(); }

template <typename T>
Option* Verb::add(const std::string& name, T& value, const std::string& help) {
  return keep(*app_.add_option(name, value, help));
}

Option* Verb::add_option(const std::string& name, std::string& value, const std::string& help) {
  return add(name, value, help)->not_empty();
}
Option* Verb::add_option(const std::string& name, int& value, const std::string& help) {
  return add(name, value, help);
}
Option* Verb::add_option(const std::string& name, std::int64_t& value, const std::string& help) {
  return add(name, value, help);
}
Option* Verb::add_option(const std::string& name, double& value, const std::string& help) {
  return add(name, value, help);
}
Option* Verb::add_option(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  return add(name, values, help);
}
Option* Verb::add_option(const std::string& name, std::vector<std::int64_t>& values, const std::string& help) {
  return add(name, values, help);
}
Option* Verb::add_flag(const std::string& name, bool& value, const std::string& help) {
  return keep(*app_.add_flag(name, value, help));
}

void Verb::footer(std::function<std::string()> text) { app_.footer(std::move(text)); }
void Verb::callback(std::function<void()> given) { app_.callback(std::move(given)); }

CommandLine::CommandLine(const std::string& about, const std::string& version)
    : app_(std::make_unique<CLI::App>(about)), verbs_(std::make_unique<Verb>(*app_)) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", version);
}

CommandLine::~CommandLine() = default;

bool CommandLine::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& success) {
    app_->exit(success);
    return false;
  } catch (const CLI::ParseError& error) {
    throw mistake(*app_, error);
  }
  return true;
}

std::string CommandLine::help(const std::vector<std::string>& words) const {
  const CLI::App* verb = app_.get();
  for (const std::string& word : words) {
    const auto subs = verb->get_subcommands([&](const CLI::App* each) { return each->get_name() == word; });
    if (subs.empty()) {
      throw Error(fmt::format("{}: there is no '{}'", full_name(verb), word), hint_for_extra(verb, word));
    }
    verb = subs.front();
  }
  return verb->help(verb->get_parent() == nullptr ? "reel" : full_name(verb->get_parent()));
}

}  // namespace reel::app
