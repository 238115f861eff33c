#include "capture/aten/layout.h"

#include <functional>
#include <map>

namespace tenon::aten {
namespace {

using Strides = std::vector<Expr>;

// Dimensions that lie one after the other in memory, so that they could be one.
struct Block {
  Expr count = 1;
  Expr stride = 1;  // of its last dimension
};

std::vector<Block> blocks_of(const Shape& shape, const Strides& strides) {
  std::vector<Block> blocks;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim].is_constant(1)) continue;
    const bool joined = !blocks.empty() && blocks.back().stride == shape[dim] * strides[dim];
    if (!joined) blocks.emplace_back();
    blocks.back().count *= shape[dim];
    blocks.back().stride = strides[dim];
  }
  return blocks;
}

// The strides of another shape over the same memory; none where a dimension would lie across two blocks.
std::optional<Strides> reshaped(const Shape& from, const Strides& strides, const Shape& to) {
  if (element_count(from).is_constant(0)) return contiguous_strides(to);
  std::vector<Block> blocks = blocks_of(from, strides);
  Strides result(to.size(), 1);
  Expr filled = 1;
  for (size_t dim = to.size(); dim-- > 0;) {
    if (!blocks.empty() && filled == blocks.back().count) {
      blocks.pop_back();
      filled = 1;
    }
    if (to[dim].is_constant(1)) continue;
    if (blocks.empty()) return std::nullopt;
    result[dim] = blocks.back().stride * filled;
    filled *= to[dim];
    if (!mod(blocks.back().count, filled).is_constant(0)) return std::nullopt;
  }
  if (!blocks.empty() && filled == blocks.back().count) blocks.pop_back();
  return blocks.empty() ? std::optional(result) : std::nullopt;
}

struct Viewed {
  const Graph& graph;
  OpView view;
  Shape shape;      // of the operand
  Strides strides;  // of the operand
  Shape result;
};

Strides of_reshape(const Viewed& v) {
  return reshaped(v.shape, v.strides, v.result).value_or(contiguous_strides(v.result));
}

Strides of_permute(const Viewed& v) {
  Strides strides;
  for (int64_t dim : v.view.ints("dims")) {
    strides.push_back(v.strides[static_cast<size_t>(normalize_dim(dim, std::ssize(v.shape)))]);
  }
  return strides;
}

Strides of_expand(const Viewed& v) {
  Strides strides(v.result.size(), 0);
  const size_t added = v.result.size() - v.shape.size();
  for (size_t dim = 0; dim < v.shape.size(); ++dim) {
    if (v.shape[dim] == v.result[dim + added]) strides[dim + added] = v.strides[dim];
  }
  return strides;
}

Strides of_slice(const Viewed& v) {
  Strides strides = v.strides;
  strides[static_cast<size_t>(v.view.dim("dim"))] *= v.view.integer("step");
  return strides;
}

Strides of_select(const Viewed& v) {
  Strides strides = v.strides;
  strides.erase(strides.begin() + v.view.dim("dim"));
  return strides;
}

Strides of_diagonal(const Viewed& v) {
  const int64_t first = v.view.dim("dim1"), second = v.view.dim("dim2");
  Strides strides;
  for (int64_t dim = 0; dim < std::ssize(v.shape); ++dim) {
    if (dim != first && dim != second) strides.push_back(v.strides[static_cast<size_t>(dim)]);
  }
  strides.push_back(v.strides[static_cast<size_t>(first)] + v.strides[static_cast<size_t>(second)]);
  return strides;
}

Strides of_windows(const Viewed& v) {
  Strides strides = v.strides;
  const auto dim = static_cast<size_t>(v.view.dim("dim"));
  strides.push_back(strides[dim] * v.view.integer("dilation"));
  strides[dim] *= v.view.integer("step");
  return strides;
}

Strides of_as_strided(const Viewed& v) {
  const auto strides = v.view.exprs("stride");
  return {strides.begin(), strides.end()};
}

Strides of_split(const Viewed& v) { return v.strides; }

Strides of_unbind(const Viewed& v) { return of_select(v); }

using Rule = Strides (*)(const Viewed&);
const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> kRules = {
      {"reshape", of_reshape},   {"unflatten", of_reshape}, {"flatten", of_reshape},       {"squeeze", of_reshape},
      {"unsqueeze", of_reshape}, {"permute", of_permute},   {"expand", of_expand},         {"slice", of_slice},
      {"select", of_select},     {"diagonal", of_diagonal}, {"windows", of_windows},       {"split", of_split},
      {"unbind", of_unbind},     {"bitcast", of_split},     {"as_strided", of_as_strided},
  };
  return kRules;
}

}  // namespace

std::vector<Expr> contiguous_strides(const Shape& shape) {
  Strides strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

std::vector<Expr> strides_of(Value x) {
  const Graph& graph = x.graph();
  const NodeRef producer = graph.producer(x.ref());
  if (!producer) return contiguous_strides(x.shape());
  const Node& node = graph.node(producer);
  const auto rule = rules().find(node.op->name.get());
  if (rule == rules().end()) return contiguous_strides(x.shape());
  const Value operand(x.graph(), node.operands[0]);
  return rule->second(
      {graph, view_of(graph, *node.op, node.operands, node.attrs), operand.shape(), strides_of(operand), x.shape()});
}

bool is_contiguous(Value x) {
  const Strides strides = strides_of(x), dense = contiguous_strides(x.shape());
  for (size_t dim = 0; dim < strides.size(); ++dim) {
    if (!x.shape()[dim].is_constant(1) && strides[dim] != dense[dim]) return false;
  }
  return true;
}

bool can_view_as(Value x, const Shape& shape) {
  return is_contiguous(x) || reshaped(x.shape(), strides_of(x), shape).has_value();
}

}  // namespace tenon::aten
