// The sizes of an exported program: which symbols its inputs tell, what a graph calls them, and which sizes follow from
// results that depend on data.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "capture/pt2/pt2.h"
#include "capture/symbol_names.h"
#include "graph/builder.h"

namespace tenon {

class ExportedSizes {
 public:
  // The program must outlive this.
  explicit ExportedSizes(const pt2::ExportedProgram& program);

  // Declares the symbols of inputs, with the ranges that the file says. Others only exist once the model runs.
  void declare_in(Graph& graph) const;

  // With Tenon's symbols for sizes that depend on data: PyTorch has symbols of its own for them.
  Expr expr_of(const pt2::SymValue& value) const { return symbolic::substitute(value.require(), learned_); }
  // The integer argument of this name.
  Expr number(const std::string& name) const;
  bool is_known(const pt2::SymValue& value) const;
  // Whether the sizes of the model's tensors give all symbols of an expression over the graph's symbols.
  bool is_carried(const Expr& expr) const;
  // Notes what the trace's sizes of a result are in the graph.
  void learn(const pt2::TensorMeta& meta, const Value& result);

  const SymbolNames& names() const { return names_; }

 private:
  void find_symbols();
  void name_symbols();
  std::vector<SizedInput> sized_inputs() const;

  const pt2::ExportedProgram& program_;
  SymbolNames names_;         // of the file's symbols, in the graph
  std::set<Symbol> carried_;  // those of the graph that the sizes of tensors give
  std::set<Symbol> known_;    // those of the file that tensors and integers give
  symbolic::Substitution learned_;
};

// Whether a tensor can be a value of a Graph: dtype, layout and device.
bool is_plain(const pt2::TensorMeta& meta);

}  // namespace tenon
