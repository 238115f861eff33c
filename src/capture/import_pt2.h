// From a .pt2 file to a Graph: drives the importer with the calls of an exported program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/importer.h"
#include "capture/pt2/pt2.h"

namespace tenon {

// An argument of the model, in the order of its call signature.
struct ImportedInput {
  std::string name;
  std::optional<size_t> input = {};  // which input of the graph it is; nothing for what is no tensor
  // What it is in the program. A symbolic integer must have the value that follows from the tensors' sizes, `size`; a
  // constant must have the value that it had when the model was traced.
  pt2::Argument argument = {};
  symbolic::Expr size = {};
};

// A result of the model, in the order of its call signature.
struct ImportedOutput {
  std::optional<size_t> output = {};  // which output of the graph it is; nothing for a constant
  pt2::Argument argument = {};        // a number comes out of the graph as a tensor of rank 0
};

struct Imported {
  Graph graph;
  std::vector<ImportedInput> inputs;
  std::vector<ImportedOutput> outputs;
  std::optional<pt2::CallSignature> signature;
  std::vector<UnsupportedCall> unsupported;  // external nodes of the graph
  std::string key_input;                     // where random numbers come from; empty where there are none
};

// Parameters, buffers and constants are bound to the memory of the file. Symbols have the ranges that the file says.
// Buffers and inputs that the model writes become updates. An error names the file and the line of the model.
Result<Imported> import_pt2(const std::string& path, std::string_view model = {});
Result<Imported> import_program(const Pt2Program& program);

}  // namespace tenon
