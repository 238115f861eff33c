// The part of Context that runs tasks with sizes that are known only when they run, and calls of the host; and what it
// tells about a run.
#include "runtime/checked.h"
#include "runtime/context.h"
#include "runtime/elements.h"
#include "runtime/error.h"
#include "runtime/shared.h"

namespace tenon::runtime {

void Context::check_known(size_t symbol) const {
  if (symbols_[symbol] == kUnknown) fail(TENON_BAD_FILE, "the size ", graph_.symbols[symbol].name, " is not known yet");
}

int64_t Context::known_value(const Expr& expr) const {
  for (const Instruction& instruction : graph_.code.subspan(expr.first(), expr.count())) {
    if (instruction.op() != format::ExprOp::Symbol) continue;
    check_known(static_cast<size_t>(instruction.value()));
  }
  return evaluate(expr, graph_.code, symbols_);
}

int64_t Context::elements_of(uint32_t slot) const {
  int64_t elements = 1;
  for (int64_t size : view_of(slot).shape) elements = checked_mul(elements, size);
  return elements;
}

void Context::size_late(uint32_t slot) {
  const uint32_t root = graph_.slots[slot].root;
  if (frame_->elements[slot] >= 0 && frame_->elements[root] >= 0) return;
  int64_t* const sizes = late_sizes_.data() + program_->first_size(slot);
  for (size_t dim = 0; frame_->elements[slot] < 0 && dim < graph_.slots[slot].shape.size(); ++dim) {
    sizes[dim] = known_value(graph_.slots[slot].shape[dim]);
    if (sizes[dim] < 0) fail(TENON_INVALID_ARGUMENT, "a result would have a size of ", sizes[dim]);
  }
  if (slot != root && elements_of(slot) != elements_of(root)) {
    fail(TENON_BAD_FILE, "slot ", slot, " of ", elements_of(slot), " elements lies in one of ", elements_of(root));
  }
}

// Allocates the memory of a late tensor, until the last task that needs it.
void Context::place_late(uint32_t slot) {
  size_late(slot);
  if (!graph_.slots[slot].is_late) return;
  const int64_t bytes = checked_mul(elements_of(slot), size_of(graph_.slots[slot].dtype));
  const auto block = new_shared<Block>(allocate(bytes, text_of("slot ", slot)));
  hold(slot, block->data(), block, block.get());
}

void Context::hold(uint32_t root, void* data, std::shared_ptr<void> owner, Block* block) {
  retriever_.place(root, data);
  held_[root] = {std::move(owner), block};
}

void Context::bind_late(uint32_t slot, std::span<const int64_t> shape) {
  const std::span<const Expr> expected = graph_.slots[slot].shape;
  if (shape.size() != expected.size()) {
    fail(TENON_RUN_FAILED, "a result must be ", type_text(graph_, graph_.slots[slot]), ", got the shape ", shape);
  }
  for (size_t dim = 0; dim < expected.size(); ++dim) {
    const Instruction& only = graph_.code[expected[dim].first()];
    if (expected[dim].count() == 1 && only.op() == format::ExprOp::Symbol) {
      int64_t& value = symbols_[static_cast<size_t>(only.value())];
      const SymbolInfo& symbol = graph_.symbols[static_cast<size_t>(only.value())];
      if (value == kUnknown) value = shape[dim];
      if (value < symbol.low || value > symbol.high) {
        fail(TENON_RUN_FAILED, symbol.name, " is ", value, ", which is outside of [", symbol.low, ", ",
             symbol.high == INT64_MAX ? "inf" : text_of(symbol.high), "]");
      }
    }
    const int64_t wanted = known_value(expected[dim]);
    if (wanted != shape[dim]) {
      fail(TENON_RUN_FAILED, "dimension ", dim, " of a result must be ", expr_text(graph_, expected[dim]), " = ",
           wanted, ", got ", shape[dim]);
    }
  }
  size_late(slot);
}

void Context::launch_late(uint32_t i) {
  const TaskNode& task = graph_.tasks[i];
  for (uint32_t slot : task.inputs) size_late(slot);
  if (task.kind == TaskKind::Fallback) {
    run_fallback(i);
  } else if (task.kind == TaskKind::Library) {
    run_library(i);
  } else {
    for (uint32_t slot : task.outputs) place_late(slot);
    for (uint32_t symbol : task.sizes) check_known(symbol);
    retriever_.resolve(i, symbols_);
    check_late(i);
    run_kernel(i);
  }
  cleanup(i);
}

void Context::check_late(uint32_t i) const {
  const TaskNode& task = graph_.tasks[i];
  const PortableKernel* const kernel = program_->kernel(task.kernel).portable.get();
  if (kernel == nullptr) return;
  std::vector<int64_t> elements;
  for (const auto& slots : {task.inputs, task.outputs}) {
    for (uint32_t slot : slots) elements.push_back(elements_of(slot));
  }
  check_arguments(task, *kernel, retriever_.args(i), elements);
}

void Context::run_fallback(uint32_t i) {
  const TaskNode& task = graph_.tasks[i];
  std::vector<TensorView> operands;
  for (uint32_t slot : task.inputs) operands.push_back(view_of(slot));
  const FallbackCall& fallback = program_->fallback();
  std::vector<FallbackResult> results =
      fallback ? fallback(i, operands, symbols_) : run_call(program_->host_call(i), graph_, task, operands);
  if (results.size() != task.outputs.size()) {
    fail(TENON_RUN_FAILED, "the call gave ", results.size(), " results, where ", task.outputs.size(), " were promised");
  }
  for (size_t k = 0; k < results.size(); ++k) {
    bind_late(task.outputs[k], results[k].shape);
    hold(task.outputs[k], results[k].data, std::move(results[k].owner), nullptr);
  }
}

// Frees the memory of late tensors after their last reader.
void Context::cleanup(uint32_t task) {
  for (const auto& slots : {graph_.tasks[task].inputs, graph_.tasks[task].outputs}) {
    for (uint32_t slot : slots) {
      const uint32_t root = graph_.slots[slot].root;
      if (graph_.slots[root].is_late && graph_.slots[root].last_task <= task) held_[root] = {};
    }
  }
}

// ---- telemetry ------------------------------------------------------------------------------------------------------

int64_t Context::bytes_of_task(uint32_t task) const {
  const TaskNode& node = graph_.tasks[task];
  if (node.bytes && graph_.is_bound(*node.bytes)) return evaluate(*node.bytes, graph_.code, symbols_);
  int64_t bytes = 0;
  for (const auto& slots : {node.inputs, node.outputs}) {
    for (uint32_t slot : slots) {
      if (frame_->elements[slot] < 0) return -1;
      bytes += bytes_of(slot);
    }
  }
  return bytes;
}

int64_t Context::flops_of_task(uint32_t task) const {
  const TaskNode& node = graph_.tasks[task];
  return node.flops && graph_.is_bound(*node.flops) ? evaluate(*node.flops, graph_.code, symbols_) : -1;
}

}  // namespace tenon::runtime
