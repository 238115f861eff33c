// Convolutions with several output channels: sums of products of weights and windows of an image.
//
// Results are contiguous along a row of pixels, but 7 or 14 pixels fill no vector. So lanes are output channels. The
// weights of a block of channels are packed. Each pixel is read from its place in the image and broadcast to all lanes.
// The image is not packed; it only gets a border if the convolution pads it. A block is transposed in registers when it
// is written.
//
//     for c                                      the image with its border
//       %x_border[c, p, q] = view %x[...]
//     for m by 32 parallel                       a block of channels
//       for y, x by 14                           and pixels
//         for c, i, j                            out[m, y, x] += x_border[c, y + i, x + j] * w[m, c, i, j]
//           for x unroll, m by 16 unroll, m vectorize
//         for m by 16 unroll, m unroll, x vectorize     bias, activation, ..., write
//
// A narrow image (bf16) is widened once, before the blocks; narrow weights are packed as they are, and each step widens
// the vectors that it loads.
//
// If pixels fill vectors better than channels do, or if an instruction for narrow products gains more, matmul.cpp
// schedules the convolution.
#include <algorithm>

#include "loops/schedule.h"
#include "schedule/border.h"
#include "schedule/contraction.h"
#include "schedule/default_schedule.h"
#include "schedule/wide_image.h"

namespace tenon {

using namespace loops;

namespace {

// The factor on the cost of a block that leaves a rest: the rest is more code to compile.
constexpr double kRest = 1.06;

// Whether the node is a view of one array.
bool is_image(const IR& ir, NodeRef ref) {
  const auto* view = ir.node(ref).as<View>();
  return view && view->only_piece();
}

class ConvolutionScheduler {
 public:
  ConvolutionScheduler(IR ir, Contraction c, const Machine& machine)
      : ir_(std::move(ir)), c_(std::move(c)), machine_(machine) {
    channel_ = c_.rows.back();
    pixel_ = c_.columns.back();
    lanes_ = machine.lanes(ir_.node(c_.sum).dtype);
    tile_ = pick_tile(lanes_, machine, [&](const RegisterTile& tile) { return cost_across(tile); });
  }

  // `gain` is how many products of the other schedule take the time of one of these.
  bool is_better_across(double gain) const { return cost_across(tile_) < cost_along() / gain; }

  LoopTree run() {
    const LoopSpecs around = with_threads(ir_, outer(), machine_);
    make_image(around);
    make_weights(around);
    const LoopSpecs inner = joined(around, joined(folded(), block()));
    for (NodeRef ref : core()) ir_.set_loops(ref, inner);
    for (NodeRef ref : c_.epilogue) ir_.set_loops(ref, joined(around, written(around)));
    set_order(around);
    return LoopTree(std::move(ir_));
  }

 private:
  int64_t size(VarRef var) const { return about(ir_.var(var).size); }

  // ---- what it takes, for each step of the folded variables ----

  int64_t vectors_in(int64_t count) const { return divided_up(count, lanes_); }
  double steps() const { return static_cast<double>(about(ir_, c_.folded)); }

  double cost_across(const RegisterTile& tile) const {
    const int64_t pixels = size(pixel_), channels = size(channel_);
    const int64_t vectors = channels * (pixels / tile.rows * vectors_in(tile.rows) + vectors_in(pixels % tile.rows));
    const double rest = (pixels % tile.rows == 0 ? 1 : kRest) * (channels % tile.columns == 0 ? 1 : kRest);
    return rest * cost_of(tile, pixels, channels, lanes_, machine_) +
           machine_.transpose_cost * static_cast<double>(vectors) / steps();
  }

  double cost_along() const {
    const int64_t pixels = size(pixel_), channels = size(channel_);
    const RegisterTile tile = pick_tile(channels, pixels, lanes_, machine_);
    return cost_of(tile, channels, pixels, lanes_, machine_) +
           machine_.pack_cost * static_cast<double>(vectors_in(pixels));
  }

  // ---- loops ----

  // Loops over images, blocks of channels, and blocks of pixels. If there are few pixels, the loop over channels is
  // outside of images, so that weights are read from memory once.
  LoopSpecs outer() const {
    LoopSpecs loops = loops_over(c_.batch);
    Vars channels(c_.rows.begin(), c_.rows.end() - 1), pixels(c_.columns.begin(), c_.columns.end() - 1);
    Vars images = pixels;
    const bool are_few = about(ir_, c_.columns) <= about(ir_, c_.rows);
    std::erase_if(images, [&](VarRef var) { return is_moved_along(var) || are_few; });
    std::erase_if(pixels, [&](VarRef var) { return !is_moved_along(var) && !are_few; });
    loops = joined(std::move(loops), joined(loops_over(images), loops_over(channels)));
    loops.push_back({.var = channel_, .step = tile_.columns});
    loops = joined(std::move(loops), loops_over(pixels));
    loops.push_back({.var = pixel_, .step = tile_.rows});
    return loops;
  }

  // Whether a window moves along the variable. Otherwise the variable numbers images.
  bool is_moved_along(VarRef var) const {
    const Piece& piece = ir_.node(c_.b).as<View>()->pieces[0];
    return std::ranges::none_of(piece.index, [&](const Expr& index) { return index == Expr(ir_.var(var).symbol()); });
  }

  LoopSpecs lanes_of_channel(const Annotation& vectors, const Annotation& lanes) const {
    LoopSpecs loops;
    if (tile_.columns > lanes_) loops.push_back({.var = channel_, .step = lanes_, .annotation = vectors});
    loops.push_back({.var = channel_, .annotation = lanes});
    return loops;
  }

  LoopSpecs block() const {
    const LoopSpec pixels{.var = pixel_, .annotation = {Mark::kUnroll}};
    return joined({pixels}, lanes_of_channel({Mark::kUnroll}, {Mark::kVectorize}));
  }

  // Loops of the nodes after the sum: equal for all of them, so that they share loops.
  LoopSpecs written(const LoopSpecs& around) const {
    LoopSpecs loops;
    for (NodeRef ref : c_.epilogue) {
      for (VarRef var : ir_.node(ref).vars) {
        const auto is_over = [&](const LoopSpec& loop) { return loop.var == var; };
        if (std::ranges::none_of(around, is_over) && std::ranges::none_of(loops, is_over))
          loops.push_back({.var = var});
      }
    }
    loops = joined(std::move(loops), lanes_of_channel({Mark::kUnroll}, {Mark::kUnroll}));
    loops.push_back({.var = pixel_, .annotation = {Mark::kVectorize}});
    return loops;
  }

  // ---- operands ----

  // Computes all images before the blocks. If images are the outermost loop, one image per iteration.
  void make_image(const LoopSpecs& around) {
    for (NodeRef ref : c_.makes_b) {
      if (ref == c_.b) continue;
      const Node& node = ir_.node(ref);
      LoopSpecs loops;
      const bool is_whole = around[0].step == 1;  // a block of pixels does not contain an image
      if (is_whole && node.has(around[0].var) && is_in(c_.columns, around[0].var)) loops.push_back(around[0]);
      const bool is_shared = !loops.empty();
      for (VarRef var : node.vars) {
        if (!is_shared || var != around[0].var) loops.push_back({.var = var});
      }
      if (loops.empty()) continue;
      if (!is_shared) first_long(loops).annotation.mark = Mark::kParallel;
      if (loops.back().annotation.mark == Mark::kNone) loops.back().annotation.mark = Mark::kVectorize;
      ir_.set_loops(ref, std::move(loops));
    }
  }

  LoopSpec& first_long(LoopSpecs& loops) const {
    const auto found = std::ranges::find_if(loops, [&](const LoopSpec& loop) { return size(loop.var) > loop.step; });
    return found == loops.end() ? loops.front() : *found;
  }

  // Loops over folded variables, in the blocks in which weights are packed.
  LoopSpecs folded() const {
    LoopSpecs loops = loops_over(c_.folded);
    const Expr& last = ir_.var(c_.folded.back()).size;
    const int64_t side = machine_.transposed_side;
    if (!last.is_constant() || last.constant() % side != 0 || last.is_constant(side)) return loops;
    loops.back().step = side;
    loops.push_back({.var = c_.folded.back()});
    return loops;
  }

  // Packs weights block by block of channels, in the order in which they are read. The weights of the model are
  // contiguous along the last folded variable.
  void make_weights(const LoopSpecs& around) {
    if (is_narrow(c_.a)) take_narrow_weights();
    if (c_.makes_a.empty()) pack_weights();
    LoopSpecs loops = loops_over(c_.batch);
    loops = joined(std::move(loops), loops_over({c_.rows.begin(), c_.rows.end() - 1}));
    loops.push_back({.var = channel_, .step = tile_.columns});
    if (around[0].var == channel_) std::rotate(loops.begin(), loops.end() - 1, loops.end());
    const bool is_shared = around[0].var == loops[0].var;
    if (is_shared) loops[0].annotation = around[0].annotation;
    LoopSpecs steps = folded(), lanes = lanes_of_channel({}, {Mark::kVectorize});
    if (size(c_.folded.back()) <= machine_.transposed_side || steps.size() > c_.folded.size()) {
      lanes.insert(lanes.end() - 1, {.var = c_.folded.back(), .annotation = {Mark::kUnroll}});
      steps.pop_back();
    }
    loops = joined(std::move(loops), joined(std::move(steps), lanes));
    if (!is_shared) first_long(loops).annotation.mark = Mark::kParallel;
    for (NodeRef ref : c_.makes_a) ir_.set_loops(ref, loops_it_has(ir_, ref, loops));
  }

  bool is_narrow(NodeRef weights) const {
    const Node& node = ir_.node(weights);
    return node.computes("cast") && is_narrow_float(ir_.node(node.inputs[0]).dtype);
  }

  void take_narrow_weights() {
    widened_ = {c_.a};
    c_.a = ir_.node(c_.a).inputs[0];
    c_.makes_a.erase(widened_[0]);
  }

  void pack_weights() {
    const NodeRef packed = add_named_copy(ir_, c_.a, "_packed");
    ir_.set_input(widened_.empty() ? c_.product : widened_[0], c_.a, packed);
    c_.a = packed;
    c_.makes_a = {packed};
  }

  // ---- the order ----

  // The nodes of the innermost loops.
  std::vector<NodeRef> core() const {
    std::vector<NodeRef> nodes = widened_;
    nodes.insert(nodes.end(), {c_.b, c_.product, c_.sum});
    return nodes;
  }

  void set_order(const LoopSpecs& around) {
    std::vector<NodeRef> core;
    const auto add = [&](auto wanted) { std::ranges::copy_if(ir_.order(), std::back_inserter(core), wanted); };
    const auto is_image = [&](NodeRef ref) { return c_.makes_b.contains(ref) && ref != c_.b; };
    const auto is_weight = [&](NodeRef ref) { return c_.makes_a.contains(ref); };
    // Nodes that share loops with the blocks come right before them.
    const bool is_by_channel = around[0].var == channel_ || is_in(c_.rows, around[0].var);
    is_by_channel ? add(is_image) : add(is_weight);
    is_by_channel ? add(is_weight) : add(is_image);
    for (NodeRef ref : this->core()) core.push_back(ref);
    core.insert(core.end(), c_.epilogue.begin(), c_.epilogue.end());
    for (NodeRef ref : needed_by(ir_, core)) ir_.set_loops(ref, loops_it_has(ir_, ref, ir_.node(ref).loops));
    order_around(ir_, core);
  }

  IR ir_;
  Contraction c_;
  const Machine& machine_;
  std::vector<NodeRef> widened_ = {};  // the cast of narrow weights, if they are narrow
  VarRef channel_;
  VarRef pixel_;
  int64_t lanes_ = 1;
  RegisterTile tile_{};
};

// Whether the result is an image: it has two dimensions, or a window moves along its only one.
bool has_pixels(const IR& ir, const Contraction& c) {
  const auto moves_along = [&](const Expr& index, const Vars& vars) {
    return std::ranges::any_of(vars, [&](VarRef var) { return depends_on(index, ir.var(var).symbol()); });
  };
  const std::vector<Expr>& indices = ir.node(c.b).as<View>()->pieces[0].index;
  return c.columns.size() > 1 || std::ranges::any_of(indices, [&](const Expr& index) {
           return moves_along(index, c.columns) && moves_along(index, c.folded);
         });
}

// How many products an instruction for the dtype of the operands computes in the time of one product in f32: the sum is
// along the last folded variable, which may fill only a part of the instruction.
double gain_of_narrow_products(const IR& ir, const Machine& machine) {
  const std::optional<Contraction> c = find_contraction(ir);
  if (!c || !ir.node(c->a).computes("cast") || !ir.node(c->b).computes("cast")) return 1;
  const DType dtype = ir.node(ir.node(c->a).inputs[0]).dtype;
  const int64_t depth = about(ir.var(c->folded.back()).size);
  double gain = 1;
  for (const TileIntrinsic& tile : machine.tiles) {
    const bool is_whole = tile.m == 1 || depth % tile.k == 0;
    if (tile.a != dtype || tile.b != dtype || !is_whole) continue;
    const double used = static_cast<double>(depth) / static_cast<double>(divided_up(depth, tile.k) * tile.k);
    gain = std::max(gain, used * static_cast<double>(tile.m == 1 ? tile.k : tile.m));
  }
  return gain;
}

std::optional<Contraction> find_convolution(const IR& ir) {
  std::optional<Contraction> found = find_contraction(ir);
  if (!found || found->rows.empty() || !is_image(ir, found->b) || !has_pixels(ir, *found)) return {};
  return found;
}

}  // namespace

std::optional<LoopTree> schedule_convolution(const IR& kernel, const Machine& machine) {
  IR ir = initial_schedule(kernel);
  const double gain = gain_of_narrow_products(ir, machine);
  if (std::optional<IR> wide = with_wide_image(ir)) ir = initial_schedule(*std::move(wide));
  std::optional<Contraction> found = find_convolution(ir);
  if (!found || !ConvolutionScheduler(ir, *found, machine).is_better_across(gain)) return {};
  if (std::optional<IR> bordered = with_border(ir, found->b)) {
    ir = initial_schedule(*std::move(bordered));
    found = find_convolution(ir);
    check(found.has_value(), "a border must leave kernel {} a convolution", ir.name());
  }
  const auto* view = ir.node(found->b).as<View>();
  if (!view->pieces[0].where.empty()) return {};
  return ConvolutionScheduler(std::move(ir), *std::move(found), machine).run();
}

}  // namespace tenon
