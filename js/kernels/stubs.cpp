// Replaces parts that a compiler in a page does not have: devices of plug-ins, library functions, instructions for
// tiles, the environment, the operating system.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

#include "backends/device_backend.h"
#include "backends/plugin/plugin.h"
#include "runtime/device.h"
#include "runtime/library.h"
#include "schedule/attention_kernel.h"
#include "schedule/tiled_convolution.h"

namespace tenon {

std::shared_ptr<const Backend> plugin_backend(std::string_view) { return nullptr; }
std::shared_ptr<const Backend> with_options(const Backend&, std::string_view) { return nullptr; }
std::optional<loops::LoopTree> schedule_tiled_convolution(const loops::IR&, const Machine&) { return {}; }
void take_tiles(loops::IR&, AttentionKernel&, const Machine&) {}
std::vector<std::string_view> runtime::device_names() { return {}; }
std::string_view runtime::name_of_spec(std::string_view spec) { return spec; }
const runtime::LibraryFunction* runtime::find_library_function(std::string_view) { return nullptr; }

}  // namespace tenon

// The C++ library's own need 100 KB of tables. These write 1e22 another way, which is read back to the same number.
namespace {

template <class T>
std::to_chars_result shortest(char* first, char* last, T value) {
  const auto [end, size] = fmt::format_to_n(first, static_cast<size_t>(last - first), "{}", value);
  if (size > static_cast<size_t>(last - first)) return {last, std::errc::value_too_large};
  return {end, std::errc()};
}

}  // namespace

std::to_chars_result std::to_chars(char* first, char* last, double value) { return shortest(first, last, value); }
std::to_chars_result std::to_chars(char* first, char* last, float value) { return shortest(first, last, value); }

extern "C" char* getenv(const char*) { return nullptr; }

// The memory that 32 bits address, for the limit of a tensor.
extern "C" long sysconf(int name) {  // NOLINT(google-runtime-int): the C library's type
  constexpr int kPageBytes = 1 << 16, kPages = (1 << 16) - 1;
  return name == _SC_PHYS_PAGES ? kPages : kPageBytes;
}
