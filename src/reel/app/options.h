// Options of the command line: how verbs say what they take.
//
// The parser behind it is CLI11, known to options.cpp alone: a source that includes it compiles 3 s longer, 8 s with
// sanitizers, whatever it uses of it.
//
// Names are as CLI11 has them: "--steps" is an option, "file" a word by its place. A variable keeps its value where the
// option is not given, and lives as long as the action of its verb.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace reel::app {

// All of them return the option itself.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}
  Option* required();
  Option* type_name(const char* name);  // shown by help instead of TEXT or INT
  Option* capture_default_str();        // help shows the value that the variable has now
  Option* delimiter(char between);      // of several values in one word
  Option* one_word();                   // a list takes one word each time it is given, not all that follow
  Option* between(std::int64_t least, std::int64_t most);
  Option* between(int least, int most) { return between(std::int64_t{least}, std::int64_t{most}); }
  Option* between(double least, double most);
  Option* multiple_of(std::int64_t step);
  Option* not_negative();
  Option* not_empty();  // as "$FILE" is without a FILE: it would be taken for "not given"; every single text has this
  Option* to_write();   // a file, not a folder, whose folder has to be there: said before the work, not after it
  Option* one_of(const std::vector<std::string>& words);

 private:
  CLI::Option& option_;
};

class Verb {
 public:
  explicit Verb(CLI::App& app);
  ~Verb();
  Verb(const Verb&) = delete;
  Verb& operator=(const Verb&) = delete;

  Verb* add_subcommand(const std::string& name, const std::string& help);
  void require_subcommand();
  bool subcommand_given() const;
  bool given(const std::string& option) const;

  Option* add_option(const std::string& name, std::string& value, const std::string& help);
  Option* add_option(const std::string& name, int& value, const std::string& help);
  Option* add_option(const std::string& name, std::int64_t& value, const std::string& help);
  Option* add_option(const std::string& name, double& value, const std::string& help);
  Option* add_option(const std::string& name, std::vector<std::string>& values, const std::string& help);
  Option* add_option(const std::string& name, std::vector<std::int64_t>& values, const std::string& help);
  Option* add_flag(const std::string& name, bool& value, const std::string& help);

  void footer(std::function<std::string()> text);  // below the help
  void callback(std::function<void()> given);      // called when the verb was given and its options are read

 private:
  template <typename T>
  Option* add(const std::string& name, T& value, const std::string& help);
  Option* keep(CLI::Option& option);

  CLI::App& app_;
  std::vector<std::unique_ptr<Verb>> verbs_;
  std::vector<std::unique_ptr<Option>> options_;
};

// The command line as a whole. Mistakes are Errors that name the verb and, for a word that nobody expects, the nearest
// one that exists.
class CommandLine {
 public:
  CommandLine(const std::string& about, const std::string& version);
  ~CommandLine();

  Verb& verbs() { return *verbs_; }
  // False: --help or --version was given and has been answered.
  bool parse(int argc, const char* const* argv);
  // The help of a verb: {"bench", "attention"}; of all: {}.
  std::string help(const std::vector<std::string>& verb) const;

 private:
  std::unique_ptr<CLI::App> app_;
  std::unique_ptr<Verb> verbs_;
};

}  // namespace reel::app
