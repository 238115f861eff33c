// tenon device check: compares what a device computes with the reference.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <random>

#include "backends/device_backend.h"
#include "device_commands.h"
#include "driver/pipeline.h"
#include "graph/evaluate.h"
#include "graph/sample.h"
#include "isolate.h"
#include "model.h"
#include "numbers.h"
#include "random_layers.h"
#include "runnable.h"
#include "runtime/plugin_call.h"
#include "support/runtime_call.h"
#include "support/text.h"
#include "terminal.h"
#include "units.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(Compiles graphs for the device, runs those of which it claims a node, and compares the results with the reference
evaluator: every sample of the op table in every dtype, then products and convolutions of random sizes. --model compares
a whole model with the CPU, on random inputs. The exit code is 1 if one differs.

The check runs in a process of its own, so that a crash of the plug-in is a message; every buffer lies between guard zones,
so that an overrun is one; and a call that does not return within --timeout is one, too.

Examples:
  tenon device check build/accelerators/atalla.so
  tenon device check build/accelerators/atalla.so --options body=cycles,size=8 --random 100
  tenon device check ./npu.so --model model.tg --model resnet.pt2)";

struct CheckOptions {
  std::string library;
  std::string options;
  std::vector<std::string> models;
  std::vector<std::string> sizes;  // of models
  int random = 40;
  uint32_t seed = 0;
  double timeout = 60;  // seconds
};

// A graph to compare, and the values that its inputs must stay within.
struct CheckCase {
  std::string name;
  Graph graph;
  std::vector<std::optional<Domain>> ranges = {};
  Domain domain = {};
};

Tensor drawn(const TensorType& type, Domain range, Random& random) {
  std::vector<int64_t> shape;
  for (const Expr& size : type.shape) shape.push_back(size.constant());
  Tensor tensor = Tensor::zeros(type.dtype, shape);
  std::uniform_real_distribution<double> real(range.low, range.high);
  std::uniform_int_distribution<int64_t> integer(std::lround(std::ceil(range.low)),
                                                 std::lround(std::floor(range.high)));
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    if (is_float(type.dtype)) {
      tensor.set_real(i, real(random));
    } else if (type.dtype == DType::kBool || type.dtype == DType::kU8) {
      tensor.set_integer(i, integer(random) & 1);
    } else {
      tensor.set_integer(i, integer(random));
    }
  }
  return tensor;
}

std::vector<Tensor> inputs_of(const CheckCase& it, Random& random) {
  std::vector<Tensor> inputs;
  for (ValueRef input : it.graph.inputs()) {
    const size_t i = inputs.size();
    const Domain range = i < it.ranges.size() && it.ranges[i] ? *it.ranges[i] : it.domain;
    inputs.push_back(drawn(it.graph.type(input), range, random));
  }
  return inputs;
}

// How far results may be from the reference, of the largest of them.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0x1p-6;
    case DType::kF16:
      return 0x1p-9;
    case DType::kF32:
      return 1e-4;
    case DType::kF64:
      return 1e-9;
    default:
      return 0;
  }
}

// The first element that differs; empty: none.
std::string difference(const Tensor& found, const Tensor& wanted, double part) {
  double most = 1;
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    if (std::isfinite(wanted.real(i))) most = std::max(most, std::abs(wanted.real(i)));
  }
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    const double a = found.real(i), b = wanted.real(i);
    const bool is_same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= part * most;
    if (!is_same) return fmt::format("element {} of {} is {}, not {}", i, wanted.numel(), a, b);
  }
  return {};
}

bool is_claimed(const Graph& graph, const ProgramOptions& options) {
  Module module = new_module(graph);
  const auto stages = static_cast<size_t>(&stage_named("partition") - pipeline().data()) + 1;
  run_stages(module, pipeline().first(stages), target_of(options), options);
  return !module.segments.empty();
}

class DeviceCheck {
 public:
  explicit DeviceCheck(const CheckOptions& options) : options_(options), random_(options.seed) {
    const std::string_view name = call_runtime([&] { return runtime::load_plugin(options.library); });
    program_.devices = {std::string(name) + (options.options.empty() ? "" : ":" + options.options)};
    program_.backend = "cpu";
    device_ = call_runtime([&] { return runtime::open_device(program_.devices[0]); });
  }

  void run() {
    check_rules();
    for (const OpDef* op : op_table()) check_op(*op);
    for (int i = 0; i < options_.random; ++i) check("random layers", random_case(i));
    for (const std::string& model : options_.models) check_model(model);
    std::string text;
    for (const auto& [name, count] : passed_) text += fmt::format("{:<32} {} graphs agree\n", name, count);
    text += fmt::format("{} runs {} graphs: {} differ\n", program_.devices[0], ran_, failures_);
    print(text);
    call_runtime([&] { device_->refuse_if_lost(); });
    if (ran_ == 0) fail("device {} claims no node of any sample", program_.devices[0]);
    if (failures_ > 0) fail("{} of {} graphs differ from the reference", failures_, ran_);
  }

 private:
  // A rule for an op that there is not is never used.
  void check_rules() const {
    std::vector<std::string_view> names;
    for (const OpDef* op : op_table()) names.push_back(op->name.get());
    for (const tenon_op_rule& rule : device_->info().rules) {
      if (std::ranges::find(names, rule.op) == names.end())
        fail("device {} has a rule for op '{}', which there is not{}", device_->info().name, rule.op,
             did_you_mean(rule.op, names));
    }
  }

  void check_op(const OpDef& op) {
    for (const Sample& sample : samples_of(op))
      check(op.name.get(), {sample.name(), sample.graph, sample.ranges, op.domain});
  }

  void check(std::string_view group, const CheckCase& it) {
    note_step(it.name);
    if (!is_claimed(it.graph, program_)) return;
    ++ran_;
    const std::vector<Tensor> inputs = inputs_of(it, random_);
    const Result<std::vector<Tensor>> wanted = evaluate(it.graph, inputs);
    if (!wanted) return;  // an error of the sample's values, such as a division by zero
    const std::string problem = compared(it.graph, inputs, *wanted);
    if (problem.empty()) {
      ++passed_[std::string(group)];
      return;
    }
    ++failures_;
    print(fmt::format("{}: {}\n{}", it.name, problem, to_string(it.graph)));
  }

  std::string compared(const Graph& graph, const std::vector<Tensor>& inputs, const std::vector<Tensor>& wanted) const {
    const Result<std::vector<Tensor>> found = attempt([&] { return compile_program(graph, program_)->run(inputs); });
    if (!found) return found.diagnostic().message;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double part = tolerance(wanted[i].dtype());
      if (std::string text = difference((*found)[i], wanted[i], part); !text.empty()) return text;
    }
    return {};
  }

  // The CPU is the reference of a model: the evaluator would take too long.
  void check_model(const std::string& path) {
    note_step(path);
    const Model model = read_model({.path = path, .seed = is_pt2(path) ? std::nullopt : std::optional<int64_t>(0)});
    require_supported(model);
    if (!is_claimed(model.graph, program_)) fail_at({path}, "device {} runs no node of it", program_.devices[0]);
    ++ran_;
    const Runnable cpu = Runnable::compile(model.graph);
    const std::vector<Tensor> inputs = cpu.random_inputs(parse_sizes(options_.sizes), options_.seed);
    const std::string problem = compared(model.graph, inputs, cpu.run(*cpu.make_context({}), inputs));
    problem.empty() ? ++passed_[path] : ++failures_;
    if (!problem.empty()) print(fmt::format("{}: {}\n", path, problem));
  }

  CheckCase random_case(int number) {
    return {fmt::format("random layer {}", number), random_layer(random_), {}, {-1, 1}};
  }

  const CheckOptions& options_;
  Random random_;
  ProgramOptions program_;
  std::shared_ptr<runtime::Device> device_;
  std::map<std::string, int> passed_;
  int ran_ = 0, failures_ = 0;
};

void check_device(const CheckOptions& options) {
  run_in_child([&] {
    runtime::set_device_settings({.seconds = options.timeout, .guards = true, .before_call = note_call});
    DeviceCheck(options).run();
  });
}

}  // namespace

Command device_check_command(CLI::App& device) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* app = device.add_subcommand("check", "Compare what a device computes with the reference");
  app->add_option("LIBRARY", options->library, "The plug-in, a shared library")->required()->type_name("");
  app->add_option("--options", options->options, "Of the device, as after its name: body=cycles,size=8");
  app->add_option("--model", options->models, "A model to compare with the CPU; may be repeated")->type_name("MODEL");
  app->add_option("--size", options->sizes, "The value of a symbolic size of a model")->type_name("N=64");
  for (const char* name : {"--model", "--size"}) app->get_option(name)->allow_extra_args(false);
  app->add_option("--random", options->random, "How many random layers")
      ->capture_default_str()
      ->check(integer_from(0, kMostRandom));
  app->add_option("--seed", options->seed, "Of random values and sizes")->capture_default_str();
  app->add_option("--timeout", options->timeout, "Seconds that a call of the plug-in may take; 0: no limit")
      ->capture_default_str()
      ->check(number_from(0, 1e9));
  app->footer(kFooter);
  return {app, [options] { check_device(*options); }};
}

}  // namespace tenon::cli
