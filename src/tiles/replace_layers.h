// Puts the nodes of found layers in the place of the nodes that they were found in.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "graph/builder.h"
#include "graph/rewrite.h"

namespace tenon {

// `layers` are by their last nodes. A layer has `nodes`, of which the last one gives the `result`; form(layer) builds
// its new value in the rewriter's target.
template <class Layer, class Form>
Graph replace_layers(const Graph& graph, Rewriter& rewriter, const std::map<uint32_t, Layer>& layers, Form&& form) {
  std::vector<bool> is_inner(graph.nodes().size());
  for (const auto& [last, layer] : layers) {
    for (uint32_t id : layer.nodes) is_inner[id] = id != last;
  }
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    const auto found = layers.find(id);
    if (found != layers.end()) {
      rewriter.replace(found->second.result, form(found->second).ref());
    } else if (!is_inner[id]) {
      rewriter.copy(graph.nodes()[id]);
    }
  }
  return rewriter.finish();
}

}  // namespace tenon
