// Reads the JSON of PyTorch's export schema into the structs of pt2.h. Whatever does not follow the schema is an Error
// with its place. Nobody outside this folder includes it.
#pragma once

#include <string>
#include <unordered_map>

#include "capture/pt2/json.h"
#include "capture/pt2/pt2.h"

namespace tenon::pt2 {

class SchemaReader {
 public:
  // All but the data of the weights. The names in it are not checked: see verify.h.
  ExportedProgram program(const Json& json);
  TensorMeta tensor_meta(const Json& json);

 private:
  using Values = Argument::Data;
  friend struct ArgumentTable;

  // One for each alternative of Argument, and what they are made of.
  void read(const Json& json, None& value);
  void read(const Json& json, bool& value) { value = json.boolean(); }
  void read(const Json& json, int64_t& value) { value = json.integer(); }
  void read(const Json& json, double& value) { value = json.real(); }
  void read(const Json& json, std::string& value) { value = json.string(); }
  void read(const Json& json, std::complex<double>& value);
  void read(const Json& json, TensorName& value) { value.name = json["name"].string(); }
  void read(const Json& json, OptionalTensor& value);
  void read(const Json& json, TorchDType& value);
  void read(const Json& json, Layout& value);
  void read(const Json& json, MemoryFormat& value);
  void read(const Json& json, TorchDevice& value);
  void read(const Json& json, GraphArgument& value);
  void read(const Json& json, CustomObject& value);
  void read(const Json& json, Operator& value) { value.target = json.string(); }
  void read(const Json& json, std::vector<NamedValue>& value);
  template <class T>
  void read(const Json& json, Sym<T>& value);
  template <class T>
  void read(const Json& json, std::vector<T>& values);

  Argument argument(const Json& json);
  NamedArgument named_argument(const Json& json);
  std::vector<Argument> arguments(const Json& json);
  SymValue sym_value(const Json& json, std::string_view plain_tag);
  SymValue expression(const Json& json);
  SymFloatValue sym_float(const Json& json);
  std::vector<SymValue> sym_ints(const Json& json);
  ExportedNode node(const Json& json);
  ExportedGraph graph(const Json& json);
  Argument tensor_argument(const Json& json);
  InputSpec input_spec(const Json& json);
  OutputSpec output_spec(const Json& json);
  Argument constant(const Json& json);
  template <class Read>
  auto dictionary(const Json& json, Read&& read);

  std::unordered_map<std::string_view, SymValue> expressions_;  // each text is parsed once; it lives in the document
};

}  // namespace tenon::pt2
