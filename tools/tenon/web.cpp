// tenon web: a compiled model and the runtime that runs it, as one WebAssembly module.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "artifact_info.h"
#include "command.h"
#include "output_files.h"
#include "runnable.h"
#include "runtime/artifact.h"
#include "support/file.h"
#include "support/warning.h"
#include "terminal.h"
#include "units.h"

namespace tenon::cli {
namespace {

namespace fs = std::filesystem;

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

// Beside the build of this program, as `make web` leaves it.
std::string default_runtime() {
  return fs::weakly_canonical(fs::read_symlink("/proc/self/exe").parent_path() / "../web/tenon.wasm").string();
}

FileContent read_runtime(const std::string& given) {
  const std::string path = given.empty() ? default_runtime() : given;
  if (given.empty() && !fs::exists(path))
    fail("there is no runtime for WebAssembly at {}: say `make web`, or say with --runtime where its tenon.wasm is",
         path);
  FileContent content = read_file(path).value();
  if (!content.text().starts_with(std::string_view("\0asm\1\0\0\0", 8))) fail_at({path}, "is no WebAssembly module");
  return content;
}

void warn_without_code(const std::string& path) {
  const auto container = open_artifact(path);
  for (const std::string& entry : runtime::entry_names(*container)) {
    for (const LevelInfo& level : levels_of(*container, entry)) {
      if (level.cpu.starts_with("wasm32")) return;
    }
  }
  warn_once(path +
            " has no code for wasm32 and will run on the portable interpreter, slowly: compile it with --cpu "
            "wasm32,wasm32-relaxed");
}

std::string leb128(size_t number) {
  std::string text;
  for (; number >= 0x80; number >>= 7) text += static_cast<char>(number | 0x80);
  return text + static_cast<char>(number);
}

void write_module(const Options& options) {
  require_writable_file(options.output);
  warn_without_code(options.path);
  const FileContent runtime = read_runtime(options.runtime);
  const FileContent file = read_file(options.path).value();
  // A custom section, which engines skip: 0, its size, its name, and the file. js/tenon.mjs finds it by its name.
  constexpr std::string_view kName = "tenon.file";
  const std::string name = leb128(kName.size()) + std::string(kName);
  const std::string header = std::string(1, '\0') + leb128(name.size() + file.bytes.size()) + name;
  const std::span<const std::byte> pieces[] = {runtime.bytes, std::as_bytes(std::span(header)), file.bytes};
  write_file(options.output, pieces).value();
  print(fmt::format("{}: {}; the runtime is {}, the model {}\n", options.output, bytes_text(file_bytes(options.output)),
                    bytes_text(static_cast<int64_t>(runtime.bytes.size())),
                    bytes_text(static_cast<int64_t>(file.bytes.size()))));
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
