#include "tests/driver/support_loopback.h"

#include <filesystem>

#include "runtime/device.h"

namespace tenon::test {

// Tests lie in bin/ of the build folder.
std::string loopback_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "accelerators/loopback.so";
}

void load_loopback() { runtime::load_plugin(loopback_path()); }

}  // namespace tenon::test
