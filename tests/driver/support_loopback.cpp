#include "tests/driver/support_loopback.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>

#include "runtime/device.h"

namespace tenon::test {

// Tests lie in bin/ of the build folder.
std::string loopback_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "accelerators/loopback.so";
}

void load_loopback() { runtime::load_plugin(loopback_path()); }

namespace {

long counter(const char* name) {
  void* const library = ::dlopen(loopback_path().c_str(), RTLD_NOW | RTLD_NOLOAD);
  const auto* const count = static_cast<const std::atomic<long>*>(::dlsym(library, name));
  ::dlclose(library);
  return count->load();
}

}  // namespace

long loopback_live() { return counter("loopback_live"); }
long loopback_copies() { return counter("loopback_copies"); }

std::vector<Tensor> random_inputs(const Graph& graph, int64_t n, Random& random) {
  std::vector<Tensor> inputs;
  for (ValueRef input : graph.inputs()) {
    const TensorType& type = graph.type(input);
    const Sizes sizes = evaluate(type.shape, {{Symbol("N"), n}});
    inputs.push_back(random_tensor({type.dtype, to_shape(sizes)}, {}, {-2, 2}, random));
  }
  return inputs;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  const auto bytes = static_cast<size_t>(x.numel() * size_of(x.dtype()));
  return x.shape() == y.shape() && x.dtype() == y.dtype() && std::memcmp(x.data(), y.data(), bytes) == 0;
}

size_t count_of(const Program& program, TaskKind kind) {
  return static_cast<size_t>(std::ranges::count(program.tasks, kind, &Task::kind));
}

}  // namespace tenon::test
