// A backend of one's own: it measures the kernels that it is given, and lets the interpreter run them.
#include <chrono>
#include <cstdio>

#include "backends/backend.h"
#include "named/tensor.h"

using namespace tenon;
using loops::LoopTree;
using Clock = std::chrono::steady_clock;

namespace {

// [backend]
struct TimedKernel : Compiled {
  explicit TimedKernel(const LoopTree& t) : kernel(find_backend("interpreter").value()->compile(t).value()) {}
  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool sync) const override {
    const auto start = Clock::now();
    kernel->run(memory, sizes, sync);
    std::printf("%g us\n", std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::unique_ptr<Compiled> kernel;
};
struct Timed : Backend {
  Timed() : Backend("timed") {}
  int hardware_requirement() const override { return kCpu; }
  std::unique_ptr<Compiled> compile_impl(const LoopTree& t) const override { return std::make_unique<TimedKernel>(t); }
};
const RegisterBackend kTimed(std::make_shared<Timed>());
// [backend]

}  // namespace

int main() {
  try {
    const named::Symbol m("m"), k("k"), n("n");
    const named::Tensor a({m, k}), b({k, n});
    const named::Tensor product = (a * b).sum(k);
    a.bind(Tensor::zeros(DType::kF32, {32, 16}));
    b.bind(Tensor::zeros(DType::kF32, {16, 8}));
    std::fputs(product.backend("timed").loop_tree().dump().c_str(), stdout);
    return product.data().shape() == Sizes{32, 8} ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
