// Files that are damaged or made to do harm: each is a clean error that says what is wrong, and nothing else happens.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "capture/import_pt2.h"
#include "runtime/strided.h"
#include "tests/capture/support_pt2.h"

namespace tenon {
namespace {

using testing::HasSubstr;

const std::string kGood = "tests/capture/data/linear.pt2";
const std::string kModel = "models/model.json";
const std::string kWeights = "data/weights/model_weights_config.json";

// ---- a text within an entry
// ------------------------------------------------------------------------------------------

struct Edit {
  std::string entry;
  std::string from;
  std::string to;
  std::string words;  // of the message
};

class HostileText : public testing::TestWithParam<Edit> {};

TEST_P(HostileText, IsACleanError) {
  const Edit& edit = GetParam();
  Pt2Files files(kGood);
  files.replace(edit.entry, edit.from, edit.to);
  EXPECT_THAT(pt2_error(files.packed()), HasSubstr(edit.words)) << edit.from << " -> " << edit.to;
}

const std::string kX = R"("x": {"dtype": 7, "sizes": [{"as_int": 5})";
const std::string kLinearNode = R"({"target": "torch.ops.aten.linear.default")";
const std::string kFirstArgument = R"("arg": {"as_tensor": {"name": "x"}})";

std::string x_with(const std::string& fields) { return R"("x": {)" + fields; }
std::string x_of_size(const std::string& expression) {
  return x_with(R"("dtype": 7, "sizes": [{"as_expr": {"expr_str": ")" + expression + R"("}})");
}

const Edit kModelEdits[] = {
    // Versions.
    {kModel, R"("major": 8)", R"("major": 7)", "schema_version: the schema has version 7.20"},
    {kModel, R"("major": 8)", R"("major": 9)", "only 8.x can be read"},
    {kModel, R"("major": 8)", R"("major": -8)", "the schema has version -8.20"},
    {kModel, R"("major": 8)", R"("major": "8")", "schema_version.major: expected an integer, got a string"},
    {kModel, R"("major": 8)", R"("major": 8.5)", "schema_version.major: expected an integer, got a fraction"},
    {kModel, R"("major": 8)", R"("major": 18446744073709551615)", "got an integer that does not fit 64 bits"},
    {kModel, R"("major": 8)", R"("major": 99999999999999999999999)", "malformed JSON"},
    {kModel, R"("major": 8, )", "", "schema_version: 'major' is missing"},
    {kModel, R"("schema_version")", R"("schema")", "models/model.json: 'schema_version' is missing"},
    {kModel, R"("major": 8)", R"("major": 8, "major": 8)", "schema_version: 'major' appears twice"},
    // Unions.
    {kModel, kFirstArgument, R"("arg": {"as_hologram": {"name": "x"}})",
     "models/model.json: graph_module.graph.nodes[0].inputs[0].arg: 'as_hologram' is not a known kind of argument"},
    {kModel, kFirstArgument, R"("arg": {})", "nodes[0].inputs[0].arg: expected one of several kinds of value, got 0"},
    {kModel, kFirstArgument, R"("arg": {"as_int": 1, "as_bool": true})", "got 2 at once"},
    {kModel, kFirstArgument, R"("arg": "x")", "expected an object, got a string"},
    {kModel, kFirstArgument, R"("arg": {"as_none": false})", "expected true, got false"},
    {kModel, kFirstArgument, R"("arg": {"as_ints": [1, true]})", "arg.as_ints[1]: expected an integer, got a bool"},
    {kModel, kFirstArgument, R"("arg": {"as_float": "Infinite"})", "expected a number, got a string"},
    {kModel, kFirstArgument, R"("arg": {"as_sym_int": {"as_float": 1.0}})",
     "'as_float' is not a known kind of symbolic number"},
    {kModel, kFirstArgument, R"("arg": {"as_optional_tensor": {"as_int": 1}})",
     "is not a known kind of optional tensor"},
    {kModel, kFirstArgument, R"("arg": {"as_memory_format": 9})", "9 is not the number of a known memory format"},
    {kModel, kFirstArgument, R"("arg": {"as_graph": {"name": "g"}})", "arg.as_graph: 'graph' is missing"},
    {kModel, kFirstArgument, R"("arg": {"as_sym_int": {"as_name": "s"}})", "'s' is not defined before it is used"},
    {kModel, kFirstArgument, R"("arg": {"as_sym_int": {"as_name": "x"}})", "'x' is no symbolic integer"},
    {kModel, R"("user_input": {)", R"("abuser_input": {)",
     "input_specs[2]: 'abuser_input' is not a known kind of input"},
    {kModel, R"("user_output": {)", R"("user_input": {)",
     "output_specs[0]: 'user_input' is not a known kind of output"},
    // Types of fields.
    {kModel, R"("nodes": [)", R"("nodes": {}, "others": [)",
     "graph_module.graph.nodes: expected a list, got an object"},
    {kModel, R"("name": "linear"}, {"target")", R"("name": 1}, {"target")", "nodes[0].name: expected a string"},
    {kModel, R"("target": "torch.ops.aten.linear.default")", R"("target": null)", "nodes[0]: 'target' is missing"},
    {kModel, R"("kind": 1)", R"("kind": 3)",
     "nodes[0].inputs[0].kind: 3 is not the number of a known kind of argument"},
    {kModel, R"("stack_trace": "F)", R"("stack_trace": 7, "text": "F)", "metadata.stack_trace: expected a string"},
    {kModel, R"("guards_code": [])", R"("guards_code": [[]])", "guards_code[0]: expected a string, got a list"},
    // Names.
    {kModel, kFirstArgument, R"("arg": {"as_tensor": {"name": "y"}})",
     "models/model.json: graph_module.graph.nodes[0].inputs[0].arg: 'y' is not defined before it is used"},
    {kModel, kFirstArgument, R"("arg": {"as_tensor": {"name": "relu"}})", "'relu' is not defined before it is used"},
    {kModel, kFirstArgument, R"("arg": {"as_tensor": {"name": "linear"}})",
     "'linear' is not defined before it is used"},
    {kModel, R"("outputs": [{"as_tensor": {"name": "linear"}}])", R"("outputs": [{"as_tensor": {"name": "x"}}])",
     "nodes[0].outputs[0]: 'x' is defined twice"},
    {kModel, R"("outputs": [{"as_tensor": {"name": "linear"}}])", R"("outputs": [{"as_tensor": {"name": "new"}}])",
     "nodes[0].outputs[0]: 'new' is not in tensor_values"},
    {kModel, R"("outputs": [{"as_tensor": {"name": "relu"}}], "nodes")",
     R"("outputs": [{"as_tensor": {"name": "gone"}}], "nodes")", "graph.outputs[0]: 'gone' is not defined"},
    {kModel, R"("tensor_values": {)", R"("tensor_values": {"x": {}, )", "tensor_values.x: 'dtype' is missing"},
    // Types of tensors.
    {kModel, kX, x_with(R"("dtype": "float", "sizes": [{"as_int": 5})"), "tensor_values.x.dtype: expected an integer"},
    {kModel, kX, x_with(R"("dtype": 999, "sizes": [{"as_int": 5})"), "999 is not the number of a known dtype"},
    {kModel, kX, x_with(R"("dtype": -1, "sizes": [{"as_int": 5})"), "-1 is not the number of a known dtype"},
    {kModel, kX, x_with(R"("dtype": 7, "sizes": [{"as_int": -5})"), "tensor_values.x.sizes[0]: -5 is negative"},
    {kModel, kX, x_with(R"("dtype": 7, "sizes": [{"as_bool": true})"),
     "'as_bool' is not a known kind of symbolic value"},
    {kModel, kX, x_with(R"("dtype": 7, "sizes": [{"as_int": 1}, {"as_int": 5})"), "3 sizes have 2 strides"},
    {kModel, kX, x_of_size("Symbol('s0'"),
     "input_specs[2]: input 'x': the expression 'Symbol('s0'' can't be used: expected ')'"},
    {kModel, kX, x_of_size("__import__('os')"), "can't be used"},
    {kModel, kX, x_of_size("Pow(Integer(9), Integer(64))"), "integer overflow"},
    {kModel, kX, x_of_size("Integer(-4)"), "-4 is negative"},
    {kModel, kX, x_of_size(R"x(Integer(4)", "hint": {"as_x": 1}, "more": ")x"),
     "hint: 'as_x' is not a known kind of hint"},
    {kModel, R"("layout": 7}, "linear")", R"("layout": 8}, "linear")", "8 is not the number of a known layout"},
    // Ranges.
    {kModel, R"("range_constraints": {})", R"("range_constraints": {"s0": {"min_val": 3, "max_val": 2}})",
     "range_constraints.s0: no number is at least 3 and at most 2"},
    {kModel, R"("range_constraints": {})", R"("range_constraints": {"s 0": {"min_val": 1, "max_val": 2}})", "'s 0'"},
    {kModel, R"("range_constraints": {})", R"("range_constraints": {"s0": "any"})", "expected an object, got a string"},
    {kModel, R"("range_constraints": {})", R"("range_constraints": {"s0": {}, "s0": {}})", "'s0' appears twice"},
    // Signature.
    {kModel, R"(, {"user_input": {"arg": {"as_tensor": {"name": "x"}}}})", "",
     "input_specs: 2 of them, but the graph has 3 inputs"},
    {kModel, R"("output_specs": [)", R"("output_specs": [{"token": {"arg": {"name": "t"}}}, )",
     "output_specs: 2 of them, but the graph has 1 outputs"},
    {kModel, R"({"user_input": {"arg": {"as_tensor": {"name": "x"}}}})",
     R"({"user_input": {"arg": {"as_tensor": {"name": "y"}}}})", "input_specs[2]: it says %y, but the graph has %x"},
    {kModel, R"({"user_output": {"arg": {"as_tensor": {"name": "relu"}}}})",
     R"({"buffer_mutation": {"arg": {"name": "relu"}, "buffer_name": "b"}})",
     "output_specs[0]: buffer_mutation of 'b', which is not such an input"},
    {kModel, R"({"user_input": {"arg": {"as_tensor": {"name": "x"}}}})",
     R"({"custom_obj": {"arg": {"name": "x", "class_fqn": "C"}, "custom_obj_name": "queue"}})",
     "the model needs the custom object 'queue', which only Python can load"},
    {kModel, R"("parameter_name": "fc.weight")", R"("parameter_name": "fc.height")",
     "there is no data of 'fc.height' in the archive"},
    {kModel, R"("out_spec": "[1, )", R"("out_spec": "[2, )", "signature.out_spec: version 2 of tree specs"},
    {kModel, R"("out_spec": "[1, )", R"("out_spec": "[1)", "signature.out_spec: tree spec: malformed JSON"},
    {kModel, R"("out_spec": "[1, )", R"("out_spec": "[1, 2, )", "expected a version and a tree, got 3 values"},
    {kModel, R"({\"type\": null, \"context\": null, \"children_spec\": []}]", "forward)",
     R"({\"type\": null, \"context\": null, \"children_spec\": [{\"children_spec\": []}]}]", "forward)",
     "a leaf has 1 children"},
    // The text itself.
    {kModel, R"("graph_module")", "\"graph\xff\"", "malformed JSON"},
    {kModel, R"(, "guards_code": []})", R"(, "guards_code": [])", "models/model.json: malformed JSON"},
    {kModel, R"("guards_code": []})", R"("guards_code": []} {})", "malformed JSON"},
};

INSTANTIATE_TEST_SUITE_P(Model, HostileText, testing::ValuesIn(kModelEdits));

const std::string kFirstSize = R"("sizes": [{"as_int": 2}, )";
const std::string kFirstStride = R"("strides": [{"as_int": 3}, )";

const Edit kWeightEdits[] = {
    {kWeights, R"("weight_0")", R"("weight_9")", "config.fc.weight: 'data/weights/weight_9' is missing in the archive"},
    {kWeights, R"("weight_0")", R"("../../../etc/passwd")", "is missing in the archive"},
    {kWeights, R"("weight_0")", R"("weight_1")", "the tensor needs 24 bytes of 'data/weights/weight_1', which has 8"},
    {kWeights, R"("use_pickle": false)", R"("use_pickle": true)",
     "input_specs[0]: 'data/weights/weight_0' is pickled, and only Python can load it"},
    {kWeights, R"("use_pickle": false)", R"("use_pickle": 0)", "use_pickle: expected a bool, got an integer"},
    {kWeights, R"("fc.bias")", R"("fc.weight")", "config: 'fc.weight' appears twice"},
    {kWeights, R"("tensor_meta": {)", R"("tensor_meta": null, "meta": {)", "fc.weight: 'tensor_meta' is missing"},
    {kWeights, R"("config")", R"("konfig")", "data/weights/model_weights_config.json: 'config' is missing"},
    {kWeights, kFirstSize, R"("sizes": [{"as_int": 3}, )", "the tensor needs 36 bytes"},
    {kWeights, kFirstSize, R"("sizes": [{"as_int": -2}, )", "sizes[0]: -2 is negative"},
    {kWeights, kFirstSize, R"("sizes": [{"as_int": 9223372036854775807}, )", "integer overflow"},
    {kWeights, kFirstSize, R"("sizes": [{"as_int": 4611686018427387904}, )", "integer overflow"},
    {kWeights, kFirstSize, R"x("sizes": [{"as_expr": {"expr_str": "Symbol('s0')"}}, )x", "the size s0 of stored data"},
    {kWeights, kFirstSize, R"("sizes": [{"as_int": 1}, )",
     "'fc.weight' is float32[2, 3] in the graph, but its data is float32[1, 3]"},
    {kWeights, kFirstStride, R"("strides": [{"as_int": 4}, )", "the tensor needs 28 bytes"},
    {kWeights, kFirstStride, R"("strides": [{"as_int": -3}, )", "strides[0]: -3 is negative"},
    {kWeights, kFirstStride, R"("strides": [{"as_int": 9223372036854775807}, )", "integer overflow"},
    {kWeights, kFirstStride, R"("strides": [)", "2 sizes have 1 strides"},
    {kWeights, R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": 1})", "the tensor needs 28 bytes"},
    {kWeights, R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": -1})",
     "the storage offset -1 is negative"},
    {kWeights, R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": 9223372036854775807})",
     "integer overflow"},
    {kWeights, R"("dtype": 7)", R"("dtype": 4)", "is float32[2, 3] in the graph, but its data is int32[2, 3]"},
    {kWeights, R"("dtype": 7)", R"("dtype": 8)", "the tensor needs 48 bytes"},
    {kWeights, R"("dtype": 7)", R"("dtype": 10)", "is float32[2, 3] in the graph, but its data is complex64"},
    {kWeights,
     kFirstSize + R"({"as_int": 3}], "requires_grad": true, "device": {"type": "cpu", "index": null}, )" +
         kFirstStride + R"({"as_int": 1}])",
     R"("sizes": [{"as_int": 1099511627776}, {"as_int": 3}], "requires_grad": true, "device": {"type": "cpu"}, )"
     R"("strides": [{"as_int": 0}, {"as_int": 1}])",
     "the tensor repeats the 24 bytes of 'data/weights/weight_0' to 13194139533312 bytes"},
};

INSTANTIATE_TEST_SUITE_P(Weights, HostileText, testing::ValuesIn(kWeightEdits));

// ---- entries --------------------------------------------------------------------------------------------------------

struct Change {
  std::string name;
  std::function<void(Pt2Files&)> apply;
  std::string words;
};

class HostileArchive : public testing::TestWithParam<Change> {};

TEST_P(HostileArchive, IsACleanError) {
  Pt2Files files(kGood);
  GetParam().apply(files);
  EXPECT_THAT(pt2_error(files.packed()), HasSubstr(GetParam().words));
}

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

const Change kChanges[] = {
    {"NoJson", [](Pt2Files& f) { f[kModel] = "hello"; }, "models/model.json: malformed JSON"},
    {"EmptyJson", [](Pt2Files& f) { f[kModel] = ""; }, "models/model.json: malformed JSON"},
    {"HalfTheJson", [](Pt2Files& f) { f[kModel].resize(f[kModel].size() / 2); }, "models/model.json: malformed JSON"},
    {"AList", [](Pt2Files& f) { f[kModel] = "[]"; }, "models/model.json: expected an object, got a list"},
    {"DeepJson", [](Pt2Files& f) { f[kModel] = nested(100000); }, "nests deeper than 256 levels"},
    {"DeepTreeSpec",
     [](Pt2Files& f) { f.replace(kModel, R"("out_spec": "[1, )", R"("out_spec": "[1, )" + nested(1000) + ", "); },
     "out_spec: tree spec: it nests deeper than 256 levels"},
    {"NestedGraphs",
     [](Pt2Files& f) {
       std::string open, close;
       for (int i = 0; i < 2000; ++i) open += R"({"as_string_to_argument": {"a": )", close += "}}";
       f.replace(kModel, R"({"as_tensor": {"name": "x"}}, "kind")", open + R"({"as_int": 1})" + close + R"(, "kind")");
     },
     "nests deeper than 256 levels"},
    {"NoData", [](Pt2Files& f) { f["data/weights/weight_0"] = ""; }, "'data/weights/weight_0' has no data"},
    {"TooLittleData", [](Pt2Files& f) { f["data/weights/weight_0"].pop_back(); }, "the tensor needs 24 bytes"},
    {"NoModel", [](Pt2Files& f) { f.remove(kModel); }, "the archive holds no exported program"},
    {"OnlyCompiled",
     [](Pt2Files& f) {
       f.remove(kModel);
       f.add("data/aotinductor/model/a.so", "ELF");
     },
     "a library that AOTInductor compiled"},
    {"NoWeightsConfig", [](Pt2Files& f) { f.remove(kWeights); }, "'" + kWeights + "' is missing in the archive"},
    {"NoConstantsConfig", [](Pt2Files& f) { f.remove("data/constants/model_constants_config.json"); },
     "'data/constants/model_constants_config.json' is missing"},
    {"LegacyWeights", [](Pt2Files& f) { f.add("data/weights/model.pt", "pickle"); },
     "'data/weights/model.pt' is pickled, and only Python can load it"},
    {"OtherFormat", [](Pt2Files& f) { f["archive_format"] = "pt3"; }, "archive_format is 'pt3', not 'pt2'"},
    {"BinaryFormat", [](Pt2Files& f) { f["archive_format"] = "\x1b[2J"; }, "archive_format is '?[2J', not 'pt2'"},
    {"NoFormat", [](Pt2Files& f) { f.remove("archive_format"); }, "not a .pt2 archive: archive_format is missing"},
    {"OtherVersion", [](Pt2Files& f) { f["archive_version"] = "1"; }, "archive_version is '1'"},
    {"BigEndian", [](Pt2Files& f) { f["byteorder"] = "big"; }, "byteorder is 'big'"},
    {"TorchSave",
     [](Pt2Files& f) {
       f.clear();
       f.add("data.pkl", "pickle");
     },
     "what torch.save or torch.jit.save writes"},
    {"Before28",
     [](Pt2Files& f) {
       f.clear();
       f.folder = "";
       f.add("serialized_exported_program.json", "{}");
     },
     "of a PyTorch before 2.8"},
    {"Empty", [](Pt2Files& f) { f.clear(); }, "the zip archive is empty"},
    {"TwoModels", [](Pt2Files& f) { f.add("models/other.json", "{}"); }, "say which one: model, other"},
    {"AbsoluteName", [](Pt2Files& f) { f.folder = "/model/"; }, "is an absolute path"},
    {"DriveName", [](Pt2Files& f) { f.folder = "C:model/"; }, "is an absolute path"},
    {"NameThatLeaves", [](Pt2Files& f) { f.add("../../evil", "x"); }, "'model/../../evil' in the zip archive leaves"},
    {"NameThatEndsOutside", [](Pt2Files& f) { f.add("evil/..", "x"); }, "leaves its folder"},
    {"Backslash", [](Pt2Files& f) { f.add("..\\evil", "x"); }, "has a backslash in its name"},
    {"ControlCharacters", [](Pt2Files& f) { f.add("evil\n", "x"); }, "control characters in its name"},
    {"NulInName", [](Pt2Files& f) { f.add(std::string("a\0b", 3), "x"); }, "control characters in its name"},
    {"TwoEntriesOfOneName", [](Pt2Files& f) { f.add("byteorder", "big"); }, "two entries 'model/byteorder'"},
};

INSTANTIATE_TEST_SUITE_P(All, HostileArchive, testing::ValuesIn(kChanges),
                         [](const auto& change) { return change.param.name; });

// ---- bytes ----------------------------------------------------------------------------------------------------------

// A file as PyTorch wrote it, whose directory is changed in place.
class HostileBytes : public testing::Test {
 protected:
  static constexpr size_t kFlags = 8, kMethod = 10, kPackedSize = 20, kSize = 24, kNameSize = 28, kOffset = 42;
  static constexpr size_t kNameAt = 46;

  size_t record(std::string_view name) const {
    for (size_t at = text.find("PK\1\2"); at != std::string::npos; at = text.find("PK\1\2", at + 1)) {
      if (std::string_view(text).substr(at + kNameAt).starts_with("linear/" + std::string(name))) return at;
    }
    throw std::runtime_error("no such entry");
  }

  size_t end64_record() const { return text.rfind("PK\6\6"); }

  template <class T>
  void put(size_t at, T value) {
    std::memcpy(text.data() + at, &value, sizeof value);
  }

  std::string error() const { return pt2_error(text); }

  std::string text = file_text(kGood);
};

TEST_F(HostileBytes, ACompressedEntryIsRefusedBeforeItIsRead) {
  put<uint16_t>(record("models") + kMethod, 8);
  put<uint32_t>(record("models") + kSize, 0xfffffffe);
  EXPECT_THAT(error(), HasSubstr("'linear/models/model.json' in the zip archive is compressed"));
}

TEST_F(HostileBytes, AnEncryptedEntryIsRefused) {
  put<uint16_t>(record("models") + kFlags, 1);
  EXPECT_THAT(error(), HasSubstr("is encrypted"));
}

TEST_F(HostileBytes, ASizeThatIsLargerThanTheFile) {
  put<uint32_t>(record("models") + kSize, 0x7fffffff);
  put<uint32_t>(record("models") + kPackedSize, 0x7fffffff);
  EXPECT_THAT(error(), HasSubstr("an entry is outside of it"));
}

TEST_F(HostileBytes, TwoSizes) {
  put<uint32_t>(record("models") + kSize, 5);
  EXPECT_THAT(error(), HasSubstr("'linear/models/model.json' has two sizes"));
}

TEST_F(HostileBytes, AnEntryBehindTheFile) {
  put<uint32_t>(record("models") + kOffset, 0xfffffff0);
  EXPECT_THAT(error(), HasSubstr("an entry is outside of it"));
}

TEST_F(HostileBytes, TwoEntriesAtOnePlace) {
  uint32_t offset = 0;
  std::memcpy(&offset, text.data() + record("data/weights/weight_0") + kOffset, sizeof offset);
  put<uint32_t>(record("data/weights/weight_1") + kOffset, offset);
  EXPECT_THAT(error(), HasSubstr("overlap"));
}

TEST_F(HostileBytes, AnEntryThatReachesIntoTheNext) {
  put<uint32_t>(record("models") + kSize, 5000);
  put<uint32_t>(record("models") + kPackedSize, 5000);
  EXPECT_THAT(error(), HasSubstr("overlap"));
}

TEST_F(HostileBytes, ANameThatReachesOutOfTheDirectory) {
  put<uint16_t>(record(".data/serialization_id") + kNameSize, 0xffff);
  EXPECT_THAT(error(), HasSubstr("a name is outside of it"));
}

TEST_F(HostileBytes, MoreEntriesThanTheFileHasRoomFor) {
  put<uint64_t>(end64_record() + 32, uint64_t{1} << 60);
  EXPECT_THAT(error(), HasSubstr("it has too few entries"));
}

TEST_F(HostileBytes, ADirectoryBehindTheFile) {
  put<uint64_t>(end64_record() + 48, ~uint64_t{0});
  EXPECT_THAT(error(), HasSubstr("its directory is outside of it"));
}

TEST_F(HostileBytes, ADirectoryThatIsAnEntryToo) {
  put<uint32_t>(record("data/weights/weight_0") + kSize, static_cast<uint32_t>(text.size() - 200));
  put<uint32_t>(record("data/weights/weight_0") + kPackedSize, static_cast<uint32_t>(text.size() - 200));
  EXPECT_THAT(error(), HasSubstr("overlap"));
}

TEST_F(HostileBytes, ASecondEndRecordThatPointsBehindTheFile) {
  put<uint64_t>(text.rfind("PK\6\7") + 8, uint64_t{1} << 62);
  EXPECT_THAT(error(), HasSubstr("its directory is outside of it"));
}

TEST_F(HostileBytes, DamagedJson) {
  text[text.find("aten.linear")] = 'o';
  EXPECT_THAT(error(), HasSubstr("'linear/models/model.json' in the zip archive is damaged: its checksum differs"));
}

TEST_F(HostileBytes, NoArchiveAtAll) {
  EXPECT_EQ(pt2_error(""), "not a zip archive");
  EXPECT_EQ(pt2_error("graph_module: {}"), "not a zip archive");
  EXPECT_EQ(pt2_error(std::string(70000, 'P')), "not a zip archive");
}

TEST_F(HostileBytes, NamesTheFile) {
  const auto program = read_pt2("tests/capture/data/make.py");
  EXPECT_EQ(program.diagnostic().text(), "tests/capture/data/make.py: error: not a zip archive");
  EXPECT_THAT(read_pt2("tests/capture/data/none.pt2").diagnostic().text(), HasSubstr("none.pt2: error: cannot open"));
}

// All of its elements lie in the file.
void expect_inside(const Tensor& tensor, size_t file_bytes) {
  const runtime::Extent extent =
      runtime::extent_of(tensor.data(), static_cast<size_t>(size_of(tensor.dtype())), tensor.shape(), tensor.strides());
  EXPECT_GE(extent.begin, tensor.data());
  EXPECT_LE(extent.end, tensor.data() + file_bytes);
  if (testing::Test::HasFailure() || tensor.numel() > 10000) return;
  EXPECT_TRUE(identical(tensor, tensor.copy()));  // reads each element, which sanitizers watch
}

// Reads it; what comes out is a program or an Error, and a program can be printed and imported.
void survive(const std::string& text) {
  const auto program = read_pt2_text(text);
  if (!program.ok()) {
    EXPECT_FALSE(program.diagnostic().message.empty());
    return;
  }
  EXPECT_FALSE(to_string(*program).empty());
  if (const auto imported = import_program(*program); imported.ok()) EXPECT_TRUE(verify(imported->graph).ok());
  for (const auto* weights : {&program->weights, &program->constants}) {
    for (const auto& [name, weight] : *weights) {
      if (weight.tensor.defined()) expect_inside(weight.tensor, text.size());
    }
  }
}

TEST_F(HostileBytes, EveryTruncationIsAnError) {
  for (size_t size = 0; size < text.size(); ++size) EXPECT_NE(pt2_error(text.substr(0, size)), "no error") << size;
}

TEST_F(HostileBytes, ChangedBytesOfTheFileAreSurvived) {
  std::mt19937 random(5);
  for (const char* name : {"linear", "dynamic", "state", "kinds", "control"}) {
    const std::string good = file_text(fmt::format("tests/capture/data/{}.pt2", name));
    for (int i = 0; i < 1000; ++i) {
      std::string bad = good;
      for (int changes = 0; changes < 1 + i % 3; ++changes) bad[random() % bad.size()] = static_cast<char>(random());
      survive(bad);
    }
  }
}

// The checksums are right here, so that the changes reach the readers of the JSON.
TEST_F(HostileBytes, ChangedBytesOfTheJsonAreSurvived) {
  constexpr std::string_view kLikely = "{}[]\",:0123456789-truefalsn\\as_";
  std::mt19937 random(7);
  for (const char* name : {"linear", "dynamic", "state", "kinds", "control"}) {
    const Pt2Files good(fmt::format("tests/capture/data/{}.pt2", name));
    for (int i = 0; i < 1000; ++i) {
      Pt2Files bad = good;
      std::string& json = bad[i % 2 == 0 ? kModel : kWeights];
      for (int changes = 0; changes < 1 + i % 3; ++changes) {
        json[random() % json.size()] = kLikely[random() % kLikely.size()];
      }
      survive(bad.packed());
    }
  }
}

// Whole values take the place of others: texts that parse and mean something else.
TEST_F(HostileBytes, ExchangedNumbersAndNamesAreSurvived) {
  std::mt19937 random(9);
  const Pt2Files good("tests/capture/data/state.pt2");
  for (int i = 0; i < 1000; ++i) {
    Pt2Files bad = good;
    std::string& json = bad[i % 2 == 0 ? kModel : kWeights];
    const size_t at = json.find_first_of("0123456789", random() % json.size());
    if (at == std::string::npos) continue;
    constexpr const char* kNumbers[] = {"-1",   "0",    "9223372036854775807", "4611686018427387904", "1e30",
                                        "null", "\"1\""};
    json.replace(at, 1, kNumbers[random() % std::size(kNumbers)]);
    survive(bad.packed());
  }
}

}  // namespace
}  // namespace tenon
