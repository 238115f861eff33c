#include "schedule/tap_groups.h"

#include <algorithm>

#include "loops/schedule.h"
#include "schedule/contraction.h"
#include "schedule/wide_image.h"

namespace tenon {

using namespace loops;

namespace {

bool is_cast_of_bytes(const IR& ir, NodeRef ref) {
  const Node& node = ir.node(ref);
  if (!node.computes("cast") || ir.consumers(ref).size() != 1) return false;
  const DType dtype = ir.node(node.inputs[0]).dtype;
  return dtype == DType::kI8 || dtype == DType::kU8;
}

bool is_window(const IR& ir, NodeRef ref) {
  const auto* view = ir.node(ref).as<View>();
  return view && view->only_piece() && ir.consumers(ref).size() == 1;
}

// Moves both casts from the operands of windows to the windows.
IR with_narrow_operands(IR ir) {
  while (std::optional<IR> narrow = with_narrow_windows(ir)) ir = initial_schedule(*std::move(narrow));
  return ir;
}

const TileIntrinsic* dot_of(const IR& ir, const ByteWindows& bytes, const Machine& machine) {
  const auto narrow = [&](NodeRef cast) { return ir.node(ir.node(cast).inputs[0]).dtype; };
  const DType sum = ir.node(bytes.sum).dtype;
  const auto multiplies = [&](const TileIntrinsic& tile) {
    return tile.m == 1 && tile.n == machine.lanes(sum) && tile.c == sum && tile.a == narrow(bytes.weight_cast) &&
           tile.b == narrow(bytes.image_cast);
  };
  const auto found = std::ranges::find_if(machine.tiles, multiplies);
  return found == machine.tiles.end() ? nullptr : &*found;
}

bool moves_by(const IR& ir, const Expr& index, VarRef var, int64_t low, int64_t high) {
  const Result<Expr> slope = differentiate(index, ir.var(var).symbol());
  return slope.ok() && slope->is_constant() && slope->constant() >= low && slope->constant() <= high;
}

// The folded variable along which the taps of a row of the image are neighbours, as pixels nearly are.
VarRef tap_of(const IR& ir, const ByteWindows& bytes, int64_t most_step) {
  const std::vector<Expr>& index = ir.node(ir.node(bytes.image_cast).inputs[0]).as<View>()->pieces[0].index;
  const VarRef pixel = column_of(ir, bytes.sum, with_operands(ir, bytes.sum, epilogue_of(ir, bytes.sum)));
  if (index.empty() || !pixel || !moves_by(ir, index.back(), pixel, 1, most_step)) return {};
  for (VarRef var : ir.folded_vars(bytes.sum)) {
    const Expr& size = ir.var(var).size;
    if (size.is_constant() && size.constant() > 1 && moves_by(ir, index.back(), var, 1, 1)) return var;
  }
  return {};
}

class TapGrouping {
 public:
  TapGrouping(IR ir, const ByteWindows& bytes, VarRef tap, const TileIntrinsic& dot)
      : ir_(std::move(ir)), bytes_(bytes), tap_(tap), dot_(dot) {}

  TapGroups run() {
    const int64_t taps = ir_.var(tap_).size.constant();
    group_tap_ = ir_.add_var(unused_var_name(ir_, "t"), divided_up(taps, dot_.k) * dot_.k);
    const NodeRef image = windows(), weights = padded_weights();
    const DType wide = ir_.node(bytes_.sum).dtype;
    const auto cast = [&](NodeRef of) { return ir_.add_compute(op_named("cast"), {of}, ir_.node(of).vars, wide); };
    const NodeRef image_cast = cast(image), weight_cast = cast(weights);
    const NodeRef product =
        ir_.add_compute(op_named("mul"), {image_cast, weight_cast}, renamed(ir_.node(bytes_.product).vars));
    const std::vector<NodeRef> readers = ir_.consumers(bytes_.sum);
    const NodeRef sum = ir_.add_reduce(op_named("add"), product, ir_.node(bytes_.sum).vars);
    for (NodeRef reader : readers) ir_.set_input(reader, bytes_.sum, sum);
    order_around(ir_, {image, weights, image_cast, weight_cast, product, sum});
    remove_old();
    return {initial_schedule(std::move(ir_)), group_tap_, &dot_};
  }

 private:
  Vars renamed(Vars vars) const {
    std::ranges::replace(vars, tap_, group_tap_);
    return vars;
  }

  Expr renamed(const Expr& expr) const {
    return substitute(expr, {{ir_.var(tap_).symbol(), Expr(ir_.var(group_tap_).symbol())}});
  }

  // Where an image ends, windows with more taps read its fill value.
  NodeRef windows() {
    const Node view = ir_.node(ir_.node(bytes_.image_cast).inputs[0]);
    Piece piece = view.as<View>()->pieces[0];
    for (Expr& index : piece.index) index = renamed(index);
    for (Constraint& guard : piece.where) guard.expr = renamed(guard.expr);
    const Constraint inside{piece.index.back(), ir_.var(ir_.node(piece.input).vars.back()).size};
    const bool has_more = ir_.var(group_tap_).size != ir_.var(tap_).size;
    if (has_more && !is_in(piece.where, inside)) piece.where.push_back(inside);
    return ir_.add_view({{piece}, view.as<View>()->fill, {}}, renamed(view.vars),
                        ir_.unused_node_name(view.name + "_taps"));
  }

  NodeRef padded_weights() {
    const NodeRef weights = ir_.node(bytes_.weight_cast).inputs[0];
    Piece piece{weights, ir_.own_index(weights), {}};
    for (Expr& index : piece.index) index = renamed(index);
    piece.where = {{Expr(ir_.var(group_tap_).symbol()), ir_.var(tap_).size}};
    const Node& node = ir_.node(weights);
    return ir_.add_view({{piece}, zero_of(node.dtype), {}}, renamed(node.vars),
                        ir_.unused_node_name(node.name + "_taps"));
  }

  // Readers before what they read. Refs move with each.
  void remove_old() {
    std::vector<std::string> names;
    for (NodeRef ref : {bytes_.sum, bytes_.product, ir_.node(bytes_.image_cast).inputs[0]})
      names.push_back(ir_.node(ref).name);
    names.insert(names.begin() + 2, {ir_.node(bytes_.image_cast).name, ir_.node(bytes_.weight_cast).name});
    for (const std::string& name : names) ir_ = ir_.without(*ir_.node_named(name));
  }

  IR ir_;
  ByteWindows bytes_;
  VarRef tap_;
  const TileIntrinsic& dot_;
  VarRef group_tap_ = {};
};

}  // namespace

std::optional<ByteWindows> find_byte_windows(const IR& ir) {
  std::vector<NodeRef> folds;
  std::ranges::copy_if(ir.order(), std::back_inserter(folds), [&](NodeRef ref) { return ir.node(ref).as<Reduce>(); });
  if (folds.size() != 1 || !is_sum_of_products(ir, folds[0])) return {};
  ByteWindows bytes{.sum = folds[0], .product = ir.node(folds[0]).inputs[0], .image_cast = {}, .weight_cast = {}};
  std::vector<NodeRef> casts = ir.node(bytes.product).inputs;
  if (casts[0] == casts[1] || !std::ranges::all_of(casts, [&](NodeRef ref) { return is_cast_of_bytes(ir, ref); }))
    return {};
  const auto count = [&](NodeRef ref) { return ir.node(ref).vars.size(); };
  if (count(casts[0]) < count(casts[1])) std::swap(casts[0], casts[1]);
  bytes.image_cast = casts[0];
  bytes.weight_cast = casts[1];
  const auto has_all = [&](VarRef var) { return ir.node(bytes.image_cast).has(var); };
  const bool is_of_one_channel =
      std::ranges::all_of(ir.node(bytes.sum).vars, has_all) && count(casts[1]) < count(casts[0]);
  return is_of_one_channel && is_window(ir, ir.node(bytes.image_cast).inputs[0]) ? std::optional(bytes) : std::nullopt;
}

std::optional<TapGroups> with_tap_groups(const IR& source, const Machine& machine) {
  IR ir = with_narrow_operands(source);
  const std::optional<ByteWindows> bytes = find_byte_windows(ir);
  const TileIntrinsic* const dot = bytes ? dot_of(ir, *bytes, machine) : nullptr;
  if (!dot) return {};
  const VarRef tap = tap_of(ir, *bytes, machine.most_strided_step);
  if (!tap || !ir.node(bytes->weight_cast).has(tap)) return {};
  return TapGrouping(std::move(ir), *bytes, tap, *dot).run();
}

}  // namespace tenon
