#include "web_module.h"

#include <fmt/format.h>

#include "artifact_info.h"
#include "backends/wasm/node.h"
#include "runnable.h"
#include "runtime/artifact.h"
#include "support/file.h"
#include "support/warning.h"

namespace tenon::cli {
namespace {

FileContent read_runtime(const std::string& given) {
  const std::string package = given.empty() ? wasm::package_folder() : "";
  if (given.empty() && package.empty())
    fail("there is no runtime for WebAssembly: build it by `make web`, or say in TENON_WEB where its package is");
  const std::string path = given.empty() ? package + "/tenon.wasm" : given;
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

}  // namespace

bool is_web_module(const std::string& path) { return path.ends_with(".wasm"); }

void require_web_runtime(const std::string& runtime) { read_runtime(runtime); }

int64_t write_web_module(const std::string& file, const std::string& runtime, const std::string& output) {
  warn_without_code(file);
  const FileContent code = read_runtime(runtime);
  const FileContent model = read_file(file).value();
  // A custom section, which engines skip: 0, its size, its name, and the file. js/tenon.mjs finds it by its name.
  constexpr std::string_view kName = "tenon.file";
  const std::string name = leb128(kName.size()) + std::string(kName);
  const std::string header = std::string(1, '\0') + leb128(name.size() + model.bytes.size()) + name;
  const std::span<const std::byte> pieces[] = {code.bytes, std::as_bytes(std::span(header)), model.bytes};
  write_file(output, pieces).value();
  return static_cast<int64_t>(code.bytes.size());
}

}  // namespace tenon::cli
