// The `interpreter` backend: runs portable kernels with the runtime's interpreter. It does not cut loops into stretches
// and tests every guard, so it checks the other backends. Like the reference, it folds floating-point numbers in double
// and rounds when they are read.
//
// It ignores `unroll` and `tile`. It runs the iterations of a parallel or vectorized loop backwards, so that a tree
// whose result depends on their order fails tests.
#include "backends/backend.h"
#include "backends/interpreter/portable_kernel.h"
#include "runtime/portable_kernel.h"
#include "runtime/services.h"
#include "support/runtime_call.h"

namespace tenon {
namespace {

class Interpreted : public Compiled {
 public:
  explicit Interpreted(const loops::LoopTree& tree)
      : tree_(tree), bytes_(portable_kernel(tree)), kernel_(load(bytes_)) {}

  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool) const override {
    check_arguments(tree_.ir, memory, sizes);
    int64_t error[4] = {};
    const int64_t kind =
        call_runtime([&] { return kernel_.run(memory.data(), sizes.data(), error, tenon_default_services()); });
    if (kind != 0) fail("{}", kernel_.describe(error));
  }
  std::string dump() const override { return tree_.dump(); }

 private:
  static runtime::PortableKernel load(const std::string& bytes) {
    return call_runtime([&] { return runtime::PortableKernel::load(std::as_bytes(std::span(bytes))); });
  }

  loops::LoopTree tree_;
  std::string bytes_;
  runtime::PortableKernel kernel_;
};

struct Interpreter : Backend {
  Interpreter() : Backend("interpreter") {}
  std::string doc() const override { return "runs the loop tree without machine code: exact, for tests"; }
  int hardware_requirement() const override { return kCpu; }
  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override {
    return std::make_unique<Interpreted>(tree);
  }
};

const RegisterBackend kRegistration(std::make_shared<Interpreter>());

}  // namespace
}  // namespace tenon
