// The op table as documentation: the description of a record that the command line and docs/ops.md render.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/op.h"

namespace tenon {

struct OperandDoc {
  std::string name;
  std::string dtypes;  // "f64 f32 f16 bf16", "any"
  std::string arity;   // "", "optional", "any number", "any number, each optional"
};

struct AttrDoc {
  std::string name;
  std::string kind;      // "list of ints"
  std::string fallback;  // the default's text form; empty when the attribute is required
  std::string doc;
};

struct OpDoc {
  std::string name;
  std::string family;
  std::string signature;  // "sum(x) {dims=[], keepdim=false} -> out"
  std::string summary;    // the first sentence of the doc, as plain text
  std::string doc;        // Markdown
  std::vector<OperandDoc> operands;
  std::vector<AttrDoc> attrs;
  std::vector<std::string> results;
  bool composite;
  std::string gradient;  // "yes", "no", "by expansion"
  std::string torch;     // a Python expression; empty when there is no peer
  std::string no_torch;  // why there is none
};

OpDoc document(const OpDef& op);

// The whole reference: a table of contents, then the families in the order of the table.
std::string ops_markdown(std::span<const OpDef* const> ops);

}  // namespace tenon
