// Inside of passes: sizes that depend on data. A node finds such a size out, and whoever mentions it comes after that
// node, even if it reads none of its results.
#pragma once

#include <map>
#include <set>

#include "graph/graph.h"

namespace tenon {

// The symbols that its results and attributes mention.
std::set<Symbol> symbols_of(const Graph& graph, const Node& node);

// The symbols that a type or an attribute mentions are added.
void add_symbols(const TensorType& type, std::set<Symbol>& symbols);
void add_symbols(const Attr& attr, std::set<Symbol>& symbols);

// Declares the symbols in a new graph as `from` does. A graph of a few nodes declares only what they mention: models
// have thousands of symbols, and thousands of such graphs are made of them.
void declare_symbols(Graph& graph, const Graph& from, const std::set<Symbol>& symbols);

// The symbols that nodes find out, each with the first node that does: nonzero has them as an attribute, an external
// call or a device's segment has results of sizes that no input has.
std::map<Symbol, NodeRef> definers_of(const Graph& graph);

}  // namespace tenon
