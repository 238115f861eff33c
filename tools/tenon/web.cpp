// tenon web: a compiled model and the runtime that runs it, as one WebAssembly module.
#include <fmt/format.h>

#include <memory>

#include "artifact_info.h"
#include "command.h"
#include "output_files.h"
#include "runnable.h"
#include "terminal.h"
#include "units.h"
#include "web_module.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(The module is the runtime for WebAssembly with the file in it: Program.load of tenon.mjs opens it, in a page or in
Node. Compile the model for WebAssembly; code for other CPUs only makes the module larger.

Examples:
  tenon compile model.pt2 -o model.tenon --cpu wasm32,wasm32-relaxed
  tenon web model.tenon -o model.wasm)";

struct Options {
  std::string path;
  std::string output;
  std::string runtime;
};

void write_module(const Options& options) {
  require_writable_file(options.output);
  const int64_t runtime = write_web_module(options.path, options.runtime, options.output);
  print(fmt::format("{}: {}; the runtime is {}, the model {}\n", options.output, bytes_text(file_bytes(options.output)),
                    bytes_text(runtime), bytes_text(file_bytes(options.path))));
}

}  // namespace

Command web_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("web", "Make one WebAssembly module of a compiled model and the runtime");
  app->add_option("FILE", options->path, "A .tenon file")->required()->type_name("");
  app->add_option("-o,--output", options->output, "The module to write")->required()->type_name("FILE.wasm");
  app->add_option("--runtime", options->runtime, "The runtime: tenon.wasm of `make web`")->type_name("FILE");
  app->footer(kFooter);
  return {app, [options] { write_module(*options); }};
}

}  // namespace tenon::cli
