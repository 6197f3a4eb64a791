// The command line: one file a verb, nothing but reading options and calling rooms.
#pragma once

#include <functional>
#include <string>

#include "reel/app/options.h"

namespace reel::app {

// Runs a command line. 0: done; 1: the work failed; 2: the user's mistake, explained on standard error.
int run(int argc, const char* const* argv);

// Each verb adds itself to the command line and sets `action` to what has to be done when it was given.
using Action = std::function<void()>;
void add_doctor(Verb& parser, Action& action);
void add_bench(Verb& parser, Action& action);
void add_plan(Verb& parser, Action& action);
void add_denoise(Verb& parser, Action& action);
void add_inspect(Verb& parser, Action& action);
void add_train(Verb& parser, Action& action);
void add_sample(Verb& parser, Action& action);
void add_simulate(Verb& parser, Action& action);
void add_study(Verb& parser, Action& action);
void add_export(Verb& parser, Action& action);

std::string describe_config(const std::string& section);  // the keys of a run file; "": all

void warn(const std::string& message);  // prints "reel: MESSAGE" on standard error

// What verbs of many ranks say about --parallel and --traffic.
constexpr const char* kParallelHelp = "how ranks share a clip: dsp=4, ulysses=2,ring=4, ...";
constexpr const char* kTrafficHelp = "write what every rank sent, by layer, phase, operation and group";

}  // namespace reel::app
