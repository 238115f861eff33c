#include "driver/pipeline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/stage_text.h"
#include "program/text.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kModels[] = {
    // Layers with weights that are packed ahead.
    R"(graph mlp(%x: f32[N, 20]) {
         symbol N in [1, 64]
         %w: f32[32, 20] = parameter "w"
         %b: f32[32] = parameter "b"
         %v: f32[8, 32] = parameter "v"
         %h = linear(%x, %w, %b)
         %r = relu(%h)
         %y = linear(%r, %v, none)
         %s = softmax(%y) {dim=-1}
         return %s, %h
       })",
    // A norm that is folded into weights, and a constant that is computed once.
    R"(graph conv(%x: f32[2, 3, 8, 8]) {
         %w: f32[4, 3, 3, 3] = parameter "w"
         %scale: f32[4] = parameter "scale"
         %shift: f32[4] = parameter "shift"
         %mean: f32[4] = buffer "mean"
         %var: f32[4] = buffer "var"
         %c = conv(%x, %w, none) {stride=[1, 1], padding=[1, 1], dilation=[1, 1]}
         %n = batch_norm_inference(%c, %scale, %shift, %mean, %var)
         %e = exp(%scale)
         %y = relu(%n)
         return %y, %e
       })",
    // A task of the runtime's library, an alias, and a size that a task finds out.
    R"(graph found(%x: f32[4, 6]) {
         %flat = reshape(%x) {shape=[24]}
         %sorted, %order = sort(%flat) {dim=0, descending=false}
         %at = nonzero(%x) {count=K}
         %y = mul(%sorted, %sorted)
         return %y, %order, %at
       })",
    // An update in place.
    R"(graph counts(%x: f32[5]) {
         %m: f32[5] = buffer "m"
         %s = add(%x, %m)
         update %m = %s
         return %s
       })",
};

Graph model(const char* text) {
  Graph graph = parse_graph(text).value();
  for (const Leaf& leaf : std::vector<Leaf>(graph.leaves())) {
    if (leaf.kind == LeafKind::kInput || leaf.data.defined()) continue;
    Tensor data = Tensor::zeros(graph.type(leaf.value).dtype, evaluate(graph.type(leaf.value).shape, {}));
    for (int64_t i = 0; i < data.numel(); ++i) data.set_real(i, 0.25 + 0.125 * static_cast<double>(i % 7));
    graph.bind(leaf.name, data);
  }
  return graph;
}

// The text of every stage, by name.
std::map<std::string, std::string> stage_texts(const Graph& graph, const ProgramOptions& options = {}) {
  std::map<std::string, std::string> texts;
  RunOptions run{.verify = true};
  run.after = [&](const Stage& stage, const StageRun&, const Module& module) {
    texts[std::string(stage.name)] = stage_text(module, stage, options);
  };
  finish_program(new_module(graph), nullptr, options, run).value();
  return texts;
}

TEST(Pipeline, EveryStageParsesBackAndGivesTheSameProgram) {
  for (const char* const text : kModels) {
    const Graph graph = model(text);
    const std::map<std::string, std::string> texts = stage_texts(graph);
    ASSERT_EQ(texts.size(), pipeline().size());
    for (const Stage& stage : pipeline()) {
      SCOPED_TRACE(fmt::format("{} after {}", graph.name(), stage.name));
      Result<ParsedStage> parsed = parse_stage(texts.at(std::string(stage.name)), graph, {});
      ASSERT_TRUE(parsed.ok()) << parsed.diagnostic().text();
      EXPECT_EQ(parsed->stage, &stage);
      std::string last =
          stage.form == StageForm::kProgram && stage.name == "memory" ? texts.at("memory") : std::string();
      RunOptions run{.verify = true};
      run.after = [&](const Stage& after, const StageRun&, const Module& module) {
        if (after.name == "memory") last = stage_text(module, after, {});
      };
      const Result<Program> program = finish_program(std::move(parsed->module), &stage, {}, run);
      ASSERT_TRUE(program.ok()) << program.diagnostic().text();
      // A program that was parsed does not know how its constants came to be: its tasks and slots are compared.
      if (stage.form != StageForm::kProgram) EXPECT_EQ(last, texts.at("memory"));
    }
  }
}

TEST(Pipeline, AParsedProgramRuns) {
  for (const char* const text : kModels) {
    const Graph graph = model(text);
    std::vector<Tensor> inputs;
    for (ValueRef input : graph.inputs()) {
      Tensor data = Tensor::zeros(DType::kF32, evaluate(graph.type(input).shape, {{Symbol("N"), 3}}));
      for (int64_t i = 0; i < data.numel(); ++i) data.set_real(i, static_cast<double>((i * 5) % 11) - 4);
      inputs.push_back(data);
    }
    const std::vector<Tensor> expected = compile_program(graph).value().run(inputs);
    for (const auto& [name, stage] : stage_texts(graph)) {
      SCOPED_TRACE(graph.name() + " after " + name);
      const Graph fresh = model(text);  // updates change a model's buffers
      ParsedStage parsed = parse_stage(stage, fresh, {}).value();
      const Program program = finish_program(std::move(parsed.module), parsed.stage, {}).value();
      const std::vector<Tensor> results = program.run(inputs);
      ASSERT_EQ(results.size(), expected.size());
      for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(identical(results[i], expected[i])) << i;
    }
  }
}

TEST(Pipeline, StagesHaveNamesOfTheirOwnAndTimes) {
  std::set<std::string_view> names;
  for (const Stage& stage : pipeline()) EXPECT_TRUE(names.insert(stage.name).second) << stage.name;
  const Program program = finish_program(new_module(model(kModels[0])), nullptr, {}).value();
  ASSERT_EQ(program.stage_times.size(), pipeline().size());
  EXPECT_EQ(program.stage_times.back().stage, "memory");
}

TEST(Pipeline, ATextThatIsNotOfAStageIsADiagnostic) {
  const Graph graph = model(kModels[0]);
  const auto complaint = [&](const std::string& text) {
    const Result<ParsedStage> parsed = parse_stage(text, graph, {}, "stage.txt");
    return parsed.ok() ? "none" : parsed.diagnostic().text();
  };
  EXPECT_THAT(complaint(""), HasSubstr("a stage's text lacks 'stage'"));
  EXPECT_THAT(complaint("stage grups\n"), HasSubstr("there is no stage 'grups'; did you mean 'groups'?"));
  const std::string groups = stage_texts(graph).at("groups");
  EXPECT_THAT(complaint(groups.substr(0, groups.find("groups\n  "))), HasSubstr("lacks 'groups'"));
  std::string unknown = groups;
  unknown.replace(unknown.find("kernel("), 7, "kernal(");
  EXPECT_THAT(complaint(unknown), StartsWith("stage.txt:"));
  EXPECT_THAT(complaint(groups + "kernel\n"), HasSubstr("the text of stage groups ends here"));
}

TEST(Pipeline, TheRunnerNamesTheStageThatBreaksAModule) {
  const Stage breaker{"breaker", "drops a group", StageForm::kGroups,
                      [](Module& module, const BuildTarget&, const ProgramOptions&) { module.groups.pop_back(); }};
  Module module = new_module(model(kModels[0]));
  const auto run = [&] {
    const auto groups = static_cast<size_t>(&stage_named("groups") - pipeline().data());
    run_stages(module, pipeline().first(groups + 1), target_of({}), {}, {.verify = true});
    run_stages(module, {&breaker, 1}, target_of({}), {}, {.verify = true});
  };
  EXPECT_THAT(run, testing::ThrowsMessage<InternalError>(HasSubstr("stage breaker left an invalid module")));
}

}  // namespace
}  // namespace tenon
