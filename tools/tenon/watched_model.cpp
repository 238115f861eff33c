#include "watched_model.h"

namespace tenon::cli {
namespace {

struct WatchedRun {
  const Runnable& model;
  const WatchedModel::Watch& watch;
  size_t launches = 0;

  void add(const runtime::Context& context, uint32_t number, const tenon_launch& launch) {
    const runtime::TaskGraph& graph = model.graph();
    const runtime::TaskNode& node = graph.tasks[number];
    std::vector<int64_t> bytes;
    for (const auto& slots : {node.inputs, node.outputs}) {
      for (uint32_t slot : slots) {
        const int64_t elements = context.frame()->elements[slot];
        if (elements < 0) fail("{} has a size that is known only when it runs: tools cannot look into it", node.name);
        bytes.push_back(elements * size_of(static_cast<DType>(graph.slots[slot].dtype)));
      }
    }
    watch({launches++, number, model.compiled()->tasks[number], *model.program().kernel(node.kernel).device, launch,
           std::move(bytes), node.inputs.size()});
  }
};

Graph graph_of_model(const ModelOptions& options) {
  if (is_artifact(options.path)) {
    if (!options.parameters.empty() || options.seed) fail_at({options.path}, "a .tenon file has its own parameters");
    return graph_of(options.path, open_artifact(options.path));
  }
  Model model = read_model(options);
  require_supported(model);
  return std::move(model.graph);
}

}  // namespace

WatchedModel::WatchedModel(const ModelOptions& model) : WatchedModel(graph_of_model(model), model.devices.at(0)) {
  if (!uses_device())
    fail_at({model.path}, "device {} runs no node of the model: `tenon explain --device {}` says why", model.devices[0],
            model.devices[0]);
}

WatchedModel::WatchedModel(const Graph& graph, const std::string& device)
    : model_(Runnable::compile(graph, {.backend = "cpu", .devices = {device}})) {}

std::vector<Tensor> WatchedModel::inputs(const std::vector<std::string>& arguments, int64_t seed) const {
  if (!arguments.empty()) return model_.load_inputs(arguments, seed);
  std::vector<Tensor> tensors = model_.random_inputs({}, seed);
  for (Tensor& tensor : tensors) {
    for (int64_t i = 0; is_float(tensor.dtype()) && i < tensor.numel(); ++i) tensor.set_real(i, 4 * tensor.real(i) - 2);
  }
  return tensors;
}

std::unique_ptr<runtime::Context> WatchedModel::run(const std::vector<Tensor>& inputs, const Watch& watch,
                                                    runtime::ContextOptions options) const {
  WatchedRun run{model_, watch};
  options.observer = &run;
  options.launch = [](void* self, const runtime::Context& context, uint32_t task, const tenon_launch& launch) {
    static_cast<WatchedRun*>(self)->add(context, task, launch);
  };
  std::unique_ptr<runtime::Context> context = model_.make_context(options);
  model_.run(*context, inputs);
  return context;
}

}  // namespace tenon::cli
