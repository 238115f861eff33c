// Sizes that depend on data. One node defines such a size. A node that mentions the size must come after the defining
// node, even if it reads none of its results.
#pragma once

#include <map>
#include <set>

#include "graph/graph.h"

namespace tenon {

// The symbols in the types of a node's results and in its attributes.
std::set<Symbol> symbols_of(const Graph& graph, const Node& node);

// Adds the symbols of a type or an attribute.
void add_symbols(const TensorType& type, std::set<Symbol>& symbols);
void add_symbols(const Attr& attr, std::set<Symbol>& symbols);

// Declares the symbols in a new graph with their ranges in `from`. A graph of a few nodes declares only the symbols of
// these nodes: a model may have thousands of symbols, and thousands of such graphs.
void declare_symbols(Graph& graph, const Graph& from, const std::set<Symbol>& symbols);

// The symbols that nodes define, each with its first definer: nonzero has an attribute for its symbol, and an external
// call or a device's segment has results of sizes that no input has.
std::map<Symbol, NodeRef> definers_of(const Graph& graph);

}  // namespace tenon
