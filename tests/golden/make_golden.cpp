// Writes the artifacts that every later release must load: tests/golden/README.md says when.
//
//     tenon_make_golden FOLDER SEEDS
//
// For each model: NAME.tenon with code for x86-64-v2, and NAME.txt with inputs and what the interpreter computes; of
// one that trains, a checkpoint after these runs. Programs, a piece of code and the checkpoint become seeds of the
// fuzzers (tests/fuzz).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "driver/pipeline.h"
#include "format/native_generated.h"
#include "format/program_generated.h"
#include "graph/builder.h"
#include "program/artifact.h"
#include "program/run.h"
#include "runtime/artifact.h"
#include "runtime/checkpoint.h"
#include "runtime/container.h"
#include "support/file.h"

extern "C" const tenon_device_api* tenon_device_plugin_v1(const tenon_host* host);  // examples/devices/hello.c

namespace tenon {
namespace {

struct Model {
  explicit Model(std::string name) : graph(std::move(name)), builder(graph) {}

  Value input(std::string name, TensorType type) {
    return builder.value(graph.add_input(std::move(name), std::move(type)));
  }
  Value parameter(std::string name, const Tensor& data) {
    return builder.value(graph.add_parameter(std::move(name), type_of(data), data));
  }
  void give(const std::vector<Value>& outputs) {
    std::vector<ValueRef> refs;
    for (const Value& output : outputs) refs.push_back(output.ref());
    graph.set_outputs(std::move(refs));
  }

  Graph graph;
  Builder builder;
  std::vector<std::vector<Tensor>> runs;  // inputs
  std::vector<Assertion> assertions;
};

// Numbers between -1 and 1 that differ, and are the same in every run.
Tensor wave(Sizes shape, double phase) {
  Tensor tensor = Tensor::zeros(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_real(i, std::sin(0.7 * static_cast<double>(i) + phase));
  return tensor;
}

// Of which every second element is zero.
Tensor holes(Sizes shape, double phase) {
  Tensor tensor = wave(std::move(shape), phase);
  for (int64_t i = 0; i < tensor.numel(); i += 2) tensor.set_real(i, 0);
  return tensor;
}

Model make_mlp() {
  Model m("mlp");
  const Value x = m.input("x", {DType::kF32, {2, 16}});
  const Value hidden =
      m.builder.op("linear", {x, m.parameter("w1", wave({8, 16}, 1)), m.parameter("b1", wave({8}, 2))});
  const Value scores = m.builder.op(
      "linear", {m.builder.op("relu", {hidden}), m.parameter("w2", wave({4, 8}, 3)), m.parameter("b2", wave({4}, 4))});
  m.give({m.builder.op("softmax", {scores}, {{"dim", int64_t{1}}})});
  m.runs = {{wave({2, 16}, 5)}, {wave({2, 16}, 6)}};
  return m;
}

Model make_symbolic() {
  Model m("symbolic");
  const Symbol n("N");
  const Value x = m.input("x", {DType::kF32, {n, 4}});
  const Value pairs = m.input("pairs", {DType::kF32, {Expr(n) * 2 + 1}});
  const Value mixed = m.builder.op("tanh", {x * m.parameter("w", wave({4}, 1))});
  m.give({m.builder.op("softmax", {mixed}, {{"dim", int64_t{1}}}), pairs * 2.0});
  for (int64_t size : {3, 1, 8}) m.runs.push_back({wave({size, 4}, 2), wave({2 * size + 1}, 3)});
  return m;
}

// Sorted values, the places of what is not zero (their number is known late), and a state that counts runs.
Model make_library() {
  Model m("library");
  const Value x = m.input("x", {DType::kF32, {3, 6}});
  const Value runs = m.builder.value(m.graph.add_buffer("runs", {DType::kF32, {6}}, wave({6}, 1)));
  const Value next = runs + m.builder.sum(x, {0});
  const std::vector<Value> sorted = m.builder.results("sort", {x * 3.0}, {{"descending", true}});
  const Value found = m.builder.op("nonzero", {x}, {{"count", Expr(Symbol("K"))}});
  m.graph.add_update(runs.ref(), next.ref());
  m.give({sorted[0], sorted[1], found * 2, next});
  m.runs = {{holes({3, 6}, 1)}, {wave({3, 6}, 2)}, {holes({3, 6}, 3)}};
  return m;
}

// Promises of its data and of its sizes, which these runs keep, and a state that is computed in place.
Model make_checked() {
  Model m("checked");
  const Symbol n("N");
  const Value x = m.input("x", {DType::kF32, {n, 4}});
  const Value total = m.builder.value(m.graph.add_buffer("total", {DType::kF32, {4}}, wave({4}, 1)));
  const Value is_small =
      m.builder.op("lt", {m.builder.op("abs", {x}), m.builder.constant(Tensor::scalar(DType::kF32, 2.0))});
  m.graph.add_update(total.ref(), (total * 0.5 + 1.0).ref());
  m.give({m.builder.op("exp", {x}), is_small});
  m.assertions = {{"x must be smaller than 2", {"model.py", 7}, 1},
                  {"there must be more than one row", {"model.py", 8}, {}, symbolic::lt(1, n)}};
  for (int64_t size : {3, 2}) m.runs.push_back({wave({size, 4}, 2)});
  return m;
}

// What `hello` of examples/devices runs, but for tanh.
Model make_devices() {
  Model m("devices");
  const Value x = m.input("x", {DType::kF32, {2, 16}});
  const Value hidden = m.builder.op("relu", {m.builder.op("matmul", {x, m.parameter("w1", wave({16, 8}, 1))})});
  const Value mixed = m.builder.op("tanh", {hidden});
  const Value scores = m.builder.op("matmul", {mixed, m.parameter("w2", wave({8, 4}, 2))});
  m.give({m.builder.op("softmax", {scores}, {{"dim", int64_t{1}}})});
  m.runs = {{wave({2, 16}, 3)}, {wave({2, 16}, 4)}};
  return m;
}

// A call of the host, golden.scale, whose second result is not needed.
Model make_calls() {
  Model m("calls");
  const Value x = m.input("x", {DType::kF32, {Symbol("N"), 4}});
  const std::vector<Value> scaled = m.builder.results("external", {m.builder.op("relu", {x})},
                                                      {{"target", std::string("golden.scale.default")},
                                                       {"call", int64_t{0}},
                                                       {"types", std::string("f32[N, 4]; f32[2]")}});
  m.give({scaled[0] + 1.0});
  for (int64_t size : {3, 1}) m.runs.push_back({wave({size, 4}, 2)});
  return m;
}

// ---- a file with two entries ----

// What both see of a line through points: the error of each.
struct Line {
  explicit Line(const std::string& name) : m(name) {
    x = m.input("x", {DType::kF32, {3, 4}});
    target = m.input("target", {DType::kF32, {3, 1}});
  }
  Value state(const std::string& name, const Tensor& data) {
    return m.builder.value(m.graph.add_buffer(name, type_of(data), data));
  }
  Value error_with(Value weight) { return m.builder.sum(x * weight, {1}, true) - target; }
  Value loss_of(Value error) { return m.builder.sum(error * error, {0, 1}); }

  Model m;
  Value x, target;
};

Model make_step() {
  Line line("step");
  const Value weight = line.state("line.weight", wave({4}, 1));
  const Value momentum = line.state("optimizer.momentum", Tensor::zeros(DType::kF32, {4}));
  const Value steps = line.state("steps", Tensor::zeros(DType::kI64, {}));
  const Value error = line.error_with(weight);
  const Value next = momentum * 0.9 + line.m.builder.sum(line.x * error, {0});
  line.m.graph.add_update(weight.ref(), (weight - next * 0.1).ref());
  line.m.graph.add_update(momentum.ref(), next.ref());
  line.m.graph.add_update(steps.ref(), (steps + 1).ref());
  line.m.give({line.loss_of(error)});
  for (int i = 0; i < 3; ++i) line.m.runs.push_back({wave({3, 4}, i), wave({3, 1}, i + 1)});
  return std::move(line.m);
}

Model make_eval() {
  Line line("eval");
  const Value error = line.error_with(line.state("line.weight", wave({4}, 1)));
  line.m.give({line.loss_of(error), error});
  return std::move(line.m);
}

std::string text_of(std::string_view role, const Tensor& tensor) {
  std::string text = fmt::format("{} {} {}", role, name_of(tensor.dtype()), tensor.rank());
  for (int64_t size : tensor.shape()) text += fmt::format(" {}", size);
  for (int64_t i = 0; i < tensor.numel(); ++i) text += fmt::format(" {:.17g}", tensor.real(i));
  return text + "\n";
}

// One run after the other: states carry on.
std::string cases_of(const Model& model, const Program& program) {
  std::string text;
  for (const std::vector<Tensor>& inputs : model.runs) {
    text += "run\n";
    for (const Tensor& input : inputs) text += text_of("input", input);
    const std::vector<Tensor> outputs = program.run(inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto is_about = [&](const Assertion& assertion) { return assertion.output == i; };
      if (std::ranges::none_of(model.assertions, is_about)) text += text_of("output", outputs[i]);
    }
  }
  return text;
}

std::string graph_name(const runtime::Container::Section& section) {
  return format::GetProgram(section.bytes.data())->name()->str();
}

// For a device that runs nothing: fuzzers have this one.
void write_device_seed(const std::string& seeds, const runtime::Container::Section& section) {
  const std::unique_ptr<format::ProgramT> program(format::UnPackProgram(section.bytes.data()));
  program->spaces[0]->device = "null";
  program->spaces[0]->identity = "null 1";
  flatbuffers::FlatBufferBuilder builder;
  format::FinishProgramBuffer(builder, format::CreateProgram(builder, program.get()));
  const auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  write_file(seeds + "/program/" + program->name + "_null", {&bytes, 1}).value();
}

void write_seeds(const std::string& seeds, const std::string& artifact, const std::string& name) {
  const auto container = runtime::Container::open(artifact);
  for (const auto& section : container.sections()) {
    if (section.kind == format::SectionKind::kProgram) {
      write_file(seeds + "/program/" + graph_name(section), {&section.bytes, 1}).value();
    }
    if (section.kind == format::SectionKind::kDeviceProgram) write_device_seed(seeds, section);
    if (section.kind == format::SectionKind::kNative) {
      const auto* const object = format::GetNative(section.bytes.data())->objects()->Get(0)->bytes();
      const std::span<const std::byte> bytes = std::as_bytes(std::span(object->data(), object->size()));
      write_file(seeds + "/object/" + name, {&bytes, 1}).value();
    }
  }
}

void write_calls(const std::string& folder, const std::string& seeds) {
  const Model model = make_calls();
  const FallbackFn scale = [](int64_t, std::span<const Tensor> operands) {
    Tensor result = operands[0].copy();
    for (int64_t i = 0; i < result.numel(); ++i) result.set_real(i, result.real(i) * 3);
    return std::vector<Tensor>{result, Tensor::zeros(DType::kF32, {2})};
  };
  const Program program = compile_program(model.graph, {.cpu = "x86-64-v2", .fallback = scale}).value();
  const Notes notes = {{"external.0", "(x=%0, *, factor=3) -> [%0, %1]"}};
  write_artifact(folder + "/calls.tenon", {&program}, notes).value();
  write_seeds(seeds, folder + "/calls.tenon", "calls");
  const Program reference = compile_program(model.graph, {.backend = "interpreter", .fallback = scale}).value();
  write_file(folder + "/calls.txt", cases_of(model, reference)).value();
}

void write(const std::string& folder, const std::string& seeds, const Model& model,
           const std::vector<std::string>& devices = {}) {
  const std::string path = folder + "/" + model.graph.name();
  ProgramOptions options{.cpu = "x86-64-v2", .assertions = model.assertions};
  const Program program = compile_program(model.graph, options).value();
  options.devices = devices;
  const Program with_devices = compile_program(model.graph, options).value();
  std::vector<const Program*> variants = {&program};
  if (!devices.empty()) variants.push_back(&with_devices);
  write_artifact(path + ".tenon", variants).value();
  write_seeds(seeds, path + ".tenon", model.graph.name());
  const Program reference = compile_program(model.graph, {.backend = "interpreter"}).value();
  write_file(path + ".txt", cases_of(model, reference)).value();
}

// With a checkpoint after its runs, beside what eval then gives for the inputs of the first one.
void write_training(const std::string& folder, const std::string& seeds) {
  const std::string path = folder + "/training";
  const Model step = make_step(), eval = make_eval();
  const ProgramOptions options{.cpu = "x86-64-v2", .freeze = false};
  const Program first = compile_program(step.graph, options).value();
  const Program second = compile_program(eval.graph, options).value();
  write_artifact(path + ".tenon", std::vector<ProgramEntry>{{"step", {&first}}, {"eval", {&second}}}).value();
  write_seeds(seeds, path + ".tenon", "training");
  const Program reference = compile_program(step.graph, {.backend = "interpreter", .freeze = false}).value();
  write_file(path + ".txt", cases_of(step, reference)).value();

  const auto container = std::make_shared<const runtime::Container>(runtime::Container::open(path + ".tenon"));
  const auto program = runtime::load_program(container, {.native = false});
  runtime::Context context(program, {});
  for (const std::vector<Tensor>& inputs : step.runs) run_context(context, program->graph(), inputs);
  context.states()->notes()["epoch"] = "3";
  runtime::save_states(*context.states(), path + ".states");
  write_file(seeds + "/checkpoint/training", read_file(path + ".states").value().text()).value();
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: tenon_make_golden FOLDER SEEDS\n");
    return 2;
  }
  for (const auto make : {tenon::make_mlp, tenon::make_symbolic, tenon::make_library, tenon::make_checked})
    tenon::write(argv[1], argv[2], make());
  tenon::runtime::register_plugin(tenon_device_plugin_v1);
  tenon::write(argv[1], argv[2], tenon::make_devices(), {"hello"});
  tenon::write_calls(argv[1], argv[2]);
  tenon::write_training(argv[1], argv[2]);
  return 0;
}
