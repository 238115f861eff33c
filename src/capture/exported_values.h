// The names in an exported program, the values that stand for them while the program is imported, and the arguments of
// calls, read with these values.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capture/aten.h"
#include "capture/pt2/pt2.h"

namespace tenon {

// The name of a symbolic number; null for other arguments.
const std::string* number_name(const pt2::Argument& argument);
// The name of a tensor or of a symbolic number; null for other arguments.
const std::string* name_in(const pt2::Argument& argument);

// Calls the body with each tensor and number of a result, in order. Skips None.
template <class Body>
void for_each_result(const pt2::Argument& output, Body&& body) {
  const auto* tensors = output.get<std::vector<pt2::TensorName>>();
  if (tensors == nullptr) {
    if (output.get<None>() == nullptr) body(output);
    return;
  }
  for (const pt2::TensorName& tensor : *tensors) body(pt2::Argument{tensor});
}

// The value of a name. `problem` says why no entry of the registry can take it; empty if entries can.
struct ExportedValue {
  AtenArg value;
  std::string problem = {};
  std::string kept = {};  // of a tensor that only the fallback can hold: see ExternalArgument
  std::shared_ptr<const pt2::ForeignData> foreign = {};
};

using ExportedValues = std::map<std::string, ExportedValue, std::less<>>;

// Findings while arguments are read.
struct ArgumentReading {
  std::string problem = {};             // why no entry can take them
  std::vector<std::string> names = {};  // that they have, in order
};

AtenArg read_argument(const ExportedValues& values, const pt2::Argument& argument, ArgumentReading& reading);

// The arguments of a call as the importer takes them.
struct ReadArguments {
  std::vector<AtenArg> positional = {};
  std::vector<std::pair<std::string, AtenArg>> named = {};
  ArgumentReading reading = {};  // its names are in the order of the importer's operands
};

ReadArguments read_arguments(const ExportedValues& values, const pt2::ExportedNode& node);

// The argument at this position, or by this name; null if the call has neither.
const pt2::Argument* argument_named(const pt2::ExportedNode& node, size_t position, std::string_view name);

}  // namespace tenon
