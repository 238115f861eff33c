#include "backends/bound.h"

#include "backends/moved.h"
#include "schedule/ahead.h"

namespace tenon {
namespace {

class BoundKernel : public Compiled {
 public:
  BoundKernel(const loops::IR& ir, std::unique_ptr<Compiled> kernel, std::vector<AheadOfTime::Input> inputs,
              std::vector<Tensor> prepared)
      : ir_(ir), kernel_(std::move(kernel)), inputs_(std::move(inputs)), prepared_(std::move(prepared)) {}

  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool sync) const override {
    check_arguments(ir_, memory, sizes);
    std::vector<void*> all;
    for (const AheadOfTime::Input& input : inputs_) {
      all.push_back(input.preparation < 0 ? memory[static_cast<size_t>(input.slot)]
                                          : prepared_[static_cast<size_t>(input.preparation)].data());
    }
    const auto outputs = memory.subspan(ir_.reads().size());
    all.insert(all.end(), outputs.begin(), outputs.end());
    kernel_->run(all, sizes, sync);
  }

  std::string dump() const override { return kernel_->dump(); }

 private:
  loops::IR ir_;
  std::unique_ptr<Compiled> kernel_;
  std::vector<AheadOfTime::Input> inputs_;
  std::vector<Tensor> prepared_;
};

void check_constants(const loops::IR& ir, const std::map<int64_t, Tensor>& constants) {
  for (const auto& [slot, tensor] : constants) {
    if (slot < 0 || slot >= static_cast<int64_t>(ir.reads().size())) {
      fail("kernel {} has no input {}: it has {}", ir.name(), slot, ir.reads().size());
    }
    const TensorType wanted = ir.type(ir.reads()[static_cast<size_t>(slot)]);
    if (!tensor.defined() || type_of(tensor) != wanted) {
      fail("constant {} of kernel {} must be {}, got {}", slot, ir.name(), to_string(wanted),
           tensor.defined() ? to_string(type_of(tensor)) : "nothing");
    }
  }
}

// Constants that the kernel reads without preparation become prepared arrays too.
void hold_constants(std::vector<AheadOfTime::Input>& inputs, const std::map<int64_t, Tensor>& constants,
                    std::vector<Tensor>& prepared) {
  for (AheadOfTime::Input& input : inputs) {
    const auto constant = constants.find(input.slot);
    if (input.preparation >= 0 || constant == constants.end()) continue;
    input.preparation = std::ssize(prepared);
    prepared.push_back(constant->second.contiguous());
  }
}

}  // namespace

Tensor Preparer::run(const loops::IR& kernel, const std::vector<Tensor>& inputs) {
  if (inputs.size() == 1) {
    if (std::optional<Tensor> result = moved(kernel, inputs[0])) return *std::move(result);
  }
  std::unique_ptr<Compiled>& compiled = kernels_[to_string(kernel)];
  if (!compiled) compiled = backend_->compile(backend_->schedule(kernel)).value();
  return tenon::run(*compiled, kernel, inputs).value()[0];
}

std::unique_ptr<Compiled> compile_bound(const Backend& backend, const loops::LoopTree& tree,
                                        const std::map<int64_t, Tensor>& constants) {
  check_constants(tree.ir, constants);
  std::set<int64_t> slots;
  for (const auto& [slot, tensor] : constants) slots.insert(slot);
  AheadOfTime ahead = split_ahead(tree, slots);
  std::vector<Tensor> prepared;
  Preparer preparer(backend);
  for (const Preparation& preparation : ahead.preparations) {
    std::vector<Tensor> inputs;
    for (int64_t slot : preparation.inputs) inputs.push_back(constants.at(slot));
    prepared.push_back(preparer.run(preparation.kernel, inputs));
  }
  hold_constants(ahead.inputs, constants, prepared);
  return std::make_unique<BoundKernel>(tree.ir, backend.compile(ahead.tree).value(), std::move(ahead.inputs),
                                       std::move(prepared));
}

}  // namespace tenon
