#include "dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device_debug.h"
#include "graph/value_names.h"
#include "segment_run.h"
#include "support/is_in.h"
#include "support/pattern.h"
#include "support/runtime_call.h"

namespace tenon::cli {
namespace {

Tensor tensor_of(const Bytes& bytes, DType dtype, const Sizes& shape) {
  Tensor tensor = Tensor::zeros(dtype, shape);
  std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return tensor;
}

// Values that are no results of the segment, by their printed names without the percent sign.
std::vector<std::pair<ValueRef, std::string>> inner_values(const Graph& segment) {
  const std::vector<std::string> names = value_names(segment);
  std::vector<std::pair<ValueRef, std::string>> values;
  for (const Node& node : segment.nodes()) {
    for (ValueRef value : node.results) {
      if (!is_in(segment.outputs(), value)) values.emplace_back(value, names[value.id].substr(1));
    }
  }
  return values;
}

}  // namespace

Dump::Dump(const std::vector<std::string>& patterns, const Runnable& model) : patterns_(patterns), model_(model) {
  const std::vector<std::string> all = patterns.empty() ? std::vector<std::string>() : names();
  for (const std::string& pattern : patterns) {
    if (pattern != "all" && std::ranges::none_of(all, [&](const auto& name) { return name_matches(pattern, name); }))
      fail("--dump: no task is called '{}'; `tenon inspect` lists the tasks", pattern);
  }
}

bool Dump::matches(std::string_view name) const {
  return std::ranges::any_of(
      patterns_, [&](const std::string& pattern) { return pattern == "all" || name_matches(pattern, name); });
}

std::vector<std::string> Dump::names() const {
  std::vector<std::string> names;
  for (const runtime::TaskNode& task : model_.graph().tasks) names.emplace_back(task.name);
  for (size_t i = 0; model_.compiled() != nullptr && i < model_.compiled()->tasks.size(); ++i) {
    const Task& task = model_.compiled()->tasks[i];
    if (!task.segment_graph) continue;
    for (const auto& [value, name] : inner_values(*task.segment_graph)) names.push_back(name);
  }
  return names;
}

bool Dump::has_wanted_values(uint32_t task) const {
  if (model_.compiled() == nullptr || !model_.compiled()->tasks[task].segment_graph) return false;
  return std::ranges::any_of(inner_values(*model_.compiled()->tasks[task].segment_graph),
                             [&](const auto& value) { return matches(value.second); });
}

void Dump::observe(runtime::ContextOptions& options) {
  if (patterns_.empty()) return;
  options.observer = this;
  options.after_task = [](void* self, const runtime::Context& context, uint32_t task) {
    static_cast<Dump*>(self)->add(context, task);
  };
  options.launch = [](void* self, const runtime::Context& context, uint32_t task, const tenon_launch& launch) {
    static_cast<Dump*>(self)->launch(context, task, launch);
  };
}

void Dump::add(const runtime::Context& context, uint32_t number) {
  const runtime::TaskNode& task = model_.graph().tasks[number];
  if (!matches(task.name)) return;
  for (size_t i = 0; i < task.outputs.size(); ++i) {
    const runtime::TensorView view = context.tensor(number, i);
    const Sizes shape(view.shape.begin(), view.shape.end());
    Tensor tensor = Tensor::zeros(static_cast<DType>(view.dtype), shape);
    const int64_t bytes = tensor.numel() * size_of(tensor.dtype());
    const uint32_t space = model_.graph().slots[task.outputs[i]].space;
    if (space == runtime::kHost) {
      std::memcpy(tensor.data(), view.data, static_cast<size_t>(bytes));
    } else {
      runtime::Device& device = *model_.program().device(space);
      device.wait(device.copy_out(tensor.data(), view.data, bytes));
    }
    const std::string suffix = task.outputs.size() == 1 ? "" : fmt::format(".{}", i);
    add_outcome(fmt::format("task{}.{}{}", number, task.name, suffix), std::move(tensor));
  }
}

// A result may take the memory of an input, so inputs are read before.
void Dump::launch(const runtime::Context& context, uint32_t number, const tenon_launch& launch) {
  const runtime::TaskGraph& graph = model_.graph();
  const runtime::TaskNode& task = graph.tasks[number];
  const runtime::DeviceProgram& program = *model_.program().kernel(task.kernel).device;
  runtime::Device& device = program.device();
  std::vector<Bytes> inputs;
  const bool has_values = has_wanted_values(number);
  for (size_t i = 0; has_values && i < task.inputs.size(); ++i) {
    const int64_t elements = context.frame()->elements[task.inputs[i]];
    if (elements < 0) fail("--dump: {} has a size that is known only when it runs", task.name);
    const int64_t bytes = elements * size_of(static_cast<DType>(graph.slots[task.inputs[i]].dtype));
    inputs.emplace_back(static_cast<size_t>(bytes));
    device.wait(device.copy_out(inputs.back().data(), launch.buffers[i], bytes));
  }
  device.wait(device.submit(program.get(), launch));
  if (has_values) add_values(number, inputs, launch);
}

void Dump::add_values(uint32_t number, const std::vector<Bytes>& inputs, const tenon_launch& launch) {
  const Task& task = model_.compiled()->tasks[number];
  const Graph& segment = *task.segment_graph;
  const symbolic::Bindings sizes = bindings_of(task.launch_sizes, {launch.sizes, launch.size_count});
  const Graph all = with_all_values(segment);
  const std::shared_ptr<const Backend> backend = find_backend(task.device).value();
  const std::vector<Bytes> found = run_segment(device_backend(*backend), all, inputs, sizes);
  const std::vector<ValueRef> buffers = buffers_of(all);
  for (const auto& [value, name] : inner_values(segment)) {
    if (!matches(name)) continue;
    const auto at = static_cast<size_t>(std::ranges::find(buffers, value) - buffers.begin()) - inputs.size();
    const TensorType& type = segment.type(value);
    add_outcome(fmt::format("task{}.{}.{}", number, task.name, name),
                tensor_of(found[at], type.dtype, evaluate(type.shape, sizes)));
  }
}

void Dump::add_outcome(const std::string& name, Tensor tensor) {
  std::string file = name;
  std::ranges::replace(file, '/', '_');  // it may become a file's
  outcomes_.push_back({std::move(file), std::move(tensor)});
}

}  // namespace tenon::cli
