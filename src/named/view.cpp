// Views: tensors that are read elsewhere than at their own index.
#include <fmt/format.h>

#include <algorithm>

#include "named/build.h"
#include "named/tensor.h"
#include "support/is_in.h"

namespace tenon::named {
namespace {

std::vector<Expr> own_index(const Term& node) { return {node.dims.begin(), node.dims.end()}; }

// With one of the dimensions replaced.
std::vector<Symbol> replaced(std::vector<Symbol> dims, const Symbol& from, const Symbol& to) {
  std::ranges::replace(dims, from, to);
  return dims;
}

Expr product_of_sizes(const Symbols& dims) {
  Expr product = 1;
  for (const Symbol& dim : dims) product *= dim.size();
  return product;
}

bool is_same(const loops::Scalar& a, const loops::Scalar& b) {
  return loops::Constant{a} == loops::Constant{b};  // by bits
}

// A view of views reads what they read, so that none of them is ever in memory.
class Composition {
 public:
  explicit Composition(Term node) : node_(std::move(node)), view_(std::get<ViewTerm>(node_.action)) {}

  Term run() {
    const std::vector<ViewPiece> pieces = std::exchange(view_.pieces, {});
    for (const ViewPiece& piece : pieces) add(piece, pieces.size() == 1);
    for (ViewLookup& lookup : view_.lookups) lookup.indices = input(node_.inputs[lookup.indices]);
    node_.inputs = std::move(inputs_);
    return std::move(node_);
  }

 private:
  void add(const ViewPiece& piece, bool is_only) {
    TermPtr source = node_.inputs[piece.input];
    symbolic::Substitution at;
    for (size_t i = 0; i < source->dims.size(); ++i) at.emplace(source->dims[i].index_symbol(), piece.index[i]);
    while (source->as<AliasTerm>()) {
      node_.context.push_back(source);
      source = source->inputs[0];
    }
    const auto* inner = source->as<ViewTerm>();
    if (!inner || !inner->lookups.empty() || !may_replace(*inner, piece, is_only)) return keep(piece, source, at);
    node_.context.push_back(source);
    if (piece.where.empty() && is_only) view_.fill = inner->fill;
    for (const ViewPiece& part : inner->pieces) {
      ViewPiece composed{input(source->inputs[part.input]), {}, piece.where};
      for (const Expr& index : part.index) composed.index.push_back(substitute(index, at));
      for (const auto& [expr, bound] : part.where) composed.where.push_back({substitute(expr, at), bound});
      view_.pieces.push_back(std::move(composed));
    }
  }

  // What the inner view fills must still be filled so.
  bool may_replace(const ViewTerm& inner, const ViewPiece& piece, bool is_only) const {
    const bool fills_nothing = inner.pieces.size() == 1 && inner.pieces[0].where.empty();
    return fills_nothing || (is_only && (piece.where.empty() || is_same(inner.fill, view_.fill)));
  }

  void keep(const ViewPiece& piece, const TermPtr& source, const symbolic::Substitution& at) {
    ViewPiece kept{input(source), {}, piece.where};
    for (const Symbol& dim : source->dims) kept.index.push_back(at.at(dim.index_symbol()));
    view_.pieces.push_back(std::move(kept));
  }

  size_t input(const TermPtr& node) {
    const auto found = std::ranges::find(inputs_, node);
    if (found != inputs_.end()) return static_cast<size_t>(found - inputs_.begin());
    inputs_.push_back(node);
    return inputs_.size() - 1;
  }

  Term node_;
  ViewTerm& view_;
  std::vector<TermPtr> inputs_;
};

TermPtr make_view(Term node) { return make_term(Composition(std::move(node)).run()); }

// A view of one tensor, with an equation between sizes.
Tensor view_of(const TermPtr& node, std::vector<Symbol> dims, ViewPiece piece, loops::Scalar fill,
               symbolic::SymbolicEquation sizes) {
  ViewTerm view{{std::move(piece)}, fill, {}};
  return Tensor(make_view({node->dtype, std::move(dims), std::move(view), {node}, {std::move(sizes)}}));
}

// A view under construction: reads of one tensor at some coordinates.
class Reader {
 public:
  Reader(const TermPtr& node, const std::vector<Coordinate>& coordinates) : node_(node) {
    if (coordinates.size() != node->dims.size()) {
      fail("{} has {} dimensions, got {} indices", describe(*node), node->dims.size(), coordinates.size());
    }
    inputs_.push_back(node);
    for (const Coordinate& coordinate : coordinates) add(coordinate);
  }

  TermPtr inside() {
    std::vector<Cover> covers;
    for (size_t i = 0; i < piece_.index.size(); ++i) {
      if (!is_lookup(piece_.index[i])) covers.push_back({node_->dims[i], piece_.index[i]});
    }
    return make(loops::zero_of(node_->dtype), std::move(covers));
  }

  TermPtr filled(loops::Scalar fill) {
    for (size_t i = 0; i < piece_.index.size(); ++i) {
      if (!is_lookup(piece_.index[i])) piece_.where.push_back({piece_.index[i], node_->dims[i].size()});
    }
    return make(fill, {});
  }

 private:
  void add(const Coordinate& coordinate) {
    if (!coordinate.indices()) {
      piece_.index.push_back(coordinate.expr());
      return add_dims(dims_of(coordinate.expr()));
    }
    if (is_float(coordinate.indices()->dtype) || coordinate.indices()->dtype == DType::kBool) {
      fail("indices are {}, not integers", describe(*coordinate.indices()));
    }
    const bool is_index = kIndices.contains(coordinate.indices()->dtype);
    inputs_.push_back(is_index ? coordinate.indices() : cast_to(coordinate.indices(), DType::kI64));
    const symbolic::Symbol symbol = Symbol("at").index_symbol();
    lookups_.push_back({symbol, inputs_.size() - 1, node_->dims[piece_.index.size()].size()});
    piece_.index.emplace_back(symbol);
    add_dims(coordinate.indices()->dims);
  }

  void add_dims(const std::vector<Symbol>& dims) {
    for (const Symbol& dim : dims) {
      if (!is_in(dims_, dim)) dims_.push_back(dim);
    }
  }

  bool is_lookup(const Expr& expr) const {
    return std::ranges::any_of(lookups_, [&](const ViewLookup& lookup) { return expr == Expr(lookup.symbol); });
  }

  TermPtr make(loops::Scalar fill, std::vector<Cover> covers) {
    ViewTerm view{{std::move(piece_)}, fill, std::move(lookups_)};
    return make_view({node_->dtype, dims_, std::move(view), inputs_, {}, std::move(covers)});
  }

  TermPtr node_;
  std::vector<TermPtr> inputs_;
  std::vector<Symbol> dims_;
  ViewPiece piece_ = {0, {}, {}};
  std::vector<ViewLookup> lookups_;
};

}  // namespace

void require_dim(const Term& node, const Symbol& symbol) {
  if (!is_in(node.dims, symbol)) fail("{} has no dimension {}", describe(node), symbol.name());
}

void require_distinct(const std::vector<Symbol>& dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!is_in(std::span(dims).first(i), dims[i])) continue;
    fail("{} is there twice in {}: each dimension needs a Symbol of its own", dims[i].name(), list(dims));
  }
}

// ---- indexing -------------------------------------------------------------------------------------------------------

Tensor Tensor::operator[](const std::vector<Coordinate>& index) const { return Tensor(Reader(node_, index).inside()); }

Tensor Tensor::operator[](std::initializer_list<Coordinate> index) const {
  return (*this)[std::vector<Coordinate>(index)];
}

Tensor Tensor::at(const std::vector<Coordinate>& index, const Operand& fill) const {
  if (fill.tensor()) fail("a fill is a number, not the tensor {}", describe(*fill.tensor()));
  return Tensor(Reader(node_, index).filled(number_as(fill, dtype())));
}

Tensor Tensor::at(const std::vector<Coordinate>& index) const { return at(index, 0); }

Tensor index(const Expr& value) { return Tensor(make_term({DType::kI64, dims_of(value), IndexTerm{value}})); }

// ---- names and sizes ------------------------------------------------------------------------------------------------

Tensor Tensor::to(const Symbols& dims) const {
  if (dims.size() != node_->dims.size()) {
    fail("{} has {} dimensions, got {} new ones: {}", describe(*node_), node_->dims.size(), dims.size(), list(dims));
  }
  require_distinct(dims);
  if (node_->as<InputTerm>()) return Tensor(make_term({dtype(), dims, node_->action}));
  std::vector<symbolic::SymbolicEquation> equations;
  for (size_t i = 0; i < dims.size(); ++i) {
    equations.push_back({dims[i].size(), node_->dims[i].size(), fmt::format("{} as {}", describe(*node_), list(dims))});
  }
  ViewTerm view{{{0, {dims.begin(), dims.end()}, {}}}, loops::zero_of(dtype()), {}};
  return Tensor(make_view({dtype(), dims, std::move(view), {node_}, std::move(equations)}));
}

Tensor Tensor::transpose(const Symbols& dims) const {
  require_distinct(dims);
  for (const Symbol& dim : dims) require_dim(*node_, dim);
  if (dims.size() != node_->dims.size()) fail("{} is no order of all dimensions of {}", list(dims), describe(*node_));
  return Tensor(make_term({dtype(), dims, AliasTerm{}, {node_}}));
}

Tensor Tensor::with_sizes(const std::vector<std::pair<Symbol, int64_t>>& sizes) const {
  std::vector<symbolic::SymbolicEquation> equations;
  for (const auto& [symbol, size] : sizes) {
    equations.push_back({symbol.size(), size, fmt::format("with_sizes of {}", describe(*node_))});
  }
  return Tensor(make_term({dtype(), node_->dims, AliasTerm{}, {node_}, std::move(equations)}));
}

// ---- shapes ---------------------------------------------------------------------------------------------------------

Tensor Tensor::flatten(const Symbols& dims, const Symbol& flat) const {
  if (dims.empty()) fail("flatten needs at least one dimension of {}", describe(*node_));
  require_distinct(dims);
  symbolic::Substitution index;
  Expr stride = 1;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    require_dim(*node_, *dim);
    const Expr position = floordiv(flat, stride);
    index.emplace(dim->index_symbol(), dim + 1 == dims.rend() ? position : mod(position, dim->size()));
    stride *= dim->size();
  }
  ViewPiece piece{0, own_index(*node_), {}};
  for (Expr& expr : piece.index) expr = substitute(expr, index);
  std::vector<Symbol> kept = replaced(
      node_->dims, *std::ranges::find_if(node_->dims, [&](const Symbol& dim) { return is_in(dims, dim); }), flat);
  std::erase_if(kept, [&](const Symbol& dim) { return dim != flat && is_in(dims, dim); });
  require_distinct(kept);
  const std::string origin = fmt::format("{} of {} flattened to {}", list(dims), describe(*node_), flat.name());
  return view_of(node_, kept, piece, loops::zero_of(dtype()), {flat.size(), product_of_sizes(dims), origin});
}

Tensor Tensor::split(const Symbol& flat, const Symbols& parts) const {
  require_dim(*node_, flat);
  if (parts.empty()) fail("split needs at least one part for {} of {}", flat.name(), describe(*node_));
  Expr position = 0;
  for (const Symbol& part : parts) position = position * part.size() + Expr(part);
  std::vector<Symbol> dims;
  ViewPiece piece{0, own_index(*node_), {}};
  for (size_t i = 0; i < node_->dims.size(); ++i) {
    if (node_->dims[i] != flat) {
      dims.push_back(node_->dims[i]);
      continue;
    }
    dims.insert(dims.end(), parts.begin(), parts.end());
    piece.index[i] = position;
  }
  require_distinct(dims);
  const std::string origin = fmt::format("{} of {} split into {}", flat.name(), describe(*node_), list(parts));
  return view_of(node_, dims, piece, loops::zero_of(dtype()), {flat.size(), product_of_sizes(parts), origin});
}

Tensor Tensor::split(const Symbol& flat, const Symbols& parts, int64_t innermost) const {
  if (parts.empty()) return split(flat, parts);
  return with_sizes({{parts.back(), innermost}}).split(flat, parts);
}

Tensor Tensor::pad(const Symbol& dim, int64_t low, int64_t high) const { return pad(dim, low, high, 0); }

Tensor Tensor::pad(const Symbol& dim, int64_t low, int64_t high, const Operand& fill) const {
  return pad(dim, low, high, fill, Symbol(dim.name()));
}

Tensor Tensor::pad(const Symbol& dim, int64_t low, int64_t high, const Operand& fill, const Symbol& padded) const {
  require_dim(*node_, dim);
  if (fill.tensor()) fail("a fill is a number, not the tensor {}", describe(*fill.tensor()));
  const std::vector<Symbol> dims = replaced(node_->dims, dim, padded);
  require_distinct(dims);
  const Expr position = Expr(padded) - low;
  ViewPiece piece{0, own_index(*node_), {{position, dim.size()}}};
  std::ranges::replace(piece.index, Expr(dim), position);
  const std::string origin = fmt::format("{} of {} padded by {} and {}", dim.name(), describe(*node_), low, high);
  const Expr size = dim.size() + low + high;
  return view_of(node_, dims, piece, number_as(fill, dtype()), {padded.size(), size, origin});
}

Tensor concat(const std::vector<std::pair<Tensor, Symbol>>& parts, const Symbol& whole) {
  if (parts.empty()) fail("concat needs at least one tensor");
  std::vector<TermPtr> nodes;
  for (const auto& [tensor, dim] : parts) nodes.push_back(tensor.node());
  const DType dtype = promoted_dtype(nodes);
  std::vector<TermPtr> inputs;
  std::vector<Symbol> dims;
  ViewTerm view{{}, loops::zero_of(dtype), {}};
  Expr begin = 0;
  for (const auto& [tensor, dim] : parts) {
    require_dim(*tensor.node(), dim);
    const Expr position = Expr(whole) - begin;
    ViewPiece piece{inputs.size(), own_index(*tensor.node()), {{position, dim.size()}}};
    std::ranges::replace(piece.index, Expr(dim), position);
    view.pieces.push_back(std::move(piece));
    inputs.push_back(cast_to(tensor.node(), dtype));
    const std::vector<Symbol> own_dims = replaced(tensor.dims(), dim, whole);
    require_distinct(own_dims);
    for (const Symbol& own : own_dims) {
      if (!is_in(dims, own)) dims.push_back(own);
    }
    begin += dim.size();
  }
  const std::string origin = fmt::format("the concatenation of {} tensors", parts.size());
  return Tensor(make_view({dtype, dims, std::move(view), inputs, {{whole.size(), begin, origin}}}));
}

Tensor concat(const std::vector<Tensor>& parts, const Symbol& dim) {
  std::vector<std::pair<Tensor, Symbol>> named;
  for (const Tensor& part : parts) named.emplace_back(part, dim);
  return concat(named, Symbol(dim.name()));
}

}  // namespace tenon::named
