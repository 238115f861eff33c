// The backend: compiles the text, loads and runs it.
#include <fmt/format.h>

#include "backends/cpp/cpp.h"
#include "backends/native_kernel.h"
#include "support/shared_library.h"

namespace tenon {
namespace {

class CppKernel : public NativeKernel {
 public:
  CppKernel(tenon_kernel function, std::shared_ptr<const SharedLibrary> library, std::string text, loops::IR ir)
      : NativeKernel(function, std::move(library), std::move(ir)), text_(std::move(text)) {}

  std::string dump() const override { return cpp_file(text_); }

 private:
  std::string text_;
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
    const tenon_kernel function = library->function<std::remove_pointer_t<tenon_kernel>>(name(i));
    kernels.push_back(std::make_unique<CppKernel>(function, library, std::move(texts[i]), trees[i]->ir));
  }
  return kernels;
}

}  // namespace tenon
