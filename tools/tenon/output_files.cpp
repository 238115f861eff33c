#include "output_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "terminal.h"

namespace tenon::cli {
namespace {

namespace fs = std::filesystem;

std::optional<mode_t> mode_of(const fs::path& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? std::optional(info.st_mode) : std::nullopt;
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

[[noreturn]] void refuse(const std::string& path, int error) {
  fail_at({path}, "cannot write: {}", std::generic_category().message(error));
}

void require_access(const std::string& path, const fs::path& of, int mode) {
  if (::access(of.c_str(), mode) != 0) refuse(path, errno);
}

void require_open_folder(const std::string& path, const fs::path& folder) {
  const std::optional<mode_t> mode = mode_of(folder);
  if (!mode) refuse(path, errno);
  if (!S_ISDIR(*mode)) refuse(path, ENOTDIR);
  require_access(path, folder, W_OK | X_OK);
}

}  // namespace

void require_writable_file(const std::string& path) {
  if (path.empty()) return;
  const std::optional<mode_t> mode = mode_of(path);
  if ((mode && S_ISDIR(*mode)) || path.ends_with('/')) refuse(path, EISDIR);
  if (mode && !S_ISREG(*mode)) return require_access(path, path, W_OK);  // a terminal, a pipe
  std::error_code error;
  const fs::path target = mode ? fs::canonical(path, error) : fs::path(path);  // a link stays, and its target changes
  require_open_folder(path, folder_of(error ? fs::path(path) : target));
}

void require_regular_file(const std::string& path) {
  require_writable_file(path);
  const std::optional<mode_t> mode = path.empty() ? std::nullopt : mode_of(path);
  if (mode && !S_ISREG(*mode)) fail_at({path}, "cannot write: this is not a regular file");
}

void require_writable_folder(const std::string& path) {
  if (path.empty()) return;
  fs::path there = path;
  while (!mode_of(there) && there != folder_of(there)) there = folder_of(there);
  require_open_folder(path, there);
}

void Outputs::attempt(const std::function<void()>& write) {
  try {
    write();
  } catch (const ClosedPipe&) {
  } catch (const Error& error) {
    const std::string text = render(error.diagnostic());
    if (failures_.insert(text).second) print_error(text);
  }
}

void Outputs::finish() const {
  if (!failures_.empty()) throw ReportedFailure();
}

}  // namespace tenon::cli
