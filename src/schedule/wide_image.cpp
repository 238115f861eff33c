#include "schedule/wide_image.h"

#include <algorithm>

#include "schedule/border.h"
#include "schedule/contraction.h"

namespace tenon {

using namespace loops;

namespace {

bool is_wide_window(const IR& ir, NodeRef ref) {
  const Node& cast = ir.node(ref);
  if (!cast.computes("cast") || cast.dtype != DType::kF32 || ir.consumers(ref).size() != 1) return false;
  const Node& input = ir.node(cast.inputs[0]);
  const auto* view = input.as<View>();
  return view && view->only_piece() && is_narrow_float(input.dtype) && ir.consumers(cast.inputs[0]).size() == 1;
}

// The cast that the fold reads, or its product: of two, the one with more variables is of the image.
std::optional<NodeRef> wide_window(const IR& ir) {
  std::vector<NodeRef> folds;
  std::ranges::copy_if(ir.order(), std::back_inserter(folds), [&](NodeRef ref) { return ir.node(ref).as<Reduce>(); });
  if (folds.size() != 1) return {};
  const NodeRef folded = ir.node(folds[0]).inputs[0];
  if (is_wide_window(ir, folded)) return folded;
  if (!ir.node(folded).computes("mul")) return {};
  const auto count = [&](NodeRef ref) { return ir.node(ref).vars.size(); };
  const NodeRef image = std::ranges::max(ir.node(folded).inputs, {}, count);
  return is_wide_window(ir, image) ? std::optional(image) : std::nullopt;
}

IR with_cast_before_view(IR ir, NodeRef cast) {
  const NodeRef view = ir.node(cast).inputs[0];
  Piece piece = ir.node(view).as<View>()->pieces[0];
  const std::string name = ir.node(view).name;
  piece.input = ir.add_compute(op_named("cast"), {piece.input}, ir.node(piece.input).vars, DType::kF32,
                               ir.unused_node_name(name + "_wide"));
  const NodeRef window =
      ir.add_view({{piece}, Scalar(0.0), {}}, ir.node(cast).vars, ir.unused_node_name(name + "_window"));
  std::vector<NodeRef> order = ir.order();
  order.resize(order.size() - 2);
  order.insert(std::ranges::find(order, view), {piece.input, window});
  ir.set_order(std::move(order));
  for (NodeRef reader : ir.consumers(cast)) ir.set_input(reader, cast, window);
  ir = ir.without(cast);
  return ir.without(*ir.node_named(name));
}

// The only sum of products.
std::optional<NodeRef> only_product(const IR& ir) {
  std::vector<NodeRef> sums;
  std::ranges::copy_if(ir.order(), std::back_inserter(sums), [&](NodeRef ref) { return is_sum_of_products(ir, ref); });
  return sums.size() == 1 ? std::optional(ir.node(sums[0]).inputs[0]) : std::nullopt;
}

// Whether only `reader` reads the node, a window of a widened image that only the window reads.
bool is_window_of_cast(const IR& ir, NodeRef ref, NodeRef reader) {
  const auto* view = ir.node(ref).as<View>();
  if (!view || !view->only_piece() || ir.consumers(ref) != std::vector{reader}) return false;
  const NodeRef image = view->pieces[0].input;
  const Node& cast = ir.node(image);
  return cast.computes("cast") && ir.consumers(image).size() == 1 && !is_float(cast.dtype) &&
         size_of(ir.node(cast.inputs[0]).dtype) == 1 && view->fill == zero_of(cast.dtype);
}

// Whether a node only shifts its input, drops dimensions of it or adds a border, and keeps the contiguous dimension.
bool is_shift(const IR& ir, NodeRef ref) {
  const auto* view = ir.node(ref).as<View>();
  if (!view || !view->only_piece() || ir.node(ref).vars.empty() || ir.consumers(ref).size() != 1) return false;
  const std::vector<Expr>& index = view->pieces[0].index;
  const auto shifts = [&](const Expr& expr, VarRef var) { return (expr - Expr(ir.var(var).symbol())).is_constant(); };
  const auto is_plain = [&](const Expr& expr) {
    return expr.is_constant() || std::ranges::any_of(ir.node(ref).vars, [&](VarRef var) { return shifts(expr, var); });
  };
  return !index.empty() && std::ranges::all_of(index, is_plain) && shifts(index.back(), ir.node(ref).vars.back());
}

// A view of a view that shifts, as one view of what that one reads. Empty where both have constraints.
std::optional<View> joined_views(const IR& ir, const View& outer) {
  const Piece& of_outer = outer.pieces[0];
  if (!is_shift(ir, of_outer.input)) return {};
  const View& inner = *ir.node(of_outer.input).as<View>();
  const Piece& of_inner = inner.pieces[0];
  if (!of_outer.where.empty() && !of_inner.where.empty()) return {};
  symbolic::Substitution at;
  const Vars& vars = ir.node(of_outer.input).vars;
  for (size_t i = 0; i < vars.size(); ++i) at.insert_or_assign(ir.var(vars[i]).symbol(), of_outer.index[i]);
  Piece piece{of_inner.input, {}, of_outer.where};
  for (const Expr& index : of_inner.index) piece.index.push_back(substitute(index, at));
  for (const Constraint& guard : of_inner.where)
    piece.where.push_back({substitute(guard.expr, at), substitute(guard.bound, at)});
  return View{{std::move(piece)}, of_inner.where.empty() ? outer.fill : inner.fill, {}};
}

IR with_cast_after_view(IR ir, NodeRef window, NodeRef reader) {
  const NodeRef cast = ir.node(window).as<View>()->pieces[0].input, image = ir.node(cast).inputs[0];
  const std::string window_name = ir.node(window).name, cast_name = ir.node(cast).name;
  Piece piece = ir.node(window).as<View>()->pieces[0];
  piece.input = image;
  const DType narrow = ir.node(image).dtype, wide = ir.node(cast).dtype;
  const Vars vars = ir.node(window).vars;
  View narrow_view{{piece}, zero_of(narrow), {}};
  const std::string image_name = ir.node(image).name;
  const std::optional<View> joined = joined_views(ir, narrow_view);
  if (joined) narrow_view = *joined;
  const NodeRef view = ir.add_view(std::move(narrow_view), vars, ir.unused_node_name(window_name + "_narrow"));
  const NodeRef widened =
      ir.add_compute(op_named("cast"), {view}, vars, wide, ir.unused_node_name(window_name + "_wide"));
  std::vector<NodeRef> order = ir.order();
  order.resize(order.size() - 2);
  order.insert(std::ranges::find(order, window), {view, widened});
  ir.set_order(std::move(order));
  ir.set_input(reader, window, widened);
  ir = ir.without(*ir.node_named(window_name));
  ir = ir.without(*ir.node_named(cast_name));
  return joined ? ir.without(*ir.node_named(image_name)) : ir;
}

}  // namespace

std::optional<IR> with_wide_image(const IR& ir) {
  const std::optional<NodeRef> cast = wide_window(ir);
  if (!cast) return {};
  const NodeRef view = ir.node(*cast).inputs[0];
  if (ir.node(view).as<View>()->pieces[0].where.empty()) return with_cast_before_view(ir, *cast);
  const std::optional<IR> bordered = with_border(ir, view);
  return bordered ? std::optional(with_cast_before_view(*bordered, *wide_window(*bordered))) : std::nullopt;
}

std::optional<IR> with_unsigned_windows(const IR& source) {
  const std::optional<NarrowContraction> found = find_narrow_contraction(source);
  if (!found || source.node(found->c.a).dtype != DType::kI8 || source.node(found->c.b).dtype != DType::kI8) return {};
  const auto* view = source.node(found->c.b).as<View>();
  if (!view || !view->only_piece() || view->fill != zero_of(DType::kI8)) return {};
  IR ir = source;
  const Contraction& c = found->c;
  const DType wide = ir.node(c.sum).dtype;
  const auto compute = [&](std::string_view op, std::vector<NodeRef> inputs, Vars vars,
                           std::optional<DType> dtype = {}) {
    return ir.add_compute(op_named(op), std::move(inputs), std::move(vars), dtype);
  };
  Piece piece = view->pieces[0];
  const Vars image_vars = ir.node(piece.input).vars, window_vars = ir.node(c.b).vars, kept = ir.node(c.sum).vars;
  const NodeRef flipped = compute("bitwise_xor", {piece.input, ir.add_constant(DType::kI8, int64_t{-128})}, image_vars);
  piece.input = compute("bitcast", {flipped}, image_vars, DType::kU8);
  const NodeRef window = ir.add_view({{piece}, int64_t{128}, {}}, window_vars);
  const NodeRef widened = compute("cast", {window}, window_vars, wide);
  ir.set_input(c.product, found->casts[1], widened);

  Vars channels = ir.node(c.a).vars;
  std::erase_if(channels, [&](VarRef var) { return is_in(c.folded, var); });
  const NodeRef weights = compute("cast", {c.a}, ir.node(c.a).vars, wide);
  const NodeRef sums = ir.add_reduce(op_named("add"), weights, channels);
  const NodeRef too_much = compute("mul", {sums, ir.add_constant(wide, int64_t{128})}, channels);
  const std::vector<NodeRef> readers = ir.consumers(c.sum);
  const NodeRef result = compute("sub", {c.sum, too_much}, kept);
  for (NodeRef reader : readers) ir.set_input(reader, c.sum, result);
  const std::string cast_name = ir.node(found->casts[1]).name, view_name = ir.node(c.b).name;
  order_around(ir, {flipped, piece.input, window, widened, weights, sums, too_much, c.product, c.sum, result});
  ir = ir.without(*ir.node_named(cast_name));
  return ir.without(*ir.node_named(view_name));
}

std::optional<IR> with_narrow_windows(const IR& ir) {
  const std::optional<NodeRef> product = only_product(ir);
  if (!product) return {};
  for (NodeRef operand : ir.node(*product).inputs) {
    if (is_window_of_cast(ir, operand, *product)) return with_cast_after_view(ir, operand, *product);
  }
  return {};
}

}  // namespace tenon
