// Test cases from the op table: each sample line of a record, for each dtype that its T stands for, as a graph of one
// node. A new op has tests as soon as it has a record.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tenon {

struct Sample {
  const OpDef* op;
  std::string text;                           // the line of the record
  std::optional<DType> dtype;                 // what T stands for; none when the line has no T
  Graph graph;                                // inputs named as the operands, one node, all its results returned
  std::vector<std::optional<Domain>> ranges;  // for each input, the values it must stay within

  std::string name() const;  // "gather/bf16/T[3, 4], i64[2, 4] in 0..2; dim=0"
};

std::vector<Sample> samples_of(const OpDef& op);

}  // namespace tenon
