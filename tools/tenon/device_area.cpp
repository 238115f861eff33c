#include "device_area.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "support/diagnostic.h"

extern char** environ;

namespace tenon::cli {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File temporary_file() {
  File file(std::tmpfile(), std::fclose);
  if (!file) fail("cannot make a temporary file: {}", std::generic_category().message(errno));
  return file;
}

std::string content(std::FILE* file) {
  std::string text;
  std::array<char, 4096> piece = {};
  std::rewind(file);
  while (const size_t count = std::fread(piece.data(), 1, piece.size(), file)) text.append(piece.data(), count);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// Returns the exit status; -1 if a signal ended the program.
int run_program(const std::string& program, const SweepOptions& options, std::FILE* out, std::FILE* err) {
  std::vector<std::string> words{program};
  for (const auto& [option, value] : options) words.push_back(fmt::format("{}={}", option, value));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(out), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(err), STDERR_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail("cannot run {}: {}", program, std::generic_category().message(error));
  int status = 0;
  while (::waitpid(child, &status, 0) == -1 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string area_program_of(const std::string& library) {
  std::filesystem::path path = library;
  path.replace_extension(".area");
  if (!path.has_parent_path()) path = "." / path;
  return ::access(path.c_str(), X_OK) == 0 ? path.string() : "";
}

DeviceArea area_of(const std::string& program, const SweepOptions& options) {
  const File out = temporary_file(), err = temporary_file();
  const int status = run_program(program, options, out.get(), err.get());
  if (status != 0) fail("{} ended with {}: {}", program, status, content(err.get()));
  const std::string text = content(out.get());
  const std::string line = text.substr(0, text.find('\n'));
  DeviceArea area;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), area.amount);
  if (error != std::errc() || *end != ' ' || !(area.amount > 0))
    fail("{} printed '{}'; its first line must be an amount and a unit, as in \"81234 cells\"", program, line);
  area.unit = end + 1;
  return area;
}

}  // namespace tenon::cli
