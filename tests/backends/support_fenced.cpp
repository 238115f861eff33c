#include "tests/backends/support_fenced.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "codegen/objects.h"
#include "codegen/target.h"
#include "runtime/loader.h"
#include "tests/arm64/support_emulator.h"
#include "tests/backends/support_fenced_call.h"

namespace tenon::test {
namespace {

using runtime::LoadedCode;

using CallFn = std::function<FencedResult(std::span<const FencedArray> arrays, std::span<const int64_t> sizes)>;

class FencedKernel : public Compiled {
 public:
  FencedKernel(CallFn call, loops::IR ir) : call_(std::move(call)), ir_(std::move(ir)) {}

  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool) const override {
    check_arguments(ir_, memory, sizes);
    const FencedResult result = call_(arrays_at(memory, sizes), sizes);
    if (!result.complaints.empty()) ADD_FAILURE() << result.complaints << to_string(ir_);
    if (result.code != 0) {
      const auto& [kind, node, value, bound] = result.error;
      fail("%{} fails with {}: {}, {}", ir_.nodes()[static_cast<size_t>(node)].name, kind, value, bound);
    }
  }

 private:
  std::vector<FencedArray> arrays_at(std::span<void* const> memory, std::span<const int64_t> sizes) const {
    symbolic::Bindings bindings;
    for (size_t i = 0; i < sizes.size(); ++i) bindings.emplace(ir_.size_symbols()[i], sizes[i]);
    const size_t reads = ir_.reads().size();
    std::vector<FencedArray> arrays;
    for (size_t i = 0; i < memory.size(); ++i) {
      const loops::NodeRef ref = i < reads ? ir_.reads()[i] : ir_.writes()[i - reads];
      const TensorType type = ir_.type(ref);
      const int64_t element = size_of(type.dtype), bytes = element_count(evaluate(type.shape, bindings)) * element;
      arrays.push_back({"%" + ir_.node(ref).name, memory[i], static_cast<size_t>(bytes), element, i >= reads});
    }
    return arrays;
  }

  CallFn call_;
  loops::IR ir_;
};

CallFn in_this_process(const std::string& object) {
  const auto code = LoadedCode::load(object);
  return [code, function = code->function<std::remove_pointer_t<tenon_kernel>>(codegen::kObjectFunction)](
             auto arrays, auto sizes) { return call_fenced(function, arrays, sizes); };
}

CallFn in_emulator(const std::string& object, int sve_bits) {
  Arm64Emulator& emulator = Arm64Emulator::get(sve_bits);
  return [&emulator, kernel = emulator.load(object, codegen::kObjectFunction)](auto arrays, auto sizes) {
    return emulator.call(kernel, arrays, sizes);
  };
}

bool is_emulated(const codegen::Target& target) {
  return target.arch == codegen::Arch::kArm64 && !codegen::runs_here(target);
}

struct FencedBackend : Backend {
  FencedBackend() : Backend("fenced") {}
  int hardware_requirement() const override { return kCpu; }
  loops::LoopTree schedule(const loops::IR& kernel) const override { return cpu_->schedule(kernel); }
  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override {
    const loops::LoopTree* const trees[] = {&tree};
    return std::move(compile_fenced(trees)[0]);
  }

 private:
  std::shared_ptr<const Backend> cpu_ = find_backend("cpu").value();
};

}  // namespace

std::string cannot_run(std::string_view cpu) {
  const codegen::Target target = codegen::find_target(cpu);
  if (is_emulated(target)) return Arm64Emulator::missing();
  return codegen::runs_here(target) ? "" : fmt::format("this machine does not run code for {}", target.name);
}

std::vector<std::unique_ptr<Compiled>> compile_fenced(std::span<const loops::LoopTree* const> trees,
                                                      const CpuOptions& options) {
  const auto cache = options.use_cache ? codegen::ObjectCache::from_environment() : std::nullopt;
  const codegen::Target target = codegen::find_target(options.cpu);
  const codegen::Objects objects = codegen::compile_objects(trees, target, cache ? &*cache : nullptr);
  std::vector<std::unique_ptr<Compiled>> kernels;
  for (size_t i = 0; i < trees.size(); ++i) {
    const std::string& object = objects.objects[objects.of_tree[i]];
    CallFn call = is_emulated(target) ? in_emulator(object, target.sve_bits) : in_this_process(object);
    kernels.push_back(std::make_unique<FencedKernel>(std::move(call), trees[i]->ir));
  }
  return kernels;
}

std::shared_ptr<const Backend> fenced_cpu() { return std::make_shared<FencedBackend>(); }

}  // namespace tenon::test
