#include <fcntl.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <sstream>

#include "command.h"
#include "interrupt.h"
#include "output_files.h"
#include "runtime/device.h"
#include "support/runtime_call.h"
#include "support/text.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  tenon run model.pt2 --input x.npy --output out/     run an exported PyTorch model
  tenon compile model.pt2 -o model.tenon              compile it into a file
  tenon run model.tenon --input x.npy --profile t.json  run that, and see where the time goes
  tenon train model.tenon --data train.npz            train a file of `tenon compile --train`
  tenon inspect model.pt2                             what it is made of, and what becomes of it
  tenon explain model.pt2 --device npu                which device runs each node, and why others do not
  tenon verify model.tenon                            whether a file is whole, and what is in it
  tenon bench model.tenon --threads 1,2               how fast it is
  tenon ops softmax                                   what an op does
  tenon opt model.tg --passes canonicalize,dce        simplify a graph
  tenon eval model.tg --input x.npy --output out/     evaluate a graph
  tenon backends                                      what kernels can be compiled for
  tenon device new npu                                a directory to start a device from
  tenon device check npu.so                           whether a device computes what the reference does
  tenon tune kernel.loops --search 10                 make a kernel's loops faster
  tenon config --cmake-dir                            where a C or C++ project finds Tenon

Exit codes: 0 done; 1 an input is wrong (a file that is missing or damaged, a graph, a shape, a budget that is too
small); 2 the command line is wrong; 3 an internal error, which is a bug of Tenon; 130 interrupted by Ctrl-C.
`tenon COMMAND --help` says more about a command.)";

int show_help(const CLI::App& app, const CLI::Success& request) {
  std::ostringstream text;
  app.exit(request, text, text);
  print(text.str());
  return kOk;
}

// CLI11 says that a command is required; this says which words were no command.
std::string missing_command(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  if (words.empty()) return "a command is needed";
  if (words[0].starts_with('-')) return fmt::format("there is no option '{}'", words[0]);
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  return fmt::format("there is no command '{}'{}", words[0], did_you_mean(words[0], candidates));
}

int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = "tenon";
  for (const CLI::App* chosen = &app; !chosen->get_subcommands().empty();) {
    chosen = chosen->get_subcommands().front();
    command += " " + chosen->get_name();
  }
  const std::string what = app.get_subcommands().empty() ? missing_command(app) : error.what();
  print_error(render({what, {}}) + "Run '" + command + " --help' to see what it takes.\n");
  return kUsageError;
}

int run(int argc, char** argv) {
  CLI::App app("Tenon takes a PyTorch graph to a device.", "tenon");
  app.set_version_flag("--version", "tenon " TENON_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this text and exit");
  app.require_subcommand(1);
  std::vector<std::string> plugins;
  app.add_option("--plugin", plugins, "Load the plug-in of a device; may be repeated. See also $TENON_PLUGINS")
      ->type_name("FILE.so")
      ->allow_extra_args(false);
  app.get_formatter()->column_width(32);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.footer(kFooter);
  const Command commands[] = {compile_command(app), train_command(app),  run_command(app),    inspect_command(app),
                              explain_command(app), verify_command(app), bench_command(app),  ops_command(app),
                              opt_command(app),     eval_command(app),   tune_command(app),   backends_command(app),
                              device_command(app),  web_command(app),    config_command(app), completion_command(app)};
  for (const Command& command : commands) command.app->group("Commands")->fallthrough();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return show_help(app, request);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error);
  }
  for (const std::string& plugin : plugins) call_runtime([&] { runtime::load_plugin(plugin); });
  for (const Command& command : commands) {
    if (command.app->parsed()) command.run();
  }
  return kOk;
}

int report_internal(std::string_view what) {
  print_error(render({std::string(what) + " (a bug of Tenon; please report it)", {}}));
  return kInternalError;
}

int run_and_report(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const ClosedPipe&) {
    return kOk;
  } catch (const Interrupted& interrupted) {
    print_error(interrupted.message + "\n");
    return kInterrupted;
  } catch (const ReportedFailure&) {
    return kUserError;
  } catch (const SourceError& error) {
    print_error(render(error.diagnostic(), error.line()));
  } catch (const Error& error) {
    print_error(render(error.diagnostic()));
  } catch (const std::bad_alloc&) {
    print_error(render({"out of memory", {}}));
  } catch (const InternalError& error) {
    return report_internal(error.what());
  } catch (const std::exception& error) {
    return report_internal(std::string("internal error: ") + error.what());
  }
  return kUserError;
}

}  // namespace
}  // namespace tenon::cli

// A file that is opened while standard output is closed would get its number, and be printed into.
static void occupy_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) == -1) ::open("/dev/null", O_RDONLY);  // the lowest number that is free
  }
}

int main(int argc, char** argv) {
  occupy_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT: writing to a closed pipe then fails instead
  std::signal(SIGXFSZ, SIG_IGN);  // NOLINT: and so does writing more than `ulimit -f` allows
  tenon::cli::end_on_interrupt();
  try {
    return tenon::cli::run_and_report(argc, argv);
  } catch (...) {
    std::fputs("error: internal error: could not report an error\n", stderr);
    return tenon::cli::kInternalError;
  }
}
