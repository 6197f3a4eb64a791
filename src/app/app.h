// The command line: one file a verb, nothing but reading options and calling rooms.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace reel::app {

// Runs a command line. 0: done; 1: the work failed; 2: the user's mistake, explained on standard error.
int run(int argc, const char* const* argv);

// Each verb adds itself to the parser and sets `action` to what has to be done when it was given.
using Action = std::function<void()>;
void add_doctor(CLI::App& parser, Action& action);
void add_bench(CLI::App& parser, Action& action);
void add_denoise(CLI::App& parser, Action& action);
void add_inspect(CLI::App& parser, Action& action);
void add_train(CLI::App& parser, Action& action);
void add_sample(CLI::App& parser, Action& action);

std::string describe_config(const std::string& section);  // the keys of a run file; "": all
std::string mpi_version();                                // "" without MPI

}  // namespace reel::app
