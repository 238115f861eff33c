// Where a command is to write: looked at before its work, which may take hours and would be lost.
#pragma once

#include <functional>
#include <set>
#include <string>

namespace tenon::cli {

// Throw an Error that names the path where it cannot be written: the folder is missing or closed, or something else is
// there. An empty path is no output, and passes. Nothing is written or made.
void require_writable_file(const std::string& path);
void require_regular_file(const std::string& path);     // likewise, where a terminal or a pipe will not do
void require_writable_folder(const std::string& path);  // or one that can be made, with those around it

// Thrown for the exit code alone, when every error has been shown.
struct ReportedFailure {};

// The outputs of a command. Each is tried, whatever became of the others.
class Outputs {
 public:
  // An Error of `write` is shown on standard error, the same one once. That nobody reads standard output any more is
  // no error.
  void attempt(const std::function<void()>& write);
  void finish() const;  // throws a ReportedFailure where an attempt failed

 private:
  std::set<std::string> failures_;
};

}  // namespace tenon::cli
