#include "driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

namespace tenon::cuda {
namespace {

constexpr int kOldestVersion = 12040;  // 12.4: cuFuncGetParamInfo

std::string path_of_driver() {
  const char* const named = std::getenv("TENON_CUDA_DRIVER");
  return named == nullptr || *named == 0 ? "libcuda.so.1" : named;
}

std::string version_text(int version) { return text_of(version / 1000, ".", version % 1000 / 10); }

void find_functions(Driver& driver, void* library, const std::string& path) {
  const auto find = [&](auto& member, const char* symbol) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, symbol));
    if (member != nullptr) return;
    int version = 0;
    if (driver.version != nullptr) driver.version(&version);
    fail(TENON_UNSUPPORTED, "the driver of the GPU (", path, ", for CUDA ", version_text(version), ") has no ", symbol,
         ": install a driver for CUDA ", version_text(kOldestVersion), " or newer (550 or newer)");
  };
#define TENON_CUDA_FIND(member, symbol, parameters) find(driver.member, symbol);
  TENON_CUDA_DRIVER_FUNCTIONS(TENON_CUDA_FIND)
#undef TENON_CUDA_FIND
}

// Why no GPU is seen, as far as the environment says it.
std::string hidden_by() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return "";
  return text_of(": CUDA_VISIBLE_DEVICES is '", visible, "', which leaves none; unset it to use them");
}

Driver opened(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    fail(TENON_UNSUPPORTED, "this machine has no driver for NVIDIA GPUs: ", path, " cannot be opened (", dlerror(),
         ")");
  Driver driver;
  find_functions(driver, library, path);
  int version = 0;
  driver.check(driver.version(&version), "ask the driver of the GPU for its version");
  if (version < kOldestVersion)
    fail(TENON_UNSUPPORTED, "the driver of the GPU is for CUDA ", version_text(version), "; Tenon needs one for CUDA ",
         version_text(kOldestVersion), " or newer (550 or newer)");
  const Result started = driver.init(0);
  if (started == kNoDevice) fail(TENON_UNSUPPORTED, "the driver finds no GPU", hidden_by());
  if (started != kSuccess) fail(TENON_UNSUPPORTED, "the driver of the GPU does not start: ", driver.describe(started));
  return driver;
}

}  // namespace

std::string Driver::describe(Result error) const {
  const char *name = nullptr, *text = nullptr;
  if (error_name(error, &name) != kSuccess || name == nullptr) name = "an unknown error";
  if (error_text(error, &text) != kSuccess || text == nullptr) text = "the driver does not know it";
  return text_of(text, " (", name, ", ", error, ")");
}

void Driver::fail_for(Result result, const char* what) const {
  fail(result == kOutOfMemory ? TENON_OUT_OF_MEMORY : TENON_RUN_FAILED, "cannot ", what, ": ", describe(result));
}

const Driver& find_driver() {
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, Driver>;  // NOLINT: devices need theirs until the process ends
  const std::lock_guard lock(mutex);
  const std::string path = path_of_driver();
  const auto found = known.find(path);
  return found != known.end() ? found->second : known.emplace(path, opened(path)).first->second;
}

int count_devices(const Driver& driver) {
  int count = 0;
  const Result result = driver.device_count(&count);
  if (result == kNoDevice || (result == kSuccess && count == 0))
    fail(TENON_UNSUPPORTED, "the driver finds no GPU", hidden_by());
  driver.check(result, "count the GPUs");
  return count;
}

}  // namespace tenon::cuda
