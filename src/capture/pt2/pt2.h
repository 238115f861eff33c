// Reads a .pt2 file, what `torch.export.save` writes, without Python and without pickle.
//
// An ExportedProgram is the file as data: nothing is interpreted yet, and a target is the text that PyTorch stored.
// What can be checked without knowing any op is checked: every name is defined before it is used, every tensor has a
// TensorMeta, every parameter, buffer and constant has data of that type in the file.
//
// Weights are mapped, not copied: a Tensor borrows its bytes from the file, tensors that share a storage share memory,
// and writing to one leaves the file alone.
//
// Files are not trusted. A malformed one is an error that names the file, the entry of the archive and the place in its
// JSON. Memory stays in proportion to the size of the JSON.
//
// Any minor version of schema 8 is read; fields that are unknown here are skipped. What the reader cannot know the
// meaning of (another major version, an unknown tag of a union), and what only Python could load (a pickled payload
// that the program needs), is an error. What only some programs need is kept and becomes an error where it is needed: a
// dtype that Tenon lacks, an expression that is no integer.
#pragma once

#include <complex>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/attr.h"
#include "graph/tensor.h"
#include "support/diagnostic.h"
#include "support/file.h"
#include "symbolic/expr.h"

namespace tenon::pt2 {

template <class T>
using Dictionary = std::map<std::string, T, std::less<>>;

// ---- types ----------------------------------------------------------------------------------------------------------

// An element type, by the schema's own number.
struct TorchDType {
  int64_t number = 0;

  std::string name() const;            // as PyTorch spells it: "float32", "complex64"
  std::optional<DType> dtype() const;  // nothing: Tenon has no such type
  DType require() const;               // or throws an Error that names the type
  bool operator==(const TorchDType&) const = default;
};

enum class Layout : uint8_t { kUnknown, kSparseCoo, kSparseCsr, kSparseCsc, kSparseBsr, kSparseBsc, kMkldnn, kStrided };
enum class MemoryFormat : uint8_t { kUnknown, kContiguous, kChannelsLast, kChannelsLast3d, kPreserve };
std::string_view name_of(Layout layout);        // "strided"
std::string_view name_of(MemoryFormat format);  // "channels_last"

struct TorchDevice {
  std::string type;  // "cpu"
  std::optional<int64_t> index;
  bool operator==(const TorchDevice&) const = default;
};

// An integer, or a bool as 0 or 1. `problem` says why the stored expression cannot be one; then `expr` is 0.
struct SymValue {
  symbolic::Expr expr;
  std::string problem = {};
  std::optional<int64_t> hint = {};  // the value that it had while the model was traced

  const symbolic::Expr& require() const;  // throws the problem as an Error
};

// PyTorch's floating-point expressions are kept as text.
struct SymFloatValue {
  std::optional<double> value;  // nothing: it is an expression
  std::string expression;       // in sympy's srepr
};

struct TensorMeta {
  TorchDType dtype;
  std::vector<SymValue> sizes;
  std::vector<SymValue> strides;  // in elements
  SymValue storage_offset;
  bool requires_grad = false;
  TorchDevice device;
  Layout layout = Layout::kStrided;

  std::vector<symbolic::Expr> shape() const;  // throws an Error for a size that cannot be read
};

// ---- arguments ------------------------------------------------------------------------------------------------------

struct ExportedGraph;
struct NamedValue;

struct TensorName {
  std::string name;
  bool operator==(const TensorName&) const = default;
};
using OptionalTensor = std::optional<TensorName>;  // nothing is None

// A symbolic number by its name, or a plain one.
template <class T>
struct Sym {
  std::variant<std::string, T> data;
  const std::string* name() const { return std::get_if<std::string>(&data); }
  const T* value() const { return std::get_if<T>(&data); }
  bool operator==(const Sym&) const = default;
};
using SymInt = Sym<int64_t>;
using SymFloat = Sym<double>;
using SymBool = Sym<bool>;

struct GraphArgument {
  std::string name;
  std::shared_ptr<const ExportedGraph> graph;  // never null
};
struct CustomObject {
  std::string name;
  std::string class_name;
};
struct Operator {
  std::string target;  // "torch.ops.aten.add.Tensor"
};

// One alternative for each kind of the schema, in its order. `tag()` is the schema's name of it: "as_sym_ints".
struct Argument {
  using Data =
      std::variant<None, TensorName, std::vector<TensorName>, int64_t, std::vector<int64_t>, double,
                   std::vector<double>, std::string, std::vector<std::string>, SymInt, std::vector<SymInt>, TorchDType,
                   MemoryFormat, Layout, TorchDevice, bool, std::vector<bool>, SymBool, std::vector<SymBool>,
                   GraphArgument, std::vector<OptionalTensor>, CustomObject, Operator, SymFloat, std::vector<SymFloat>,
                   OptionalTensor, std::complex<double>, std::vector<std::vector<TensorName>>,
                   std::vector<std::vector<int64_t>>, std::vector<NamedValue>, std::vector<std::vector<double>>>;
  Data data;

  std::string_view tag() const;
  template <class T>
  const T* get() const {
    return std::get_if<T>(&data);
  }
};

// An entry of a dictionary argument.
struct NamedValue {
  std::string name;
  Argument value;
};

enum class ArgumentKind : uint8_t { kUnknown, kPositional, kKeyword };

struct NamedArgument {
  std::string name;  // in the op's schema; empty for a higher-order op's positional ones
  Argument value;
  ArgumentKind kind = ArgumentKind::kUnknown;  // files older than the field do not say

  bool is_named() const { return kind != ArgumentKind::kPositional && !name.empty(); }
};

// ---- graphs ---------------------------------------------------------------------------------------------------------

struct ExportedNode {
  std::string name;
  std::string target;  // "torch.ops.aten.linear.default", "_operator.mul"
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  // The model's line: the innermost frame of the stack trace outside PyTorch and the installed packages; where all
  // frames are in packages, the innermost outside PyTorch.
  Location location;
  std::string module_path;             // of the nn.Module that the call is in: "encoder.layer.0"
  std::string module_type;             // "torch.nn.modules.linear.Linear"
  bool returns_single_tensor = false;  // of a higher-order op: a tensor, not a list of one
};

struct ExportedGraph {
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<ExportedNode> nodes;  // each uses only inputs and results of earlier ones
  Dictionary<TensorMeta> tensors;
  Dictionary<SymValue> sym_ints;
  Dictionary<SymValue> sym_bools;
  Dictionary<SymFloatValue> sym_floats;
  Dictionary<CustomObject> custom_objects;
  bool returns_single_tensor = false;  // of a higher-order op's graph: a tensor, not a list of one
};

// ---- signature ------------------------------------------------------------------------------------------------------

enum class InputKind : uint8_t { kUserInput, kConstantInput, kParameter, kBuffer, kTensorConstant, kToken };
enum class OutputKind : uint8_t {
  kUserOutput,
  kLossOutput,
  kBufferMutation,
  kParameterMutation,
  kUserInputMutation,
  kGradientToParameter,
  kGradientToUserInput,
  kToken
};
std::string_view name_of(InputKind kind);  // as in the schema: "user_input"
std::string_view name_of(OutputKind kind);

// What each input of the graph is, in the same order.
struct InputSpec {
  InputKind kind;
  Argument argument;  // the graph's name for it; of a kConstantInput, the value that it always has
  // Of a parameter, buffer or tensor constant, its name in the model: where its data is. Of a kConstantInput, its name.
  std::string target = {};
  bool persistent = true;  // of a buffer: in the weights. A buffer that is not persistent is in the constants.
};

// What each output of the graph is, in the same order.
struct OutputSpec {
  OutputKind kind;
  Argument argument;
  std::string target = {};  // of a mutation or gradient: the buffer's or parameter's name in the model, or the user
                            // input's name in the graph
};

// How values nest: PyTorch's TreeSpec. A leaf has no type.
struct TreeSpec {
  using Key = std::variant<std::string, int64_t>;
  std::string type;       // "builtins.tuple", "builtins.dict"
  std::vector<Key> keys;  // of a dict or a named tuple: one for each child
  std::string context;    // what else the type stores: a text or JSON
  std::vector<TreeSpec> children;

  bool is_leaf() const { return type.empty(); }
  size_t leaf_count() const;
};

// How the model is called. The leaves of `inputs`, which is ((args...), {kwargs...}), are the user and constant inputs
// in their order; those of `outputs` the user outputs.
struct CallSignature {
  TreeSpec inputs;
  TreeSpec outputs;
  std::vector<std::string> argument_names;  // of forward; empty where the file does not say
};

// ---- data -----------------------------------------------------------------------------------------------------------

// A strided tensor of a dtype that Tenon lacks. Nothing but the storage is checked.
struct ForeignData {
  Tensor storage;  // u8[bytes]
  TorchDType dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // in elements
  int64_t offset;
};

struct Weight {
  Tensor tensor;  // undefined where there is a problem
  TorchDType dtype;
  bool is_parameter = false;
  bool requires_grad = false;
  bool pickled = false;
  std::string problem = {};  // why there is no tensor: it is pickled, or of a dtype that Tenon lacks
  std::shared_ptr<const ForeignData> foreign = {};  // of such a dtype

  const Tensor& require() const;  // throws the problem as an Error
};

struct SchemaVersion {
  int64_t major = 0;
  int64_t minor = 0;
};

struct ExportedProgram {
  std::string name;  // of the model in the archive: "model"
  SchemaVersion schema;
  std::string torch_version;
  Dictionary<int64_t> opset_versions;
  ExportedGraph graph;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  symbolic::Ranges ranges;  // of the symbols
  // Of sizes that follow from symbols (2*s0); what is known of the symbols says the same.
  std::vector<std::pair<symbolic::Expr, symbolic::Interval>> derived_ranges;
  std::vector<std::string> guards;  // Python expressions over the inputs, that a call must satisfy
  std::optional<CallSignature> signature;
  Dictionary<Weight> weights;    // parameters and persistent buffers, by their name in the model
  Dictionary<Weight> constants;  // the other tensors

  // The data of a parameter, buffer or tensor constant: never null in a program that read_pt2 gave. Its dtype may be
  // one that Tenon lacks, see Weight::require.
  const Weight* find_data(const InputSpec& input) const;
};

std::string to_string(const Argument& argument);    // for messages and print: "%x", "[1, %s0]", "None"
std::string to_string(const TensorMeta& meta);      // "float32[s0, 4]"
std::string to_string(const ExportedNode& node);    // one line
std::string to_string(const ExportedGraph& graph);  // a line for each node
std::string to_string(const ExportedProgram& program);

}  // namespace tenon::pt2

namespace tenon {

// `model` names one of several programs in an archive; empty is the only one.
Result<pt2::ExportedProgram> read_pt2(const std::string& path, std::string_view model = {});
Result<pt2::ExportedProgram> read_pt2(const FileContent& file, std::string_view model = {});

}  // namespace tenon
