// The backend: compiles the text, loads and runs it.
#include "backends/cpp/cpp.h"
#include "support/shared_library.h"
#include "runtime/thread_pool.h"

namespace tenon {
namespace {

using ParallelFor = int64_t(int64_t begin, int64_t end, StretchFn stretch, void* context);
using KernelFn = int64_t(void* const* memory, const int64_t* sizes, int64_t* error, ParallelFor* parallel);

enum ErrorKind : int64_t { kOutOfRange = 1, kDivisionByZero, kOutOfMemory };  // as in prelude.h

class CppKernel : public Compiled {
 public:
  CppKernel(std::shared_ptr<const SharedLibrary> library, KernelFn* run, std::string text, loops::IR ir)
      : library_(std::move(library)), run_(run), text_(std::move(text)), ir_(std::move(ir)) {}

  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool) const override {
    check_arguments(ir_, memory, sizes);
    int64_t error[4] = {};
    if (run_(memory.data(), sizes.data(), error, parallel_for) != 0) report(error);
  }

  std::string dump() const override { return cpp_file(text_); }

 private:
  [[noreturn]] void report(const int64_t (&error)[4]) const {
    const auto [kind, node, value, bound] = error;
    const std::string& name = ir_.nodes()[static_cast<size_t>(node)].name;
    if (kind == kOutOfRange) fail("%{}: index {} is out of range for a size of {}", name, value, bound);
    if (kind == kDivisionByZero) fail("%{}: integer division of {} by zero", name, value);
    fail("%{}: there is no memory for its scratch", name);
  }

  std::shared_ptr<const SharedLibrary> library_;
  KernelFn* run_;
  std::string text_;
  loops::IR ir_;
};

struct CppBackend : Backend {
  CppBackend() : Backend("cpp") {}
  std::string doc() const override { return "C++17 with vectors and threads, compiled by the system's compiler"; }
  int hardware_requirement() const override { return kCpu; }
  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override {
    const loops::LoopTree* const trees[] = {&tree};
    return std::move(compile_cpp(trees)[0]);
  }
};

const RegisterBackend kRegistration(std::make_shared<CppBackend>());

}  // namespace

std::vector<std::unique_ptr<Compiled>> compile_cpp(std::span<const loops::LoopTree* const> trees,
                                                   const CppOptions& options) {
  const auto name = [](size_t i) { return fmt::format("tenon_kernel_{}", i); };
  std::vector<std::string> texts;
  for (const loops::LoopTree* tree : trees) texts.push_back(emit_cpp_function(*tree, name(texts.size())));
  std::vector<std::string> flags = {"-std=c++17", "-march=native", "-fno-math-errno", "-w"};
  flags.push_back(fmt::format("-O{}", options.optimization));
#ifdef __x86_64__
  flags.emplace_back("-mprefer-vector-width=512");
#endif
  flags.insert(flags.end(), options.flags.begin(), options.flags.end());
  const auto library = SharedLibrary::compile(cpp_file(fmt::format("{}", fmt::join(texts, "\n"))), flags);
  std::vector<std::unique_ptr<Compiled>> kernels;
  for (size_t i = 0; i < trees.size(); ++i) {
    KernelFn* const run = library->function<KernelFn>(name(i));
    kernels.push_back(std::make_unique<CppKernel>(library, run, std::move(texts[i]), trees[i]->ir));
  }
  return kernels;
}

}  // namespace tenon
