#include "capture/import_pt2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/capture/support_pt2.h"

namespace tenon {
namespace {

using testing::HasSubstr;

const std::string kState = "tests/capture/data/state.pt2";
const std::string kModel = "models/model.json";

std::string import_error(const Pt2Files& files) {
  const pt2::ExportedProgram program = read_pt2_text(files.packed()).value();
  const auto imported = import_program(program);
  return imported.ok() ? "no error" : imported.diagnostic().text();
}

TEST(ImportPt2, LeavesAreBoundToTheFile) {
  const pt2::ExportedProgram program = read_pt2(kState).value();
  const Imported imported = import_program(program).value();
  EXPECT_TRUE(verify(imported.graph).ok());
  const Leaf* weight = imported.graph.leaf_named("tied.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->kind, LeafKind::kParameter);
  EXPECT_EQ(weight->data.data(), program.weights.at("tied.weight").tensor.data());
  EXPECT_EQ(imported.graph.leaf_named("mask")->kind, LeafKind::kBuffer);
  EXPECT_EQ(imported.graph.leaf_named("steps")->data.access(), Access::kReadWrite);
}

TEST(ImportPt2, MutationsAreUpdates) {
  const Imported imported = import_pt2(kState).value();
  ASSERT_EQ(imported.graph.updates().size(), 2);
  const auto target = [&](size_t i) { return imported.graph.leaf(imported.graph.updates()[i].target)->name; };
  EXPECT_EQ(target(0), "steps");
  EXPECT_EQ(target(1), "x");
}

TEST(ImportPt2, SaysWhatBecomesOfInputsAndOutputs) {
  const Imported imported = import_pt2(kState).value();
  ASSERT_EQ(imported.inputs.size(), 2);
  EXPECT_EQ(imported.inputs[0].name, "x");
  EXPECT_EQ(imported.inputs[0].input, 0);
  EXPECT_EQ(imported.inputs[1].name, "extra");
  EXPECT_EQ(imported.inputs[1].input, std::nullopt);
  ASSERT_EQ(imported.outputs.size(), 4);
  EXPECT_EQ(imported.outputs[2].output, std::nullopt);
  EXPECT_NE(imported.outputs[2].argument.get<None>(), nullptr);
  EXPECT_EQ(imported.outputs[3].output, 2);
  EXPECT_EQ(imported.graph.outputs().size(), 3);
  EXPECT_EQ(imported.signature->outputs.leaf_count(), 4);
}

TEST(ImportPt2, NodesKeepTheirPlace) {
  const Imported imported = import_pt2(kState).value();
  for (const Node& node : imported.graph.nodes()) {
    EXPECT_EQ(node.location.file, "/home/user/tests/capture/data/make.py");
  }
}

TEST(ImportPt2, AFileThatLiesAboutATypeIsRefused) {
  Pt2Files files("tests/capture/data/linear.pt2");
  files.replace(kModel, R"("relu": {"dtype": 7)", R"("relu": {"dtype": 5)");
  EXPECT_THAT(import_error(files), HasSubstr("make.py:46: error: torch.ops.aten.relu.default gives f32[5, 2], but the "
                                             "file says that 'relu' is int64[5, 2]"));
  Pt2Files other("tests/capture/data/linear.pt2");
  other.replace(kModel, R"("relu": {"dtype": 7, "sizes": [{"as_int": 5})",
                R"("relu": {"dtype": 7, "sizes": [{"as_int": 6})");
  EXPECT_THAT(import_error(other), HasSubstr("the file says that 'relu' is float32[6, 2]"));
}

std::vector<UnsupportedCall> unsupported(const Pt2Files& files) {
  return import_program(read_pt2_text(files.packed()).value()).value().unsupported;
}

TEST(ImportPt2, WhatTakesATensorThatTenonLacksADtypeForIsUnsupported) {
  Pt2Files input("tests/capture/data/linear.pt2");
  input.replace(kModel, R"("x": {"dtype": 7)", R"("x": {"dtype": 10)");
  EXPECT_EQ(unsupported(input).at(0).reason, "it takes a tensor of complex64");
  Pt2Files weight("tests/capture/data/linear.pt2");
  weight.replace(kModel, R"("p_fc_weight": {"dtype": 7)", R"("p_fc_weight": {"dtype": 35)");
  weight.replace("data/weights/model_weights_config.json", R"("dtype": 7)", R"("dtype": 35)");
  EXPECT_EQ(unsupported(weight).at(0).reason, "it takes a tensor of uint64");
  EXPECT_EQ(unsupported(weight).at(0).location.line, 46);
}

TEST(ImportPt2, GradientsInAProgramAreAnError) {
  Pt2Files files("tests/capture/data/linear.pt2");
  files.replace(kModel, R"({"user_output": {"arg": {"as_tensor": {"name": "relu"}}}})",
                R"({"gradient_to_parameter": {"arg": {"name": "relu"}, "parameter_name": "fc.bias"}})");
  EXPECT_THAT(import_error(files), HasSubstr("an output gradient_to_parameter of 'fc.bias': export the forward pass"));
}

TEST(ImportPt2, AnErrorNamesTheFile) {
  EXPECT_THAT(import_pt2("tests/capture/data/none.pt2").diagnostic().text(), HasSubstr("none.pt2: error: cannot open"));
}

}  // namespace
}  // namespace tenon
