// The commands of `tenon`. Each has a source file of its own: what it is called and takes, then what it does.
//
// A command prints its result on standard output and everything else on standard error. It throws an Error for a user's
// mistake; main() reports it and chooses the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace tenon::cli {

enum ExitCode : int {
  kOk = 0,
  kUserError = 1,      // an input is wrong: a file, a graph, a shape
  kUsageError = 2,     // the command line is wrong
  kInternalError = 3,  // Tenon is wrong
  kInterrupted = 130,  // Ctrl-C; as of a process that it ended
};

struct Command {
  CLI::App* app;
  std::function<void()> run;
};

Command ops_command(CLI::App& tenon);
Command opt_command(CLI::App& tenon);
Command compile_command(CLI::App& tenon);
Command run_command(CLI::App& tenon);
Command train_command(CLI::App& tenon);
Command inspect_command(CLI::App& tenon);
Command explain_command(CLI::App& tenon);
Command verify_command(CLI::App& tenon);
Command bench_command(CLI::App& tenon);
Command eval_command(CLI::App& tenon);
Command backends_command(CLI::App& tenon);
Command tune_command(CLI::App& tenon);
Command device_command(CLI::App& tenon);
Command config_command(CLI::App& tenon);
Command web_command(CLI::App& tenon);
Command completion_command(CLI::App& tenon);

}  // namespace tenon::cli
