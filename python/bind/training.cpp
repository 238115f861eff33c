#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "fallback.h"
#include "gil.h"
#include "training/file.h"

namespace tenon::python {
namespace {

using Trainer = LocalTrainingInstance;

std::vector<Tensor> inputs_from(nb::handle arrays) {
  std::vector<Tensor> inputs;
  for (nb::handle array : arrays) inputs.push_back(argument_from(array, "an input"));
  return inputs;
}

Tensor target_from(nb::handle array) { return array.is_none() ? Tensor() : argument_from(array, "the target"); }

nb::object to_torch(const Tensor& tensor) {
  return tensor.defined() ? to_python(tensor, ArrayKind::kTorch) : nb::none();
}

nb::dict to_dict(const States& states) {
  nb::dict dict;
  for (const auto& [name, tensor] : states) dict[to_str(name)] = to_torch(tensor);
  return dict;
}

nb::tuple forward(Trainer& self, nb::handle arrays, nb::handle target) {
  const std::vector<Tensor> inputs = inputs_from(arrays);
  const Tensor wanted = target_from(target);
  Trainer::Forward result;
  {
    const WithoutGil unlocked;
    result = self.forward(inputs, wanted);
  }
  nb::list outputs;
  for (const Tensor& output : result.outputs) outputs.append(to_torch(output));
  return nb::make_tuple(outputs, to_torch(result.loss));
}

nb::object step(Trainer& self, nb::handle arrays, nb::handle target) {
  const std::vector<Tensor> inputs = inputs_from(arrays);
  const Tensor wanted = target_from(target);
  Tensor loss;
  {
    const WithoutGil unlocked;
    loss = self.step(inputs, wanted);
  }
  return to_torch(loss);
}

nb::dict backward(Trainer& self) {
  States gradients;
  {
    const WithoutGil unlocked;
    gradients = self.backward();
  }
  return to_dict(gradients);
}

void load_states(Trainer& self, const nb::dict& given) {
  States states;
  for (auto [name, array] : given) {
    const auto text = nb::cast<std::string>(name);
    states[text] = tensor_from(array, text);
  }
  const WithoutGil unlocked;
  self.load_states(states);
}

nb::dict copy_states(const Trainer& self, const std::vector<std::string>& names) {
  States copies;
  {
    const WithoutGil unlocked;
    copies = self.copy_states(names);
  }
  return to_dict(copies);
}

nb::list profile(const Trainer& self) {
  nb::list tasks;
  for (const ProfiledTask& task : self.profile()) {
    nb::dict entry;
    entry["phase"] = to_str(name_of(task.phase));
    entry["name"] = task.name;
    entry["location"] = nb::cast(task.location);
    entry["microseconds"] = task.microseconds;
    entry["bytes"] = task.bytes;
    tasks.append(entry);
  }
  return tasks;
}

nb::list recomputed(const MemoryReport& report) {
  nb::list entries;
  for (const Recomputation& each : report.recomputed) {
    nb::dict entry;
    entry["ops"] = nb::cast(each.ops);
    entry["location"] = nb::cast(each.location);
    entry["type"] = to_string(each.type);
    entry["bytes"] = each.bytes;
    entry["share"] = each.share;
    entries.append(entry);
  }
  return entries;
}

nb::dict sizes(const MemoryReport& report) {
  nb::dict sizes;
  for (const auto& [symbol, size] : report.sizes) sizes[to_str(symbol.name())] = size;
  return sizes;
}

void bind_memory_report(nb::module_& module) {
  const auto text = [](const MemoryReport& self) { return to_string(self); };
  nb::class_<MemoryReport>(module, "MemoryReport", "What a program does to fit a budget. Its text is a table.")
      .def_ro("budget", &MemoryReport::budget)
      .def_ro("natural_bytes", &MemoryReport::natural_bytes, "What it would take if nothing was computed twice.")
      .def_ro("bytes", &MemoryReport::bytes, "What it takes besides states, inputs and results.")
      .def_ro("work", &MemoryReport::work, "Where 1 is the work without a budget; an estimate.")
      .def_prop_ro("recomputed", recomputed, "What is computed twice: ops, location, type, bytes, share of the work.")
      .def_prop_ro("sizes", sizes, "That it is for: the largest of each.")
      .def("__str__", text)
      .def("__repr__", text);
}

void make(Trainer* self, const Graph& training, const Graph& inference, size_t outputs, const std::string& key_input,
          const std::map<std::string, std::string>& names, const Loss& loss, const Optimizer& optimizer,
          const std::vector<std::string>& frozen, bool bf16, int64_t accumulate, int64_t threads, int64_t seed,
          std::vector<std::string> devices, nb::object training_fallback, nb::object inference_fallback) {
  const TrainingModel model{training,
                            inference,
                            outputs,
                            key_input,
                            names,
                            fallback_from(std::move(training_fallback)),
                            fallback_from(std::move(inference_fallback))};
  TrainingOptions options{loss, optimizer, frozen, bf16 ? Precision::kBf16 : Precision::kAsModel, accumulate, seed};
  new (self) Trainer(model, std::move(options), threads, std::move(devices));
}

}  // namespace

void bind_training(nb::module_& module) {
  const auto unlocked = nb::call_guard<WithoutGil>();
  bind_memory_report(module);
  nb::class_<Trainer>(module, "Trainer", "What tenon.LocalTrainingInstance is made of.")
      .def("__init__", make, nb::arg("training"), nb::arg("inference"), nb::kw_only(), nb::arg("outputs"),
           nb::arg("key_input"), nb::arg("names"), nb::arg("loss"), nb::arg("optimizer"), nb::arg("frozen"),
           nb::arg("bf16"), nb::arg("accumulate"), nb::arg("threads"), nb::arg("seed"), nb::arg("devices"),
           nb::arg("training_fallback") = nb::none(), nb::arg("inference_fallback") = nb::none())
      .def("initialize", &Trainer::initialize, nb::arg("budget") = nb::none(),
           nb::arg("device_budgets") = DeviceBudgets(), unlocked)
      .def("forward", forward, nb::arg("inputs"), nb::arg("target") = nb::none())
      .def("backward", backward)
      .def("update", &Trainer::update, unlocked)
      .def("step", step, nb::arg("inputs"), nb::arg("target") = nb::none())
      .def("zero_grad", &Trainer::zero_grad)
      .def("train", &Trainer::train)
      .def("eval", &Trainer::eval)
      .def_prop_ro("training", &Trainer::is_training)
      .def_prop_ro("state_names",
                   [](const Trainer& self) {
                     std::vector<std::string> names;
                     for (const auto& [name, data] : self.graphs().states) names.push_back(name);
                     return names;
                   })
      .def_prop_ro("states", [](const Trainer& self) { return to_dict(self.states()); })
      .def_prop_ro("tied", [](const Trainer& self) { return self.tied(); })
      .def_prop_ro("trained", [](const Trainer& self) { return self.trained(); })
      .def("copy_states", copy_states, nb::arg("names"))
      .def("load_states", load_states, nb::arg("states"))
      .def(
          "save",
          [](Trainer& self, const std::string& path, const std::vector<std::string>& cpus, const Notes& training_calls,
             const Notes& inference_calls) {
            write_training(path, self, cpus, {training_calls, inference_calls}).value();
          },
          nb::arg("path"), nb::arg("cpus"), nb::arg("training_calls"), nb::arg("inference_calls"), unlocked)
      .def_prop_ro("step_graph", [](const Trainer& self) { return self.graphs().step; })
      .def_prop_ro("predict_graph", [](const Trainer& self) { return self.graphs().predict; })
      .def("enable_profiling", &Trainer::enable_profiling, nb::arg("on") = true)
      .def_prop_ro("profile", profile)
      .def_prop_ro("peak_bytes", &Trainer::peak_bytes)
      .def_prop_ro("memory_report", &Trainer::memory_report, nb::rv_policy::reference_internal);
}

}  // namespace tenon::python
