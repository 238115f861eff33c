// LoopBuilder and LoopContext: the functions that the `loops` slots of op records call.
#include <algorithm>
#include <bit>

#include "loops/kernel.h"
#include "support/is_in.h"

namespace tenon {

using loops::Scalar;
using loops::VarRef;

namespace {

LoopDims present(const LoopDims& dims) {
  LoopDims vars;
  std::ranges::copy_if(dims, std::back_inserter(vars), [](VarRef var) { return static_cast<bool>(var); });
  return vars;
}

size_t position_of(const LoopDims& dims, VarRef var) {
  return static_cast<size_t>(std::ranges::find(dims, var) - dims.begin());
}

// The variable of a dimension, counted from the right, as broadcasting aligns shapes. Empty if the array has no such
// dimension.
VarRef dim_from_right(const LoopDims& dims, size_t from_right) {
  return from_right < dims.size() ? dims[dims.size() - 1 - from_right] : VarRef();
}

std::set<Symbol> symbols_in(const loops::IR& ir, const loops::View& view) {
  std::set<Symbol> used;
  const auto use = [&](const Expr& expr) {
    for (Symbol symbol : symbols_of(expr)) used.insert(symbol);
  };
  for (const loops::Piece& piece : view.pieces) {
    std::ranges::for_each(piece.index, use);
    for (const loops::Constraint& constraint : piece.where) use(constraint.expr);
  }
  for (const loops::Lookup& lookup : view.lookups) {
    for (VarRef var : ir.node(lookup.indices).vars) used.insert(ir.var(var).symbol());
  }
  return used;
}

// The piece over the node's variables. Each index that is not proven to be in range gets a constraint.
loops::Piece placed(LoopKernel& kernel, const LoopPiece& piece, std::span<const loops::Lookup> lookups) {
  loops::Piece result{piece.value.node, {}, {}};
  for (size_t dim = 0; dim < piece.index.size(); ++dim) {
    loops::Constraint inside{piece.index[dim], piece.shape[dim]};
    if (!kernel.is_inside(inside, lookups)) result.where.push_back(std::move(inside));
  }
  result.where.insert(result.where.end(), piece.where.begin(), piece.where.end());
  for (VarRef var : kernel.ir.node(piece.value.node).vars) {
    result.index.push_back(piece.index[position_of(piece.value.dims, var)]);
  }
  for (const Expr& index : result.index) kernel.require_sizes(index);
  for (const loops::Constraint& constraint : result.where) {
    kernel.require_sizes(constraint.expr);
    kernel.require_sizes(constraint.bound);
  }
  return result;
}

}  // namespace

// ---- the kernel -----------------------------------------------------------------------------------------------------

LoopKernel::LoopKernel(const Graph& graph) : ir(graph.name()) {
  for (const auto& [symbol, range] : graph.symbols()) ir.declare_symbol(symbol, range);
  const symbolic::Ranges ranges = graph.ranges();
  for (const auto& [symbol, range] : ranges) symbols_.insert(symbol);
  box = loops::Box(ranges);
}

Symbol LoopKernel::new_name(std::string_view letters, int& count) {
  while (true) {
    const auto number = static_cast<size_t>(count++);
    const size_t round = number / letters.size();
    std::string name(1, letters[number % letters.size()]);
    if (round > 0) name += std::to_string(round);
    if (!symbols_.contains(Symbol(name))) return Symbol(name);
  }
}

VarRef LoopKernel::add_var(const Expr& size) {
  const Symbol symbol = new_name("ijklmn", vars_named_);
  for (Symbol part : symbols_of(size)) sizes_.insert(part);
  box.add(symbol, 0, size - 1);
  return ir.add_var(symbol.name(), size);
}

Symbol LoopKernel::new_lookup() { return new_name("pq", lookups_named_); }

loops::NodeRef LoopKernel::constant(DType dtype, Scalar value) {
  const auto* real = std::get_if<double>(&value);
  const int64_t bits = real ? std::bit_cast<int64_t>(*real) : std::get<int64_t>(value);
  const auto [found, is_new] = constants_.try_emplace({dtype, bits});
  if (is_new) found->second = ir.add_constant(dtype, value);
  return found->second;
}

void LoopKernel::require_sizes(const Expr& expr) {
  for (Symbol symbol : symbols_of(expr)) {
    if (symbols_.contains(symbol) && !sizes_.contains(symbol)) add_var(symbol);
  }
}

bool LoopKernel::is_inside(const loops::Constraint& constraint, std::span<const loops::Lookup> lookups) const {
  if (constraint.expr.kind() != symbolic::Kind::kSymbol) return box.contains(constraint);
  const auto found = std::ranges::find(lookups, constraint.expr.symbol(), &loops::Lookup::symbol);
  return found == lookups.end() ? box.contains(constraint) : found->bound == constraint.bound;
}

// ---- variables ------------------------------------------------------------------------------------------------------

VarRef LoopBuilder::var(const Expr& size) { return size.is_constant(1) ? VarRef() : kernel_->add_var(size); }

Expr LoopBuilder::size(VarRef var) const { return var ? kernel_->ir.var(var).size : Expr(1); }

Expr LoopBuilder::at(VarRef var) const { return var ? Expr(kernel_->ir.var(var).symbol()) : Expr(0); }

std::vector<Expr> LoopBuilder::at(const LoopDims& dims) const {
  std::vector<Expr> index;
  for (VarRef dim : dims) index.push_back(at(dim));
  return index;
}

Expr LoopBuilder::simplified(const Expr& expr) const { return kernel_->box.simplify(expr); }

LoopDims LoopBuilder::common_dims(const std::vector<LoopDims>& operands, const LoopDims& taken) {
  size_t rank = 0;
  for (const LoopDims& dims : operands) rank = std::max(rank, dims.size());
  LoopDims result(rank);
  LoopDims models(rank);  // a variable of the right size for each dimension
  for (const LoopDims& dims : operands) {
    for (size_t dim = 0; dim < rank; ++dim) {
      const VarRef own = dim_from_right(dims, rank - 1 - dim);
      if (!own || result[dim]) continue;
      models[dim] = own;
      if (!is_in(taken, own) && !is_in(result, own)) result[dim] = own;
    }
  }
  for (size_t dim = 0; dim < rank; ++dim) {
    if (models[dim] && !result[dim]) result[dim] = var(kernel_->ir.var(models[dim]).size);
  }
  return result;
}

// ---- values ---------------------------------------------------------------------------------------------------------

DType LoopBuilder::dtype(const LoopValue& x) const { return kernel_->ir.node(x.node).dtype; }

LoopValue LoopBuilder::constant(DType dtype, Scalar value) { return {kernel_->constant(dtype, value), {}}; }

LoopValue LoopBuilder::number(const Expr& value, const LoopDims& dims) {
  if (value.is_constant()) return {constant(DType::kI64, value.constant()).node, LoopDims(dims.size())};
  kernel_->require_sizes(value);
  LoopValue result{{}, dims};
  for (VarRef& dim : result.dims) {
    if (dim && !depends_on(value, kernel_->ir.var(dim).symbol())) dim = {};
  }
  result.node = kernel_->ir.add_index(value, present(result.dims));
  return result;
}

// ---- elementwise ----------------------------------------------------------------------------------------------------

// A node for x over `dims`, which may have more dimensions and other variables than x.
loops::NodeRef LoopBuilder::aligned(const LoopValue& x, const LoopDims& dims) {
  const LoopDims target(dims.end() - static_cast<int64_t>(x.dims.size()), dims.end());
  LoopPiece piece{x, {}, at(target)};
  bool same = true;
  for (size_t dim = 0; dim < target.size(); ++dim) {
    const VarRef own = x.dims[dim];
    same = same && (!own || own == target[dim]);
    piece.shape.push_back(own ? kernel_->ir.var(own).size : Expr(1));
    if (!own) piece.index[dim] = 0;
  }
  return same ? x.node : view(target, std::move(piece)).node;
}

LoopValue LoopBuilder::compute(const OpDef& op, const std::vector<LoopValue>& operands) {
  std::vector<LoopDims> all;
  for (const LoopValue& operand : operands) all.push_back(operand.dims);
  LoopDims dims = common_dims(all);
  std::vector<loops::NodeRef> inputs;
  for (const LoopValue& operand : operands) inputs.push_back(aligned(operand, dims));
  const loops::NodeRef node = kernel_->ir.add_compute(op, std::move(inputs), present(dims));
  return {node, std::move(dims)};
}

LoopValue LoopBuilder::compute(std::string_view op, const std::vector<LoopValue>& operands) {
  return compute(op_named(op), operands);
}

// A constant with more bits is another constant: a scalar of its own would be a launch of its own on a device.
LoopValue LoopBuilder::cast(const LoopValue& x, DType to) {
  if (dtype(x) == to) return x;
  const auto* known = kernel_->ir.node(x.node).as<loops::Constant>();
  if (known && is_narrow_float(dtype(x)) && to == tenon::wide(dtype(x)))
    return {constant(to, round_to(dtype(x), std::get<double>(known->value))).node, x.dims};
  return {kernel_->ir.add_compute(op_named("cast"), {x.node}, present(x.dims), to), x.dims};
}

LoopValue LoopBuilder::bitcast(const LoopValue& x, DType to) {
  return {kernel_->ir.add_compute(op_named("bitcast"), {x.node}, present(x.dims), to), x.dims};
}

LoopValue LoopBuilder::wide(const LoopValue& x) { return cast(x, tenon::wide(dtype(x))); }

LoopValue LoopBuilder::equals_or_is_nan(const LoopValue& x, const LoopValue& y) {
  const LoopValue equal = compute("eq", {x, y});
  return is_float(dtype(x)) ? compute("bitwise_or", {equal, compute("ne", {x, x})}) : equal;
}

// ---- folds ----------------------------------------------------------------------------------------------------------

// The fold of a single element is the element. Except that a sum, which starts at 0, turns -0 into 0.
LoopValue LoopBuilder::fold_of_one(std::string_view op, const LoopValue& x) {
  if (op != "add" || !is_float(dtype(x))) return x;
  return compute(op, {x, constant(dtype(x), 0.0)});
}

LoopValue LoopBuilder::fold(std::string_view op, const LoopValue& x, const Shape& shape,
                            const std::vector<int64_t>& dims, bool keepdim) {
  const LoopValue all = stretched(x, shape, dims);
  LoopValue result;
  bool folds = false;
  for (size_t dim = 0; dim < all.dims.size(); ++dim) {
    const bool folded = std::ranges::find(dims, static_cast<int64_t>(dim)) != dims.end();
    if (!folded || keepdim) result.dims.push_back(folded ? VarRef() : all.dims[dim]);
    folds = folds || (folded && all.dims[dim]);
  }
  result.node =
      folds ? kernel_->ir.add_reduce(op_named(op), all.node, present(result.dims)) : fold_of_one(op, all).node;
  return result;
}

LoopValue LoopBuilder::scan(std::string_view op, const LoopValue& x, const Shape& shape, int64_t dim) {
  if (shape.empty()) return fold_of_one(op, x);
  const LoopValue all = stretched(x, shape, {dim});
  const VarRef along = all.dims[static_cast<size_t>(dim)];
  if (!along) return fold_of_one(op, all);
  return {kernel_->ir.add_scan(op_named(op), all.node, along, present(all.dims)), all.dims};
}

// ---- indexing -------------------------------------------------------------------------------------------------------

LoopValue LoopBuilder::view(const LoopView& view) {
  loops::View action{{}, view.fill.value_or(loops::zero_of(dtype(view.pieces[0].value))), view.lookups};
  for (const LoopPiece& piece : view.pieces) action.pieces.push_back(placed(*kernel_, piece, view.lookups));
  LoopValue result{{}, view.dims};
  const std::set<Symbol> used = symbols_in(kernel_->ir, action);
  const auto is_needed = [&](const loops::Var& var) {
    // A lookup must only fail for elements that exist.
    return used.contains(var.symbol()) || (!view.lookups.empty() && !kernel_->box.never_negative(var.size - 1));
  };
  for (VarRef& dim : result.dims) {
    if (dim && !is_needed(kernel_->ir.var(dim))) dim = {};
  }
  const loops::NodeRef first = action.pieces[0].input;
  result.node = reads_own_index(kernel_->ir, action, kernel_->ir.node(first).vars)
                    ? first
                    : kernel_->ir.add_view(std::move(action), present(result.dims));
  return result;
}

LoopValue LoopBuilder::stretched(const LoopValue& x, const Shape& shape, const std::vector<int64_t>& dims) {
  LoopValue result = x;
  for (int64_t dim : dims) {
    VarRef& own = result.dims[static_cast<size_t>(dim)];
    if (!own) own = var(shape[static_cast<size_t>(dim)]);
  }
  if (result.dims != x.dims) result.node = kernel_->ir.add_copy(x.node, present(result.dims));
  return result;
}

LoopValue LoopBuilder::stretched(const LoopValue& x, const Shape& shape) {
  return stretched(x, shape, normalize_dims({}, std::ssize(shape)));
}

Expr LoopBuilder::lookup(std::vector<loops::Lookup>& lookups, const LoopValue& indices, const LoopDims& dims,
                         const Expr& bound) {
  kernel_->require_sizes(bound);
  const Symbol symbol = kernel_->new_lookup();
  lookups.push_back({symbol, aligned(indices, dims), bound});
  return symbol;
}

LoopValue LoopBuilder::scatter(const OpDef* op, const LoopValue& x, const std::vector<Expr>& index,
                               std::vector<loops::Lookup> lookups, const LoopValue& values, const LoopDims& dims) {
  loops::Scatter action{op, {}, {}, std::move(lookups)};
  const LoopDims vars = present(x.dims);
  for (VarRef var : vars) action.index.push_back(index[position_of(x.dims, var)]);
  // Values are written in the order of their variables.
  loops::NodeRef source = aligned(values, dims);
  LoopDims iterated = present(dims);
  // The array is initialized with x before the folded loops, so there must be one.
  const auto is_folded = [&](VarRef var) { return !is_in(vars, var); };
  if (std::ranges::none_of(iterated, is_folded)) iterated.push_back(kernel_->add_var(1));
  if (kernel_->ir.node(source).vars != iterated) source = kernel_->ir.add_copy(source, iterated);
  return {kernel_->ir.add_scatter(std::move(action), x.node, source, vars), x.dims};
}

// ---- a node ---------------------------------------------------------------------------------------------------------

LoopContext::LoopContext(LoopKernel& kernel, const Graph& graph, const Node& node, std::vector<LoopValue> operands)
    : LoopBuilder(kernel),
      OpView(view_of(graph, *node.op, node.operands, node.attrs)),
      graph_(&graph),
      node_(&node),
      operands_(std::move(operands)),
      results_(node.results.size()) {}

loops::Scalar scalar_in(DType dtype, const Attr& number) {
  Tensor element = Tensor::zeros(dtype, {});
  const auto* real = std::get_if<double>(&number);
  real ? element.set_real(0, *real) : element.set_integer(0, std::get<Expr>(number).constant());
  return is_float(dtype) ? Scalar(element.real(0)) : Scalar(element.integer(0));
}

}  // namespace tenon
