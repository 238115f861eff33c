#include "model_diff.h"

#include "driver/pipeline.h"
#include "graph/value_names.h"
#include "segment_run.h"

namespace tenon::cli {
namespace {

std::vector<Tensor> results_on(const std::string& device, const Graph& graph, const std::vector<Tensor>& inputs) {
  return compile_program(graph, {.backend = "cpu", .devices = {device}})->run(inputs);
}

class ModelDiff {
 public:
  ModelDiff(const std::string& a, const std::string& b, const std::vector<Tensor>& inputs, double tolerance)
      : a_(a), b_(b), inputs_(inputs), tolerance_(tolerance) {}

  std::optional<Difference> compare(const Graph& graph) const {
    const std::vector<Tensor> left = results_on(a_, graph, inputs_), right = results_on(b_, graph, inputs_);
    const std::vector<std::string> names = value_names(graph);
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      const ValueRef value = graph.outputs()[i];
      std::optional<Difference> it =
          value_difference(names[value.id], left[i].dtype(), bytes_of(left[i]), bytes_of(right[i]), tolerance_);
      if (!it) continue;
      it->launch = "the model";
      if (const NodeRef node = graph.producer(value)) set_node(*it, graph, node);
      return it;
    }
    return std::nullopt;
  }

 private:
  static std::span<const std::byte> bytes_of(const Tensor& tensor) {
    check(tensor.is_contiguous(), "a result of a program is not contiguous");
    return {tensor.data(), static_cast<size_t>(tensor.numel() * size_of(tensor.dtype()))};
  }

  const std::string& a_;
  const std::string& b_;
  const std::vector<Tensor>& inputs_;
  double tolerance_;
};

}  // namespace

std::optional<Difference> compare_models(const Graph& graph, const std::string& a, const std::string& b,
                                         const std::vector<Tensor>& inputs, double tolerance) {
  const ModelDiff diff(a, b, inputs, tolerance);
  const std::optional<Difference> found = diff.compare(graph);
  if (!found) return found;
  const std::optional<Difference> first = diff.compare(with_all_values(graph));
  return first ? first : found;
}

}  // namespace tenon::cli
