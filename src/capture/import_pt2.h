// From a .pt2 file to a Graph: drives the importer with the calls of an exported program. The Python walker of FX
// graphs (tenon/capture/fx.py) gives the same Graph for the same model.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/importer.h"
#include "capture/pt2/pt2.h"
#include "graph/assertion.h"

namespace tenon {

// An argument of the model, in the order of its call signature.
struct ImportedInput {
  std::string name;
  pt2::Argument argument = {};  // what it is in the program; of a constant, the value that it must have
  // Which input of the graph it is. Nothing for a constant, for a tensor of a dtype that Tenon lacks, and for an
  // integer that follows from the sizes of tensors.
  std::optional<size_t> input = {};
  // Of an integer: what it equals. One that is an input of the graph comes as the size of a tensor u8[size].
  std::optional<Expr> size = {};
  // The tensor must cover its memory, in order, because the model reads it by as_strided.
  bool is_whole = false;
};

// A result of the model, in the order of its call signature: one of these, or what `argument` says (a number, None).
struct ImportedOutput {
  pt2::Argument argument = {};
  std::optional<size_t> output = {};  // of the graph; a number comes out of it as a tensor of rank 0
  std::optional<size_t> input = {};   // the model returns this argument, perhaps after writing it
  Tensor weight = {};                 // the model returns this parameter, buffer or constant itself
  std::string kept = {};              // a tensor that only the fallback can hold: see ExternalArgument
  std::shared_ptr<const pt2::ForeignData> foreign = {};  // a weight of a dtype that Tenon lacks
};

// Where the fallback finds an argument of an external call. The fallback keeps a tensor that Tenon cannot hold under
// the key `kept`; the key of an argument of the model is its name.
struct ExternalArgument {
  std::optional<size_t> operand = {};  // of the external node
  std::string kept = {};
  AtenArg constant = {};  // neither: a number
  std::shared_ptr<const pt2::ForeignData> foreign = {};
};

// A call that PyTorch must run: what the `external` node with this number stands for.
struct ExternalCall {
  pt2::ExportedNode node;
  std::map<std::string, ExternalArgument> values;  // of the names in its arguments
  std::vector<std::string> kept = {};  // of each result, the key under which the fallback keeps it; empty: Tenon has it
};

struct Imported {
  // Its outputs are those of the model, then those of assertions, then the tokens of external calls without results.
  Graph graph;
  std::vector<ImportedInput> inputs = {};
  std::vector<ImportedOutput> outputs = {};
  std::vector<Assertion> assertions = {};
  std::optional<pt2::CallSignature> signature = {};
  std::vector<UnsupportedCall> unsupported = {};  // external nodes of the graph
  std::vector<ExternalCall> external = {};        // and what they call
  std::string key_input = {};                     // where random numbers come from; empty where there are none
};

// A file's "torch.ops.aten.add.Tensor" is "aten.add.Tensor" in the registry, and wherever people read it.
std::string registry_name(std::string_view target);

// Parameters, buffers and constants are bound to the memory of the file. Symbols have the ranges that the file says.
// Buffers and inputs that the model writes become updates. An error names the file, or the line of the model.
Result<Imported> import_pt2(const std::string& path, std::string_view model = {},
                            ModelMode mode = ModelMode::kAsRecorded);
Result<Imported> import_program(const pt2::ExportedProgram& program, ModelMode mode = ModelMode::kAsRecorded);

}  // namespace tenon
