// Reads the files that data/make.py made, and compares them with what that script says.
#include "capture/pt2/pt2.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "capture/pt2/metadata.h"
#include "tests/capture/support_pt2.h"

namespace tenon {
namespace {

using pt2::Argument;
using pt2::ArgumentKind;
using pt2::InputKind;
using pt2::OutputKind;
using symbolic::Expr;
using symbolic::Interval;
using symbolic::Symbol;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::VariantWith;

pt2::ExportedProgram read(const std::string& name) { return read_pt2("tests/capture/data/" + name + ".pt2").value(); }

const pt2::ExportedNode& node(const pt2::ExportedGraph& graph, std::string_view name) {
  for (const pt2::ExportedNode& node : graph.nodes) {
    if (node.name == name) return node;
  }
  throw std::runtime_error("no node " + std::string(name));
}

const Argument& argument(const pt2::ExportedNode& node, std::string_view name) {
  for (const pt2::NamedArgument& input : node.inputs) {
    if (input.name == name) return input.value;
  }
  throw std::runtime_error("no argument " + std::string(name));
}

// The body of the printed program: inputs, nodes and outputs, without places.
std::string body(const pt2::ExportedProgram& program) {
  std::string text = to_string(program);
  text.erase(0, text.find('\n') + 1);
  for (size_t at = text.find(" @ "); at != std::string::npos; at = text.find(" @ ")) {
    text.erase(at, text.find('\n', at) - at);
  }
  return text;
}

std::vector<double> elements(const Tensor& tensor) {
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.numel(); ++i) result.push_back(tensor.real(tensor.offset(i)));
  return result;
}

TEST(Pt2, ReadsALayer) {
  const pt2::ExportedProgram program = read("linear");
  EXPECT_EQ(program.name, "model");
  EXPECT_EQ(program.schema.major, 8);
  EXPECT_EQ(program.schema.minor, 20);
  EXPECT_THAT(program.torch_version, HasSubstr("2.13"));
  EXPECT_EQ(program.opset_versions.at("aten"), 10);
  EXPECT_TRUE(program.ranges.empty());
  EXPECT_TRUE(program.guards.empty());
  EXPECT_EQ(body(program), R"(  parameter "fc.weight" %p_fc_weight: float32[2, 3]
  parameter "fc.bias" %p_fc_bias: float32[2]
  user_input %x: float32[5, 3]
  %linear = torch.ops.aten.linear.default(input=%x, weight=%p_fc_weight, bias=%p_fc_bias)
  %relu = torch.ops.aten.relu.default(self=%linear)
  user_output %relu
)");
}

TEST(Pt2, ANodeKnowsWhereItComesFrom) {
  const pt2::ExportedProgram program = read("linear");
  const pt2::ExportedNode& linear = node(program.graph, "linear");
  EXPECT_EQ(linear.location.file, "/home/user/tests/capture/data/make.py");  // not torch/nn/modules/linear.py
  EXPECT_GT(linear.location.line, 10);
  EXPECT_EQ(linear.module_path, "fc");
  EXPECT_EQ(linear.module_type, "torch.nn.modules.linear.Linear");
  EXPECT_EQ(node(program.graph, "relu").module_path, "");
  EXPECT_EQ(node(program.graph, "relu").module_type, "__main__.Linear");
  EXPECT_EQ(linear.inputs[0].kind, ArgumentKind::kPositional);
}

TEST(Pt2, TensorsHaveTypes) {
  const pt2::ExportedProgram program = read("linear");
  const pt2::TensorMeta& weight = program.graph.tensors.at("p_fc_weight");
  EXPECT_EQ(weight.dtype.number, 7);
  EXPECT_EQ(weight.dtype.require(), DType::kF32);
  EXPECT_THAT(weight.shape(), ElementsAre(Expr(2), Expr(3)));
  EXPECT_EQ(weight.strides[0].expr, Expr(3));
  EXPECT_EQ(weight.storage_offset.expr, Expr(0));
  EXPECT_TRUE(weight.requires_grad);
  EXPECT_EQ(weight.device, (pt2::TorchDevice{"cpu", std::nullopt}));
  EXPECT_EQ(weight.layout, pt2::Layout::kStrided);
  EXPECT_FALSE(program.graph.tensors.at("relu").requires_grad);
}

TEST(Pt2, WeightsAreInTheFile) {
  const std::string path = "tests/capture/data/linear.pt2";
  const FileContent file = read_file(path).value();
  const pt2::ExportedProgram program = read_pt2(file).value();
  const pt2::Weight& weight = program.weights.at("fc.weight");
  EXPECT_TRUE(weight.is_parameter);
  EXPECT_TRUE(weight.requires_grad);
  const Tensor& tensor = weight.require();
  EXPECT_THAT(elements(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_GE(tensor.data(), file.bytes.data());
  EXPECT_LT(tensor.data(), file.bytes.data() + file.bytes.size());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0);
  EXPECT_EQ(tensor.owner(), file.owner);
  EXPECT_EQ(program.find_data(program.inputs[0]), &weight);
}

TEST(Pt2, WeightsOutliveTheProgram) {
  Tensor bias;
  {
    const pt2::ExportedProgram program = read("linear");
    bias = program.weights.at("fc.bias").tensor;
  }
  EXPECT_THAT(elements(bias), ElementsAre(0.5, -0.5));
}

TEST(Pt2, AnArchiveThatWasPackedAnewIsReadToo) {
  const pt2::ExportedProgram program = read_pt2_text(Pt2Files("tests/capture/data/linear.pt2").packed()).value();
  const Tensor& weight = program.weights.at("fc.weight").tensor;
  EXPECT_THAT(elements(weight), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weight.data()) % 8, 0);
}

TEST(Pt2, SizesAreExpressions) {
  const pt2::ExportedProgram program = read("dynamic");
  const Expr n = Symbol("s77"), m = Symbol("s17");
  EXPECT_THAT(program.graph.tensors.at("x").shape(), ElementsAre(n, Expr(6)));
  EXPECT_EQ(program.graph.tensors.at("x").sizes[0].hint, 4);
  EXPECT_THAT(program.graph.tensors.at("reshape").shape(), ElementsAre(2 * n + 2 * m, Expr(3)));
  EXPECT_EQ(program.graph.sym_ints.at("add").require(), 2 * n + 2 * m + 1);
  EXPECT_EQ(program.graph.sym_ints.at("add").hint, 13);
  EXPECT_EQ(program.ranges.at(Symbol("s77")), (Interval{2, 64}));
  EXPECT_EQ(program.ranges.at(Symbol("s17")), Interval::at_least(2));
  EXPECT_THAT(program.graph.sym_floats.at("truediv").expression, HasSubstr("IntTrueDiv"));
}

TEST(Pt2, ListsMixSizesAndNumbers) {
  const pt2::ExportedProgram program = read("dynamic");
  const auto* shape = argument(node(program.graph, "reshape"), "shape").get<std::vector<pt2::SymInt>>();
  ASSERT_NE(shape, nullptr);
  ASSERT_EQ(shape->size(), 2);
  EXPECT_EQ(*(*shape)[0].name(), "mul");
  EXPECT_EQ(*(*shape)[1].value(), -1);
}

TEST(Pt2, ConstantInputsKeepTheirValue) {
  const pt2::ExportedProgram program = read("dynamic");
  const pt2::InputSpec& scale = program.inputs.back();
  EXPECT_EQ(scale.kind, InputKind::kConstantInput);
  EXPECT_EQ(scale.target, "scale");
  EXPECT_EQ(*scale.argument.get<int64_t>(), 3);
}

TEST(Pt2, ReadsStateAndWhatChangesIt) {
  EXPECT_EQ(body(read("state")), R"(  parameter "part" %p_part: float32[2, 6]
  parameter "fc.weight" %p_fc_weight: float32[3, 4]
  parameter "tied.weight" %p_tied_weight: float32[3, 4]
  buffer "row" %b_row: float32[4]
  buffer "steps" %b_steps: int64[]
  buffer "mask" %b_mask: bool[3] not persistent
  tensor_constant "lifted_tensor_0" %c_lifted_tensor_0: float32[3]
  user_input %x: float32[2, 4]
  constant_input "extra" None
  %add = torch.ops.aten.add.Tensor(self=%b_steps, other=1)
  %linear = torch.ops.aten.linear.default(input=%x, weight=%p_tied_weight)
  %linear_1 = torch.ops.aten.linear.default(input=%x, weight=%p_tied_weight)
  %add_1 = torch.ops.aten.add.Tensor(self=%linear, other=%linear_1)
  %clone = torch.ops.aten.clone.default(self=%c_lifted_tensor_0)
  %where = torch.ops.aten.where.self(condition=%b_mask, self=%add_1, other=%clone)
  %mul = torch.ops.aten.mul.Tensor(self=%x, other=2)
  [%getitem, %getitem_1] = torch.ops.aten.split_with_sizes.default(self=%where, split_sizes=[1, 2], dim=1)
  %sum_1 = torch.ops.aten.sum.default(self=%p_part)
  %sum_2 = torch.ops.aten.sum.default(self=%b_row)
  %add_2 = torch.ops.aten.add.Tensor(self=%sum_1, other=%sum_2)
  buffer_mutation "steps" %add
  user_input_mutation "x" %mul
  user_output %getitem
  user_output %getitem_1
  user_output None
  user_output %add_2
)");
}

TEST(Pt2, SharedStoragesAreShared) {
  const pt2::ExportedProgram program = read("state");
  const Tensor& weight = program.weights.at("fc.weight").tensor;
  EXPECT_EQ(weight.data(), program.weights.at("tied.weight").tensor.data());
  const Tensor& part = program.weights.at("part").tensor;
  const Tensor& row = program.weights.at("row").tensor;
  EXPECT_THAT(part.strides(), ElementsAre(1, 4));
  EXPECT_THAT(elements(part), ElementsAre(1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22));
  EXPECT_THAT(elements(row), ElementsAre(8, 9, 10, 11));
  EXPECT_TRUE(part.shares_memory_with(row));
  EXPECT_EQ(row.data() - part.data(), (8 - 1) * 4);
  EXPECT_FALSE(program.weights.at("row").is_parameter);
}

TEST(Pt2, WritingToWeightsLeavesTheFileAlone) {
  const pt2::ExportedProgram program = read("state");
  EXPECT_EQ(program.weights.at("steps").tensor.access(), Access::kReadWrite);
  Tensor(program.weights.at("steps").tensor).set_integer(0, 5);
  EXPECT_EQ(read("state").weights.at("steps").tensor.integer(0), 0);
}

TEST(Pt2, BuffersThatAreNotPersistentAreConstants) {
  const pt2::ExportedProgram program = read("state");
  const auto mask = std::ranges::find(program.inputs, "mask", &pt2::InputSpec::target);
  ASSERT_NE(mask, program.inputs.end());
  EXPECT_FALSE(mask->persistent);
  EXPECT_THAT(elements(program.find_data(*mask)->require()), ElementsAre(1, 0, 1));
  EXPECT_THAT(elements(program.constants.at("lifted_tensor_0").require()), ElementsAre(1, 2, 3));
  EXPECT_FALSE(program.weights.contains("mask"));
}

TEST(Pt2, TheSignatureSaysHowValuesNest) {
  const pt2::ExportedProgram program = read("state");
  const pt2::TreeSpec& inputs = program.signature->inputs;
  EXPECT_EQ(inputs.type, "builtins.tuple");
  ASSERT_EQ(inputs.children.size(), 2);
  EXPECT_EQ(inputs.children[0].leaf_count(), 1);
  EXPECT_THAT(inputs.children[1].keys, ElementsAre(VariantWith<std::string>("extra")));
  EXPECT_EQ(inputs.leaf_count(), 2);
  const pt2::TreeSpec& outputs = program.signature->outputs;
  EXPECT_EQ(outputs.type, "builtins.dict");
  EXPECT_THAT(outputs.keys, ElementsAre(VariantWith<std::string>("parts"), VariantWith<std::string>("none"),
                                        VariantWith<std::string>("sum")));
  EXPECT_EQ(outputs.children[0].type, "collections.namedtuple");
  EXPECT_THAT(outputs.children[0].keys, ElementsAre(VariantWith<std::string>("low"), VariantWith<std::string>("high")));
  EXPECT_TRUE(outputs.children[1].is_leaf());
  EXPECT_THAT(program.signature->argument_names, ElementsAre("x", "extra"));
}

TEST(Pt2, ReadsArgumentsOfManyKinds) {
  const pt2::ExportedGraph graph = read("kinds").graph;
  const auto* indices = argument(node(graph, "index"), "indices").get<std::vector<pt2::OptionalTensor>>();
  ASSERT_NE(indices, nullptr);
  EXPECT_FALSE((*indices)[0].has_value());
  EXPECT_EQ((*indices)[1]->name, "i");
  const pt2::ExportedNode& empty = node(graph, "empty");
  EXPECT_EQ(argument(empty, "dtype").get<pt2::TorchDType>()->require(), DType::kF16);
  EXPECT_EQ(argument(empty, "device").get<pt2::TorchDevice>()->type, "cpu");
  EXPECT_EQ(*argument(empty, "memory_format").get<pt2::MemoryFormat>(), pt2::MemoryFormat::kContiguous);
  EXPECT_FALSE(*argument(empty, "pin_memory").get<bool>());
  EXPECT_EQ(empty.inputs.back().kind, ArgumentKind::kKeyword);
  EXPECT_TRUE(std::isinf(*argument(node(graph, "full"), "fill_value").get<double>()));
  EXPECT_THAT(*argument(node(graph, "full"), "size").get<std::vector<int64_t>>(), ElementsAre(2));
  const pt2::ExportedNode& upsample = node(graph, "upsample_bilinear2d");
  EXPECT_NE(argument(upsample, "output_size").get<None>(), nullptr);
  EXPECT_THAT(*argument(upsample, "scale_factors").get<std::vector<double>>(), ElementsAre(2.0, 1.5));
  EXPECT_EQ(*argument(node(graph, "div"), "rounding_mode").get<std::string>(), "floor");
  EXPECT_EQ(argument(node(graph, "stack"), "tensors").get<std::vector<pt2::TensorName>>()->at(1).name, "div");
  EXPECT_EQ(*argument(node(graph, "mul"), "other").get<std::complex<double>>(), std::complex<double>(1, 2));
  EXPECT_EQ(node(graph, "max_1").outputs.size(), 2);
}

TEST(Pt2, KeepsDtypesThatTenonLacks) {
  const pt2::ExportedGraph graph = read("kinds").graph;
  const pt2::TorchDType dtype = graph.tensors.at("view_as_complex").dtype;
  EXPECT_EQ(dtype.name(), "complex64");
  EXPECT_EQ(dtype.dtype(), std::nullopt);
  EXPECT_THROW(dtype.require(), Error);
  EXPECT_EQ((pt2::TorchDType{36}).name(), "dtype number 36");
}

TEST(Pt2, ReadsNestedGraphs) {
  const pt2::ExportedProgram program = read("control");
  EXPECT_EQ(body(program), R"(  user_input %x: float32[3]
  %sum_1 = torch.ops.aten.sum.default(self=%x)
  %gt = torch.ops.aten.gt.Scalar(self=%sum_1, other=0)
  %getitem = torch.ops.higher_order.cond(%gt, graph true_graph_0, graph false_graph_0, [%x])
    true_graph_0:
      inputs %x: float32[3]
      %mul = torch.ops.aten.mul.Tensor(self=%x, other=2)
      outputs %mul: float32[3]
    false_graph_0:
      inputs %x: float32[3]
      %sin = torch.ops.aten.sin.default(self=%x)
      %neg = torch.ops.aten.neg.default(self=%sin)
      outputs %neg: float32[3]
  user_output %getitem
)");
  const auto* nested = node(program.graph, "cond").inputs[1].value.get<pt2::GraphArgument>();
  ASSERT_NE(nested, nullptr);
  EXPECT_EQ(nested->graph->nodes.size(), 1);
}

// ---- every kind of argument, in a file made by hand
// -------------------------------------------------------------------

struct Kind {
  std::string json;
  std::string tag;
  std::string text;
};

class Pt2Argument : public testing::TestWithParam<Kind> {};

// The first argument of the only node is another one.
TEST_P(Pt2Argument, IsRead) {
  Pt2Files files("tests/capture/data/linear.pt2");
  files.replace("models/model.json", R"({"as_tensor": {"name": "x"}}, "kind")", GetParam().json + R"(, "kind")");
  const pt2::ExportedProgram program = read_pt2_text(files.packed()).value();
  const Argument& value = program.graph.nodes[0].inputs[0].value;
  EXPECT_EQ(value.tag(), GetParam().tag);
  EXPECT_EQ(to_string(value), GetParam().text);
}

const std::string kGraph =
    R"({"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {}})";

const Kind kKinds[] = {
    {R"({"as_none": true})", "as_none", "None"},
    {R"({"as_tensor": {"name": "x"}})", "as_tensor", "%x"},
    {R"({"as_tensors": [{"name": "x"}, {"name": "x"}]})", "as_tensors", "[%x, %x]"},
    {R"({"as_int": -9223372036854775808})", "as_int", "-9223372036854775808"},
    {R"({"as_ints": [1, -2]})", "as_ints", "[1, -2]"},
    {R"({"as_float": 1.0})", "as_float", "1.0"},
    {R"({"as_float": 1})", "as_float", "1.0"},
    {R"({"as_float": "NaN"})", "as_float", "nan"},
    {R"({"as_floats": [1e-05, "-Infinity"]})", "as_floats", "[1e-05, -inf]"},
    {R"({"as_string": "a\"b"})", "as_string", R"("a\"b")"},
    {R"({"as_strings": ["a", "b"]})", "as_strings", R"(["a", "b"])"},
    {R"({"as_sym_int": {"as_int": 3}})", "as_sym_int", "3"},
    {R"({"as_sym_ints": [{"as_int": 3}, {"as_int": 4}]})", "as_sym_ints", "[3, 4]"},
    {R"({"as_scalar_type": 33})", "as_scalar_type", "float8_e8m0fnu"},
    {R"({"as_memory_format": 3})", "as_memory_format", "channels_last_3d"},
    {R"({"as_layout": 2})", "as_layout", "sparse_csr"},
    {R"({"as_device": {"type": "cuda", "index": 1}})", "as_device", "cuda:1"},
    {R"({"as_bool": false})", "as_bool", "False"},
    {R"({"as_bools": [true, false]})", "as_bools", "[True, False]"},
    {R"({"as_sym_bool": {"as_bool": true}})", "as_sym_bool", "True"},
    {R"({"as_sym_bools": [{"as_bool": false}]})", "as_sym_bools", "[False]"},
    {R"({"as_graph": {"name": "body", "graph": )" + kGraph + "}}", "as_graph", "graph body"},
    {R"({"as_optional_tensors": [{"as_none": true}, {"as_tensor": {"name": "x"}}]})", "as_optional_tensors",
     "[None, %x]"},
    {R"({"as_custom_obj": {"name": "o", "class_fqn": "C"}})", "as_custom_obj", "C o"},
    {R"({"as_operator": "torch.ops.aten.add.Tensor"})", "as_operator", "torch.ops.aten.add.Tensor"},
    {R"({"as_sym_float": {"as_float": 0.5}})", "as_sym_float", "0.5"},
    {R"({"as_sym_floats": [{"as_float": 0.5}]})", "as_sym_floats", "[0.5]"},
    {R"({"as_optional_tensor": {"as_tensor": {"name": "x"}}})", "as_optional_tensor", "%x"},
    {R"({"as_complex": {"real": 1.5, "imag": -2.0}})", "as_complex", "(1.5, -2.0)"},
    {R"({"as_nested_tensors": [[{"name": "x"}], []]})", "as_nested_tensors", "[[%x], []]"},
    {R"({"as_int_lists": [[1, 2], [3]]})", "as_int_lists", "[[1, 2], [3]]"},
    {R"({"as_string_to_argument": {"a": {"as_int": 1}, "b": {"as_tensor": {"name": "x"}}}})", "as_string_to_argument",
     R"(["a": 1, "b": %x])"},
    {R"({"as_float_lists": [[0.5], []]})", "as_float_lists", "[[0.5], []]"},
};

INSTANTIATE_TEST_SUITE_P(All, Pt2Argument, testing::ValuesIn(kKinds));

// ---- versions
// ---------------------------------------------------------------------------------------------------------

TEST(Pt2, ANewerMinorVersionWithUnknownFieldsLoads) {
  Pt2Files files("tests/capture/data/linear.pt2");
  files.replace("models/model.json", R"("minor": 20)", R"("minor": 99)");
  files.replace("models/model.json", R"({"target")", R"({"color": {"as_hologram": [1, {"deep": null}]}, "target")");
  files.replace("models/model.json", R"("range_constraints")", R"("new_list": [[]], "range_constraints")");
  files.replace("data/weights/model_weights_config.json", R"("is_param")", R"("checksum": "abc", "is_param")");
  const pt2::ExportedProgram program = read_pt2_text(files.packed()).value();
  EXPECT_EQ(program.schema.minor, 99);
  EXPECT_EQ(body(program), body(read("linear")));
}

TEST(Pt2, FieldsThatOlderFilesLackAreOptional) {
  Pt2Files files("tests/capture/data/linear.pt2");
  const std::string model = "models/model.json";
  files.replace(model, R"(, "torch_version": "2.13.0+cpu", "guards_code": [])", "");
  files.replace(model, R"(, "is_single_tensor_return": false, "custom_obj_values": {}, "sym_float_values": {})", "");
  files.replace(model, R"(, "is_hop_single_tensor_return": null, "name": "linear")", "");
  files.replace(model, R"(, "kind": 1)", "");
  const pt2::ExportedProgram program = read_pt2_text(files.packed()).value();
  EXPECT_EQ(body(program), body(read("linear")));
  EXPECT_EQ(program.graph.nodes[0].inputs[0].kind, ArgumentKind::kUnknown);
  EXPECT_EQ(program.graph.nodes[0].name, "");
}

TEST(Pt2, PicksOneOfSeveralModels) {
  Pt2Files files("tests/capture/data/linear.pt2");
  for (const char* name :
       {"models/{}.json", "data/weights/{}_weights_config.json", "data/constants/{}_constants_config.json"}) {
    files.add(fmt::format(fmt::runtime(name), "other"), files[fmt::format(fmt::runtime(name), "model")]);
  }
  EXPECT_EQ(read_pt2_text(files.packed(), "other").value().name, "other");
  EXPECT_EQ(pt2_error(files.packed()), "the archive has several models, say which one: model, other");
  EXPECT_EQ(pt2_error(files.packed(), "third"), "the archive has no model 'third': it has model, other");
}

TEST(Pt2, ASizeThatCannotBeReadIsAnErrorWhereItIsNeeded) {
  Pt2Files files("tests/capture/data/linear.pt2");
  const std::string piecewise = R"x({"as_expr": {"expr_str": "Piecewise(ExprCondPair(Integer(1), true))"}})x";
  files.replace("models/model.json", R"("relu": {"dtype": 7, "sizes": [{"as_int": 5})",
                R"("relu": {"dtype": 7, "sizes": [)" + piecewise);
  const pt2::ExportedProgram program = read_pt2_text(files.packed()).value();
  const pt2::TensorMeta& meta = program.graph.tensors.at("relu");
  EXPECT_EQ(to_string(meta), "float32[?, 2]");
  EXPECT_THROW(meta.shape(), Error);
}

TEST(Pt2, APayloadThatNothingNeedsMayBePickled) {
  Pt2Files files("tests/capture/data/linear.pt2");
  files.replace(
      "data/constants/model_constants_config.json", "{}",
      R"({"extra": {"path_name": "custom_obj_0", "is_param": false, "use_pickle": true, "tensor_meta": null}})");
  const pt2::ExportedProgram program = read_pt2_text(files.packed()).value();
  EXPECT_THAT(program.constants.at("extra").problem, HasSubstr("only Python can load it"));
  EXPECT_THROW(program.constants.at("extra").require(), Error);
}

// ---- metadata
// ---------------------------------------------------------------------------------------------------------

Location place(const std::string& file, int line) { return {file, line, 0}; }

TEST(Pt2Metadata, TheInnermostLineOfTheModelCounts) {
  const std::string in_model = "File \"/home/a/model.py\", line 3, in forward\n    y = self.block(x)\n";
  const std::string in_block = "  File \"/home/a/block.py\", line 14, in forward\n    return F.relu(x)\n";
  const std::string in_torch = "  File \"/usr/lib/python3/site-packages/torch/nn/functional.py\", line 99, in relu";
  EXPECT_EQ(pt2::model_location(in_model + in_block + in_torch), place("/home/a/block.py", 14));
  EXPECT_EQ(pt2::model_location(in_model), place("/home/a/model.py", 3));
}

TEST(Pt2Metadata, AModelThatIsAPackageHasLinesToo) {
  const std::string in_package = "File \"/x/site-packages/transformers/bert.py\", line 7, in forward\n";
  const std::string in_torch = "File \"/x/site-packages/torch/nn/functional.py\", line 99, in relu\n";
  EXPECT_EQ(pt2::model_location(in_package + in_torch), place("/x/site-packages/transformers/bert.py", 7));
  const std::string own = "File \"/home/a/model.py\", line 3, in forward\n";
  EXPECT_EQ(pt2::model_location(own + in_package + in_torch), place("/home/a/model.py", 3));
}

TEST(Pt2Metadata, PytorchItselfIsNoPlace) {
  EXPECT_FALSE(pt2::model_location("File \"torch/fx/passes/runtime_assert.py\", line 24, in insert").known());
  EXPECT_FALSE(pt2::model_location("File \"<eval_with_key>.0\", line 4, in forward").known());
  EXPECT_FALSE(pt2::model_location("").known());
  EXPECT_FALSE(pt2::model_location("File \"a.py\", line many").known());
  EXPECT_EQ(pt2::model_location("File \"/home/a/torch/m.py\", line 2, in f"), place("/home/a/torch/m.py", 2));
}

TEST(Pt2Metadata, TheInnermostModuleCounts) {
  const auto module = pt2::innermost_module("L__self__,,m.Model;L__self__.layers.0,layers.0,torch.nn.Linear");
  EXPECT_EQ(module.path, "layers.0");
  EXPECT_EQ(module.type, "torch.nn.Linear");
  const std::string none = "_empty_nn_module_stack_from_metadata_hook";
  EXPECT_EQ(pt2::innermost_module(none + "," + none + "," + none).type, "");
  EXPECT_EQ(pt2::innermost_module("garbage").type, "");
}

}  // namespace
}  // namespace tenon
