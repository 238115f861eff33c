#include "backends/plugin/plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "backends/cpu/cpu.h"
#include "backends/device_backend.h"
#include "backends/device_kernel.h"
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
using runtime::DeviceProgram;

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
      return device_kernel(std::move(program), form.launch_sizes(), form.get().text, std::move(ir));
    });
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
