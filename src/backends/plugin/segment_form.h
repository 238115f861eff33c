// Inside of plugin: a graph or a kernel as the structs of include/tenon/device.h.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "loops/loop_tree.h"
#include "tenon/device.h"
#include "tiles/compile.h"

namespace tenon {

// Owns all that it points to, but the names of ops.
class SegmentForm {
 public:
  explicit SegmentForm(const Graph& graph);
  SegmentForm(const Graph& graph, TileCode tiles);  // of a tile machine
  // `object`: machine code of the host, or empty.
  SegmentForm(const loops::LoopTree& tree, std::string object);
  SegmentForm(const SegmentForm&) = delete;

  const tenon_segment& get() const { return segment_; }
  // What the sizes of a launch are: of a kernel its size symbols first, as it takes them.
  const std::vector<Expr>& launch_sizes() const { return sizes_; }

 private:
  void add_value(std::string name, int32_t role, const TensorType& type, const void* data);
  void add_node(const Node& node);
  void add_attribute(const AttrDef& def, const Attr& attr);
  int64_t size_of_dim(const Expr& size);
  const char* kept(std::string text) { return texts_.emplace_back(std::move(text)).c_str(); }
  void finish(const std::string& name, std::string text);

  std::deque<std::string> texts_;
  std::deque<std::vector<int64_t>> shapes_;
  std::deque<std::vector<uint32_t>> refs_;
  std::deque<std::vector<double>> numbers_;
  std::deque<std::vector<tenon_attribute>> attributes_;
  std::deque<Tensor> constants_;  // row-major
  std::vector<tenon_value> values_;
  std::vector<tenon_node> nodes_;
  std::vector<Expr> sizes_;
  TileCode tiles_;
  tenon_segment segment_ = {};
};

}  // namespace tenon
