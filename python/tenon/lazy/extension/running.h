// How a recorded graph runs: compiled when it runs first, in memory of its arguments where nobody needs them any more.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <ATen/ops/scalar_tensor.h>

#include <chrono>
#include <mutex>
#include <thread>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "computation.h"
#include "devices.h"
#include "donation.h"

namespace tenon::lazy_device {

using torch::lazy::TSData;

// ---- failures and modes ---------------------------------------------------------------------------------------------

// The reason why the last run failed, if nobody was told yet.
class LastFailure {
 public:
  static LastFailure& get() {
    static LastFailure* const failure = new LastFailure;
    return *failure;
  }
  void set(std::string reason) {
    const std::lock_guard lock(mutex_);
    reason_ = std::move(reason);
  }
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reason_, {});
  }

 private:
  std::mutex mutex_;
  std::string reason_;
};

// PyTorch's state of a thread that has just started: no modes.
inline const at::ThreadLocalState& state_without_modes() {
  static const at::ThreadLocalState* const state = [] {
    const at::ThreadLocalState* made = nullptr;
    std::thread([&] { made = new at::ThreadLocalState; }).join();
    return made;
  }();
  return *state;
}

// A run sees none of the modes that its caller has on: a default device, autocast, a fake or a user's mode. (A tensor
// that it makes on the lazy device would wait for the run itself.)
class OutsideModes {
 private:
  at::ThreadLocalStateGuard state_{state_without_modes()};
  at::NoGradGuard no_grad_;
};

// ---- arguments ------------------------------------------------------------------------------------------------------

inline at::Tensor tensor_of(const BackendDataPtr& argument) {
  auto& data = static_cast<TSData&>(*argument);
  if (data.scalar) return at::scalar_tensor(*data.scalar, at::dtype(number_type(*data.scalar)));
  const at::Tensor tensor = data.data();
  return is_plain_memory(tensor) ? tensor : tensor.clone();
}

inline std::vector<at::Tensor> tensors_of(c10::ArrayRef<BackendDataPtr> arguments) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(arguments.size());
  for (const BackendDataPtr& argument : arguments) tensors.push_back(tensor_of(argument));
  return tensors;
}

inline BackendDataPtr data_of(at::Tensor tensor, const torch::lazy::BackendDevice& device) {
  const torch::lazy::Shape shape(tensor.scalar_type(), tensor.sizes());
  return std::make_shared<Data>(std::move(tensor), shape, device);
}

// While TorchScript runs a graph: it draws random numbers from PyTorch's generator, and knows nothing of keys. For so
// long the generator has the keys of the graph as its seed.
inline std::optional<uint64_t> seed_of_keys(const torch::jit::Graph& graph, c10::ArrayRef<BackendDataPtr> arguments) {
  const c10::Symbol name = c10::Symbol::attr("key");
  std::optional<uint64_t> seed;
  for (const torch::jit::Node* node : graph.nodes()) {
    if (!node->hasAttribute(name)) continue;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      if (static_cast<int64_t>(graph.inputs()[i]->unique()) != node->i(name)) continue;
      seed = seed.value_or(0) * 31 + static_cast<uint64_t>(*tensor_of(arguments[i]).data_ptr<int64_t>());
    }
  }
  return seed;
}

// ---- compilation ----------------------------------------------------------------------------------------------------

// The last graph that was compiled.
class LastGraph {
 public:
  static LastGraph& get() {
    static LastGraph* const last = new LastGraph;
    return *last;
  }
  void set(std::shared_ptr<const CompiledGraph> graph) {
    const std::lock_guard lock(mutex_);
    graph_ = std::move(graph);
  }
  std::shared_ptr<const CompiledGraph> graph() const {
    const std::lock_guard lock(mutex_);
    return graph_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const CompiledGraph> graph_;
};

// What compilation needed and freed.
inline void give_back_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

inline void note_mistake(const std::string& text) {
  if (!MetricsLog::get().count_mistake(text)) return;
  TORCH_WARN("tenon.lazy could not compile a graph, by a mistake of Tenon's, and PyTorch runs the graph instead: ",
             text, ". Please report it with this message and the code that led to it");
}

// Null where only TorchScript can run the graph.
inline std::shared_ptr<const CompiledGraph> compiled(const torch::jit::Graph& graph,
                                                     const std::vector<TensorTypeOf>& types, const Inputs& inputs,
                                                     const char* device) {
  const auto start = std::chrono::steady_clock::now();
  try {
    auto made = std::make_shared<const CompiledGraph>(Translator::translate(graph, types, inputs.sources), inputs.dying,
                                                      device);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    count([&](lazy::Metrics& metrics) {
      ++metrics.compiles;
      metrics.compile_seconds += taken.count();
    });
    LastGraph::get().set(made);
    give_back_memory();
    return made;
  } catch (const Refused& reason) {
    count([&](lazy::Metrics& metrics) { ++metrics.refused[reason.what()]; });
  } catch (const RunFailed&) {
    throw;  // interrupted
  } catch (const std::exception& mistake) {
    note_mistake(mistake.what());
  }
  return nullptr;
}

// The form in which a computation runs with these arguments: the last one, where their types are the same.
inline GraphFormPtr form_of(Computation& computation, c10::ArrayRef<BackendDataPtr> arguments, const Inputs& inputs,
                            int64_t device) {
  const std::lock_guard lock(computation.mutex);
  const GraphFormPtr last = computation.form;
  if (last && last->takes(arguments, inputs.sources)) {
    count([](lazy::Metrics& metrics) { ++metrics.hits; });
    return last;
  }
  auto form = std::make_shared<GraphForm>();
  for (const BackendDataPtr& argument : arguments) form->types.push_back(parameter_type(argument));
  form->sources = inputs.sources;
  std::vector<TensorTypeOf> types(inputs.tensors.size());
  for (size_t i = 0; i < arguments.size(); ++i) types[inputs.sources[i]] = form->types[i];
  form->graph = compiled(*computation.graph(), types, inputs, device_name(device).c_str());
  for (size_t i = 0; form->graph && i < form->graph->result_count(); ++i) {
    if (const auto place = form->graph->place_of(i)) form->overwritten.insert(*place);
  }
  return computation.form = form;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

// A graph that has not run for a while keeps no memory, and none does when another is compiled: that of the first step
// must not be there beside that of the second.
class IdleGraphs {
 public:
  static IdleGraphs& get() {
    static IdleGraphs* const all = new IdleGraphs;
    return *all;
  }

  void free_memory(const std::shared_ptr<Computation>& running, bool is_compiled) {
    constexpr int64_t kPatience = 8;  // runs of others
    const std::lock_guard lock(mutex_);
    ++now_;
    if (running->last_run == 0) awake_.push_back(running);
    running->last_run = now_;
    std::erase_if(awake_, [&](const std::weak_ptr<Computation>& other) {
      const std::shared_ptr<Computation> computation = other.lock();
      if (!computation) return true;
      if (computation == running || (is_compiled && now_ - computation->last_run < kPatience)) return false;
      const std::unique_lock idle(computation->mutex, std::try_to_lock);
      if (!idle) return false;  // another thread compiles it
      if (computation->form && computation->form->graph) computation->form->graph->free_memory();
      computation->last_run = 0;
      return true;
    });
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Computation>> awake_;
  int64_t now_ = 0;
};

// What is to be overwritten is the run's own: a copy, where somebody still needs it, or its memory. In the first steps
// of a training that happens to a momentum which is its gradient, and has its memory; then the copy takes its place at
// once, so that the two are not there together for long.
inline void own_overwritten(const GraphForm& form, c10::ArrayRef<BackendDataPtr> arguments, Inputs& inputs) {
  for (size_t i : form.overwritten) {
    at::Tensor& tensor = inputs.tensors[i];
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    count([&](lazy::Metrics& metrics) { (inputs.owned[i] ? metrics.reused_bytes : metrics.copied_bytes) += bytes; });
    if (inputs.owned[i]) continue;
    tensor = tensor.clone(at::MemoryFormat::Contiguous);
    if (!inputs.dying[i]) continue;
    for (size_t k = 0; k < arguments.size(); ++k) {
      if (inputs.sources[k] == i) arguments[k]->Assign(*data_of(tensor, arguments[k]->device()));
    }
  }
}

}  // namespace tenon::lazy_device
