#include "support/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "support/blocks.h"
#include "support/diagnostic.h"
#include "support/file.h"
#include "support/program.h"
#include "support/text.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string find_compiler() {
  const std::string chosen = environment("TENON_CXX");
  if (chosen.find('/') != chosen.npos && access(chosen.c_str(), X_OK) == 0) return quoted(chosen);  // may have spaces
  if (!chosen.empty() && !can_run(chosen)) fail("cannot run the compiler {} that TENON_CXX names", chosen);
  for (const std::string& name : {chosen, environment("CXX"), std::string("c++"), std::string("g++"),
                                  std::string("clang++"), std::string("clang++-19")}) {
    if (can_run(name)) return name;
  }
  fail("there is no C++ compiler (c++, g++ or clang++): install one, or name one in TENON_CXX");
}

// A new folder. The destructor removes it with its files.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code missing;
    const fs::path parent = fs::temp_directory_path(missing);
    if (missing) fail("there is no folder {} for temporary files: see TMPDIR", environment("TMPDIR"));
    std::string path = (parent / "tenon-XXXXXX").string();
    if (!mkdtemp(path.data())) fail("cannot make the folder {}: {}", path, std::strerror(errno));
    path_ = path;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string file(std::string_view name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

void run_compiler(const std::string& command) {
  FILE* output = popen((command + " 2>&1").c_str(), "r");
  if (!output) fail("cannot run {}: {}", command, std::strerror(errno));
  std::string said;
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), output)) said.append(buffer.data(), count);
  if (pclose(output) != 0) fail("the C++ compiler failed:\n{}", indented(command + "\n" + said));
}

}  // namespace

std::shared_ptr<const SharedLibrary> SharedLibrary::compile(std::string_view source,
                                                            std::span<const std::string> flags) {
  std::string command = find_compiler();
  const TemporaryFolder folder;
  const std::string text = folder.file("source.cpp"), library = folder.file("library.so");
  write_file(text, source).value();
  for (const std::string& flag : flags) command += " " + quoted(flag);
  run_compiler(fmt::format("{} -shared -fPIC -o {} {}", command, quoted(library), quoted(text)));
  // The folder may be removed: a mapped file stays readable.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) fail("cannot load what the C++ compiler made: {}", dlerror());
  return std::shared_ptr<const SharedLibrary>(new SharedLibrary(handle));
}

SharedLibrary::~SharedLibrary() { dlclose(handle_); }

void* SharedLibrary::address(const std::string& name) const {
  void* address = dlsym(handle_, name.c_str());
  check(address != nullptr, "the library has no function {}", name);
  return address;
}

}  // namespace tenon
