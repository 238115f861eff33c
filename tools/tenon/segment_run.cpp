#include "segment_run.h"

#include "device_debug.h"
#include "support/is_in.h"

namespace tenon::cli {

Graph with_all_values(const Graph& segment) {
  Graph result = segment;
  std::vector<ValueRef> outputs;
  for (const Node& node : segment.nodes()) outputs.insert(outputs.end(), node.results.begin(), node.results.end());
  result.set_outputs(std::move(outputs));
  return result;
}

std::vector<ValueRef> buffers_of(const Graph& segment) {
  std::vector<ValueRef> buffers, outputs;
  for (uint32_t id = 0; id < segment.value_count(); ++id) {
    const bool is_leaf = segment.leaf({id}) != nullptr;
    if (is_leaf) buffers.push_back({id});
    if (!is_leaf && is_in(segment.outputs(), ValueRef{id})) outputs.push_back({id});
  }
  buffers.insert(buffers.end(), outputs.begin(), outputs.end());
  return buffers;
}

symbolic::Bindings bindings_of(const std::vector<Expr>& launch_sizes, std::span<const int64_t> values) {
  std::vector<symbolic::Equation> equations;
  for (size_t i = 0; i < launch_sizes.size(); ++i)
    equations.push_back({launch_sizes[i], values[i], "a size of the launch"});
  return symbolic::solve(equations).value();
}

std::vector<Bytes> run_segment(const DeviceBackend& backend, const Graph& segment, std::span<const Bytes> inputs,
                               const symbolic::Bindings& sizes) {
  const std::unique_ptr<Compiled> code = backend.compile_graph(segment);
  std::vector<Bytes> buffers(inputs.begin(), inputs.end());
  const std::vector<ValueRef> values = buffers_of(segment);
  for (size_t i = inputs.size(); i < values.size(); ++i) {
    const TensorType& type = segment.type(values[i]);
    buffers.emplace_back(static_cast<size_t>(element_count(evaluate(type.shape, sizes)) * size_of(type.dtype)));
  }
  std::vector<int64_t> launch_sizes;
  for (const Expr& size : code->launch_sizes()) launch_sizes.push_back(evaluate(size, sizes));
  const std::shared_ptr<const runtime::DeviceProgram> program = code->device_program();
  LaunchMemory memory(*program, buffers);
  const LaunchAnswers answers = launch(*program, memory.launch(launch_sizes), {});
  if (!answers.fault.empty()) fail("device {}, segment {}: {}", backend.name(), segment.name(), answers.fault);
  std::vector<Bytes> results;
  for (size_t i = inputs.size(); i < buffers.size(); ++i) results.push_back(memory.read(i));
  return results;
}

}  // namespace tenon::cli
