#include "backends/plugin/plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "backends/cpu/cpu.h"
#include "backends/device_backend.h"
#include "backends/plugin/segment_form.h"
#include "graph/node_symbols.h"
#include "graph/runtime_dtype.h"
#include "schedule/default_schedule.h"
#include "support/runtime_call.h"
#include "tiles/compile.h"
#include "tiles/layer.h"

namespace tenon {
namespace {

using runtime::Device;
using runtime::DeviceBlock;
using runtime::DeviceProgram;

class DeviceKernel : public Compiled {
 public:
  DeviceKernel(std::shared_ptr<const DeviceProgram> program, std::vector<Expr> sizes, std::string text,
               std::optional<loops::IR> ir)
      : program_(std::move(program)), sizes_(std::move(sizes)), text_(std::move(text)), ir_(std::move(ir)) {}

  // Brings host memory to the device and back: for callers of one kernel. Programs keep tensors on the device.
  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool) const override {
    check(ir_.has_value(), "a segment of a device runs as part of a program");
    check_arguments(*ir_, memory, sizes);
    symbolic::Bindings bindings;
    const std::vector<Symbol> symbols = ir_->size_symbols();
    for (size_t i = 0; i < symbols.size(); ++i) bindings[symbols[i]] = sizes[i];
    call_runtime([&] { run_once(memory, bindings); });
  }

  std::string dump() const override { return text_; }
  std::shared_ptr<const DeviceProgram> device_program() const override { return program_; }
  std::vector<Expr> launch_sizes() const override { return sizes_; }

 private:
  std::vector<int64_t> bytes_of_arrays(const symbolic::Bindings& bindings) const {
    std::vector<int64_t> bytes;
    for (const auto& nodes : {ir_->reads(), ir_->writes()}) {
      for (loops::NodeRef node : nodes) {
        const TensorType type = ir_->type(node);
        bytes.push_back(size_of(type.dtype));
        for (int64_t size : evaluate(type.shape, bindings)) bytes.back() *= size;
      }
    }
    return bytes;
  }

  void run_once(std::span<void* const> memory, const symbolic::Bindings& bindings) const {
    Device& device = program_->device();
    const std::vector<int64_t> bytes = bytes_of_arrays(bindings);
    std::vector<DeviceBlock> blocks;
    std::vector<void*> buffers;
    for (size_t i = 0; i < memory.size(); ++i) {
      blocks.emplace_back(program_->shared_device(), bytes[i]);
      buffers.push_back(blocks.back().data());
      if (i < ir_->reads().size()) device.wait(device.copy_in(buffers[i], memory[i], bytes[i]));
    }
    std::vector<int64_t> sizes;
    for (const Expr& size : sizes_) sizes.push_back(evaluate(size, bindings));
    const DeviceBlock scratch(program_->shared_device(), program_->scratch_bytes());
    const tenon_launch launch{sizeof(tenon_launch), buffers.data(), buffers.size(),
                              sizes.data(),         sizes.size(),   scratch.data()};
    device.wait(device.submit(program_->get(), launch));
    for (size_t i = ir_->reads().size(); i < memory.size(); ++i)
      device.wait(device.copy_out(memory[i], buffers[i], bytes[i]));
  }

  std::shared_ptr<const DeviceProgram> program_;
  std::vector<Expr> sizes_;
  std::string text_;
  std::optional<loops::IR> ir_;  // of a kernel
};

// ---- claims by rules ------------------------------------------------------------------------------------------------

std::vector<const TensorType*> types_of(const Graph& graph, const Node& node) {
  std::vector<const TensorType*> types;
  for (const auto& values : {node.operands, node.results}) {
    for (ValueRef value : values) {
      if (value) types.push_back(&graph.type(value));
    }
  }
  return types;
}

bool has_symbols(const TensorType& type) {
  return std::ranges::any_of(type.shape, [](const Expr& size) { return !size.is_constant(); });
}

// Why a node does not match a rule; empty if it does.
std::string mismatch(const tenon_op_rule& rule, const Graph& graph, const Node& node) {
  for (const TensorType* type : types_of(graph, node)) {
    if (rule.dtypes != 0 && (rule.dtypes >> code_of(type->dtype) & 1) == 0)
      return fmt::format("its rule for {} does not take {}", rule.op, name_of(type->dtype));
    if (rule.max_rank != 0 && type->rank() > rule.max_rank)
      return fmt::format("its rule for {} takes at most {} dimensions, not {}", rule.op, rule.max_rank, type->rank());
    if (rule.symbolic == 0 && has_symbols(*type))
      return fmt::format("its rule for {} takes no symbolic sizes, as in {}", rule.op, to_string(*type));
  }
  return {};
}

// A graph of one node, whose operands are inputs, or constants where they are known.
Graph alone(const Graph& graph, const Node& node) {
  Graph body(std::string(node.op->name.get()));
  std::map<ValueRef, ValueRef> inside;
  for (ValueRef operand : node.operands) {
    if (!operand || inside.contains(operand)) continue;
    inside[operand] = body.add_input(fmt::format("in{}", inside.size()), graph.type(operand));
  }
  std::vector<ValueRef> operands;
  for (ValueRef operand : node.operands) operands.push_back(operand ? inside.at(operand) : ValueRef());
  const NodeRef copy = body.add_node(*node.op, std::move(operands), node.attrs, node.location);
  body.set_outputs(body.node(copy).results);
  return body;
}

// ---- the backend ----------------------------------------------------------------------------------------------------

class PluginBackend : public DeviceBackend {
 public:
  PluginBackend(std::string spec, std::shared_ptr<Device> device)
      : DeviceBackend(std::move(spec)), device_(std::move(device)) {
    if (device_->info().tiles == nullptr) return;
    Result<tenon_tile_machine> tiles = checked_machine(*device_->info().tiles);
    if (!tiles) fail("device {}: {}", device_->info().name, tiles.diagnostic().message);
    tiles_ = std::move(tiles).value();
  }

  std::string doc() const override { return device_->info().doc; }
  int hardware_requirement() const override { return kCpu; }
  std::shared_ptr<Device> device() const override { return device_; }
  bool compiles_graphs() const override { return (device_->info().flags & TENON_DEVICE_KERNELS) == 0; }
  const tenon_tile_machine* tile_machine() const override { return tiles_ ? &*tiles_ : nullptr; }
  loops::LoopTree schedule(const loops::IR& kernel) const override {
    return runs_host_code() ? default_schedule(kernel, machine_of("native")) : Backend::schedule(kernel);
  }

  Claim claim(const Graph& graph, NodeRef ref) const override {
    if (tiles_) {
      std::string reason = misfit(graph, graph.node(ref), *tiles_);
      return {.accepted = reason.empty(), .reason = std::move(reason)};
    }
    const Role role = role_of(*graph.node(ref).op);
    const bool has_rules = !device_->info().rules.empty();
    const bool is_ours = !compiles_graphs() || role == Role::kExternal || role == Role::kSegment;
    Claim claim = is_ours ? claim_of_loops(graph, ref) : Claim{.accepted = has_rules || device_->has_claim()};
    if (claim.accepted && has_rules) claim = by_rules(graph, graph.node(ref));
    return claim.accepted && device_->has_claim() ? asked(graph, graph.node(ref)) : claim;
  }

  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override {
    std::string object;
    if (runs_host_code()) {
      const loops::LoopTree* const trees[] = {&tree};
      object = object_of(*compile_cpu(trees)[0]);
    }
    return compiled(std::make_shared<const SegmentForm>(tree, std::move(object)), tree.ir);
  }

  std::unique_ptr<Compiled> compile_graph(const Graph& segment) const override {
    if (!tiles_) return compiled(std::make_shared<const SegmentForm>(segment), {});
    return compiled(std::make_shared<const SegmentForm>(segment, compile_tiles(segment, *tiles_).value()), {});
  }

  std::string identity() const override {
    return name() + "\n" + device_->info().identity() + "\n" + device_->info().build;
  }

  std::unique_ptr<Compiled> load(const loops::LoopTree& tree, std::string_view code) const override {
    return kernel_of(SegmentForm(tree, {}), tree.ir, code_from(code));
  }

  std::unique_ptr<Compiled> load_graph(const Graph& segment, std::string_view code) const override {
    return kernel_of(SegmentForm(segment), {}, code_from(code));
  }

 private:
  bool runs_host_code() const { return (device_->info().flags & TENON_DEVICE_HOST_CODE) != 0; }

  Claim asked(const Graph& graph, const Node& node) const {
    const auto form = std::make_shared<const SegmentForm>(alone(graph, node));
    return call_runtime([&]() -> Claim {
      const tenon_claim claim = device_->claim(form->get(), form);
      return {.accepted = claim.accepted != 0,
              .reason = claim.reason == nullptr ? "" : claim.reason,
              .seconds = claim.seconds};
    });
  }

  Claim by_rules(const Graph& graph, const Node& node) const {
    std::string reason = fmt::format("it has no rule for {}", node.op->name.get());
    for (const tenon_op_rule& rule : device_->info().rules) {
      if (node.op->name.get() != rule.op) continue;
      reason = mismatch(rule, graph, node);
      if (reason.empty()) return {.accepted = true};
    }
    return {.reason = reason};
  }

  // The device may keep the form: a call of compile() that does not return still reads it.
  std::unique_ptr<Compiled> compiled(const std::shared_ptr<const SegmentForm>& form,
                                     std::optional<loops::IR> ir) const {
    return kernel_of(*form, std::move(ir), call_runtime([&] { return device_->compile(form->get(), form); }));
  }

  std::unique_ptr<Compiled> kernel_of(const SegmentForm& form, std::optional<loops::IR> ir, Device::Code code) const {
    return call_runtime([&] {
      auto program = std::make_shared<const DeviceProgram>(device_, std::move(code));
      return std::make_unique<DeviceKernel>(std::move(program), form.launch_sizes(), form.get().text, std::move(ir));
    });
  }

  static Device::Code code_from(std::string_view kept) {
    Device::Code code;
    if (kept.size() < sizeof code.scratch_bytes) fail("the code of a device is cut off");
    std::memcpy(&code.scratch_bytes, kept.data(), sizeof code.scratch_bytes);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(kept.substr(sizeof code.scratch_bytes)));
    code.bytes.assign(bytes.begin(), bytes.end());
    return code;
  }

  std::shared_ptr<Device> device_;
  std::optional<tenon_tile_machine> tiles_;
};

}  // namespace

std::shared_ptr<const Backend> plugin_backend(std::string_view spec) {
  return call_runtime([&]() -> std::shared_ptr<const Backend> {
    if (!runtime::load_device(runtime::name_of_spec(spec))) return nullptr;
    return std::make_shared<PluginBackend>(std::string(spec), runtime::open_device(spec));
  });
}

}  // namespace tenon
