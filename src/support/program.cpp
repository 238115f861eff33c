#include "support/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "support/text.h"

namespace tenon {

bool can_run(const std::string& command) {
  const std::string program = command.substr(0, command.find(' '));
  if (program.empty()) return false;
  if (program.find('/') != program.npos) return access(program.c_str(), X_OK) == 0;
  const std::string path = environment("PATH");
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return true;
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return false;
}

}  // namespace tenon
