// Convolutions with several output channels: sums of products of weights and windows of an image.
//
// Results are contiguous along a row of pixels, but 7 or 14 pixels fill no vector. So lanes are output channels. The
// weights of a block of channels are packed. Each pixel is read from its place in the image and broadcast to all lanes.
// The image is not packed; it only gets a border if the convolution pads it. Where windows of one pixel skip pixels,
// those that they read are copied. A block is transposed in registers when it is written.
//
//     for c                                      the image with its border
//       %x_border[c, p, q] = view %x[...]
//     for m by 32 parallel                       a block of channels
//       for y, x by 14                           and pixels
//         for c, i, j                            out[m, y, x] += x_border[c, y + i, x + j] * w[m, c, i, j]
//           for x unroll, m by 16 unroll, m vectorize
//         for m by 16 unroll, m unroll, x vectorize     bias, activation, ..., write
//
// Some machines have an instruction that multiplies groups of narrow numbers (two bf16, four bytes) and adds them up.
// Then a group is of input channels, and the innermost loops are that instruction. The image is copied once, so that
// the channels of a group are neighbours:
//
//     for c by 2, p, q tile "interleave", c      %x_border[c, p, q] = view %x[...]
//     for m by 32 parallel
//       for y, x by 14
//         for c by 2, i, j
//           for x unroll, m by 16 unroll, m tile "dpbf16", c
//
// On other machines a narrow image is widened once, before the blocks; narrow weights are packed as they are, and each
// step widens the vectors that it loads.
//
// Instructions for tiles of rows and columns gain more: tiled_convolution.cpp. If pixels fill vectors better than
// channels do, or if an instruction for narrow products gains more, matmul.cpp schedules the convolution.
#include <algorithm>

#include "loops/schedule.h"
#include "schedule/border.h"
#include "schedule/contraction.h"
#include "schedule/default_schedule.h"
#include "schedule/strided_image.h"
#include "schedule/tiled_convolution.h"
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

// Whether an element of the image is in several windows.
bool has_overlapping_windows(const IR& ir, const Contraction& c) {
  return std::ranges::any_of(ir.node(c.b).as<View>()->pieces[0].index, [&](const Expr& index) {
    const auto moves = [&](VarRef var) { return depends_on(index, ir.var(var).symbol()); };
    return std::ranges::count_if(ir.node(c.b).vars, moves) > 1;
  });
}

// A convolution by an instruction for groups of input channels.
struct GroupedChannels {
  const TileIntrinsic* dot;  // the instruction
  NodeRef image;             // the copy of the image in which the channels of a group are neighbours
  VarRef image_channel;      // the variable of the copy
  VarRef channel;            // the folded variable
  bool has_window;           // The product reads a view of the copy. Otherwise it reads the copy.
};

struct Convolution {
  Contraction c;
  std::optional<GroupedChannels> groups = {};
  std::vector<NodeRef> widened = {};  // casts that the innermost loops do
};

class ConvolutionScheduler {
 public:
  ConvolutionScheduler(IR ir, Convolution found, const Machine& machine)
      : ir_(std::move(ir)),
        c_(std::move(found.c)),
        machine_(machine),
        groups_(found.groups),
        widened_(std::move(found.widened)) {
    channel_ = c_.rows.back();
    pixel_ = c_.columns.back();
    lanes_ = machine.lanes(ir_.node(c_.sum).dtype);
    tile_ = pick_tile(lanes_, machine, [&](const RegisterTile& tile) { return cost_across(tile); });
    copies_image_ = groups_ && !groups_->has_window;
  }

  // `gain` is how many products of the other schedule take the time of one product in f32.
  bool is_better_across(double gain) const { return cost() < cost_along() / gain; }

  // What this schedule takes, in vector multiply-adds for each step of the folded variables.
  double cost() const { return cost_across(tile_) / products_per_step(); }

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
  double steps() const { return static_cast<double>(about(ir_, c_.folded)) / products_per_step(); }

  // Products that one instruction adds up. The last group may be a part of one.
  double products_per_step() const {
    if (!groups_) return 1;
    const int64_t depth = size(groups_->channel);
    return static_cast<double>(depth) / static_cast<double>(divided_up(depth, groups_->dot->k));
  }

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
  // outside of images, so that weights are read from memory once. Otherwise one image at a time stays in the cache.
  LoopSpecs outer() const {
    LoopSpecs loops = loops_over(c_.batch);
    Vars channels(c_.rows.begin(), c_.rows.end() - 1), pixels(c_.columns.begin(), c_.columns.end() - 1);
    Vars images = pixels;
    const bool are_few = about(ir_, c_.columns) <= about(ir_, c_.rows);
    const auto is_outside = [&](VarRef var) { return !are_few && reads_all_weights(var); };
    std::erase_if(images, [&](VarRef var) { return !is_outside(var); });
    std::erase_if(pixels, is_outside);
    loops = joined(std::move(loops), joined(loops_over(images), loops_over(channels)));
    loops.push_back({.var = channel_, .step = tile_.columns});
    loops = joined(std::move(loops), loops_over(pixels));
    loops.push_back({.var = pixel_, .step = tile_.rows});
    return loops;
  }

  // Whether all weights are read for each element of the variable: it numbers images, or rows of an image whose windows
  // are one pixel, and the weights stay in the cache.
  bool reads_all_weights(VarRef var) const {
    bool is_behind_channels = false;
    for (const Expr& index : ir_.node(c_.b).as<View>()->pieces[0].index) {
      if (index == Expr(ir_.var(var).symbol())) return !is_behind_channels || (!copies_image_ && are_weights_cached());
      is_behind_channels |=
          std::ranges::any_of(c_.folded, [&](VarRef folded) { return depends_on(index, ir_.var(folded).symbol()); });
    }
    return false;
  }

  bool are_weights_cached() const {
    return about(ir_, c_.rows) * about(ir_, c_.folded) <= machine_.l2_bytes / 2 / size_of(ir_.node(c_.a).dtype);
  }

  LoopSpecs lanes_of_channel(const Annotation& vectors, const Annotation& lanes) const {
    LoopSpecs loops;
    if (tile_.columns > lanes_) loops.push_back({.var = channel_, .step = lanes_, .annotation = vectors});
    loops.push_back({.var = channel_, .annotation = lanes});
    return loops;
  }

  LoopSpecs block() const {
    const LoopSpec pixels{.var = pixel_, .annotation = {Mark::kUnroll}};
    if (!groups_) return joined({pixels}, lanes_of_channel({Mark::kUnroll}, {Mark::kVectorize}));
    const LoopSpecs lanes = lanes_of_channel({Mark::kUnroll}, {Mark::kTile, groups_->dot->name});
    return joined(joined({pixels}, lanes), {{.var = groups_->channel}});
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
      if (is_in(core(), ref)) continue;
      const Node& node = ir_.node(ref);
      LoopSpecs loops;
      const bool is_whole = around[0].step == 1;  // a block of pixels does not contain an image
      if (is_whole && node.has(around[0].var) && is_in(c_.columns, around[0].var)) loops.push_back(around[0]);
      const bool is_shared = !loops.empty();
      for (VarRef var : node.vars) {
        if (!is_shared || var != around[0].var) loops.push_back({.var = var});
      }
      if (loops.empty()) continue;
      if (!is_shared) share_first_long(loops);
      if (groups_ && ref == groups_->image) {
        interleave(loops);
      } else if (loops.back().annotation.mark == Mark::kNone) {
        loops.back().annotation.mark = Mark::kVectorize;
      }
      ir_.set_loops(ref, std::move(loops));
    }
  }

  // Makes the channels of a group neighbours. Pixels are lanes.
  void interleave(LoopSpecs& loops) const {
    const VarRef channel = groups_->image_channel;
    const auto own = std::ranges::find(loops, channel, &LoopSpec::var);
    own->step = groups_->dot->k;
    const auto first =
        loops.begin() + (loops.front().annotation.mark == Mark::kParallel && own != loops.begin() ? 1 : 0);
    std::rotate(first, own, own + 1);
    const VarRef pixel = loops.back().var;
    if (pixel != channel) {
      const bool is_parallel = loops.back().annotation.mark == Mark::kParallel;
      if (is_parallel || !ir_.var(pixel).size.is_constant() || size(pixel) > lanes_) loops.back().step = lanes_;
      if (loops.back().step == 1) loops.pop_back();
      loops.push_back({.var = pixel, .annotation = {Mark::kTile, "interleave"}});
    }
    loops.push_back({.var = channel});
  }

  // Shares the first loop of several iterations between threads, unless its iterations are lanes or an instruction.
  void share_first_long(LoopSpecs& loops) const {
    const auto found = std::ranges::find_if(loops, [&](const LoopSpec& loop) { return size(loop.var) > loop.step; });
    LoopSpec& loop = found == loops.end() ? loops.front() : *found;
    if (loop.annotation.mark == Mark::kNone) loop.annotation.mark = Mark::kParallel;
  }

  // Loops over folded variables, in the blocks in which weights are packed.
  LoopSpecs folded() const {
    LoopSpecs loops = loops_over(c_.folded);
    if (groups_) {
      const auto channel = std::ranges::find(loops, groups_->channel, &LoopSpec::var);
      channel->step = groups_->dot->k;
      std::rotate(loops.begin(), channel, channel + 1);
      return loops;
    }
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
    if (!groups_ && is_narrow(c_.a)) take_narrow_weights();
    if (groups_ ? !is_own_view(c_.a) : c_.makes_a.empty()) pack_weights();
    LoopSpecs loops = loops_over(c_.batch);
    loops = joined(std::move(loops), loops_over({c_.rows.begin(), c_.rows.end() - 1}));
    loops.push_back({.var = channel_, .step = tile_.columns});
    if (around[0].var == channel_) std::rotate(loops.begin(), loops.end() - 1, loops.end());
    const bool is_shared = around[0].var == loops[0].var;
    if (is_shared) loops[0].annotation = around[0].annotation;
    LoopSpecs steps = folded(), lanes = lanes_of_channel({}, {Mark::kVectorize});
    if (groups_) {
      lanes.back().annotation = {Mark::kTile, "interleave"};
      lanes.push_back({.var = groups_->channel});
    } else if (size(c_.folded.back()) <= machine_.transposed_side || steps.size() > c_.folded.size()) {
      lanes.insert(lanes.end() - 1, {.var = c_.folded.back(), .annotation = {Mark::kUnroll}});
      steps.pop_back();
    }
    loops = joined(std::move(loops), joined(std::move(steps), lanes));
    if (!is_shared) share_first_long(loops);
    for (NodeRef ref : c_.makes_a) ir_.set_loops(ref, loops_it_has(ir_, ref, loops));
  }

  bool is_own_view(NodeRef weights) const { return is_image(ir_, weights) && c_.makes_a.contains(weights); }

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
    c_.makes_a.insert(packed);
  }

  // ---- the order ----

  // The nodes of the innermost loops.
  std::vector<NodeRef> core() const {
    std::vector<NodeRef> nodes = widened_;
    if (!copies_image_) nodes.insert(groups_ ? nodes.begin() : nodes.end(), c_.b);
    nodes.insert(nodes.end(), {c_.product, c_.sum});
    return nodes;
  }

  void set_order(const LoopSpecs& around) {
    std::vector<NodeRef> core;
    const auto add = [&](auto wanted) { std::ranges::copy_if(ir_.order(), std::back_inserter(core), wanted); };
    const auto is_image = [&](NodeRef ref) { return c_.makes_b.contains(ref) && !is_in(this->core(), ref); };
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
  std::optional<GroupedChannels> groups_;
  std::vector<NodeRef> widened_;  // casts in the innermost loops: of narrow weights, and with groups of windows
  VarRef channel_;
  VarRef pixel_;
  int64_t lanes_ = 1;
  RegisterTile tile_{};
  bool copies_image_ = false;  // The product reads a copy of the image, in place of windows.
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

std::optional<Convolution> find_convolution(const IR& ir) {
  std::optional<Contraction> found = find_contraction(ir);
  if (!found || found->rows.empty() || !is_image(ir, found->b) || !has_pixels(ir, *found)) return {};
  return Convolution{*std::move(found)};
}

// ---- groups of input channels ----

// The convolution with the operands of the casts as operands: `b` is the window, `a` the weights.
std::optional<Convolution> find_narrow_convolution(const IR& ir) {
  std::optional<NarrowContraction> narrow = find_narrow_contraction(ir);
  if (!narrow || !is_image(ir, narrow->c.b) || !has_pixels(ir, narrow->c)) return {};
  return Convolution{.c = std::move(narrow->c), .widened = std::move(narrow->casts)};
}

const TileIntrinsic* dot_of(const IR& ir, const Contraction& c, const Machine& machine) {
  const auto multiplies = [&](const TileIntrinsic& tile) {
    return tile.m == 1 && tile.a == ir.node(c.a).dtype && tile.b == ir.node(c.b).dtype &&
           tile.c == ir.node(c.sum).dtype;
  };
  const auto found = std::ranges::find_if(machine.tiles, multiplies);
  return found == machine.tiles.end() ? nullptr : &*found;
}

// The dimension of the view's input that is a folded variable, and no more: input channels. -1 if there is none.
int64_t channel_dim(const IR& ir, const Contraction& c) {
  const std::vector<Expr>& index = ir.node(c.b).as<View>()->pieces[0].index;
  for (size_t i = 0; i < index.size(); ++i) {
    for (VarRef var : c.folded) {
      if (index[i] == Expr(ir.var(var).symbol()) && about(ir.var(var).size) > 1) return static_cast<int64_t>(i);
    }
  }
  return -1;
}

// The reader gets a copy of its input.
IR with_copy(IR ir, NodeRef input, NodeRef reader, const std::string& name) {
  const NodeRef copy = ir.add_copy(input, ir.node(input).vars, ir.unused_node_name(name));
  std::vector<NodeRef> order = ir.order();
  order.pop_back();
  order.insert(std::ranges::find(order, reader), copy);
  ir.set_order(std::move(order));
  ir.set_input(reader, input, copy);
  return ir;
}

IR with_copied_image(const IR& ir, NodeRef view) {
  return with_copy(ir, ir.node(view).as<View>()->pieces[0].input, view, ir.node(view).name + "_image");
}

// Windows of one pixel in a batch of images are the batch itself. Reads it through a view, as other windows are read.
IR with_windows_of_one_pixel(const IR& ir) {
  const std::optional<Contraction> c = find_contraction(ir);
  if (!c || c->rows.empty() || c->columns.size() < 2) return ir;
  const bool is_cast = ir.node(c->b).computes("cast");
  const NodeRef images = is_cast ? ir.node(c->b).inputs[0] : c->b;
  if (!ir.node(images).as<Read>()) return ir;
  return initial_schedule(with_copy(ir, images, is_cast ? c->b : c->product, ir.node(images).name + "_window"));
}

// The kernel with a copy of the image for groups of channels. Empty if no instruction multiplies groups.
std::optional<std::pair<IR, Convolution>> with_groups(IR ir, const Machine& machine) {
  std::optional<Convolution> found = find_narrow_convolution(ir);
  const TileIntrinsic* const dot = found ? dot_of(ir, found->c, machine) : nullptr;
  if (!dot || channel_dim(ir, found->c) < 0) return {};
  const bool is_guarded = !ir.node(found->c.b).as<View>()->pieces[0].where.empty();
  const bool has_window = is_guarded || has_overlapping_windows(ir, found->c);
  if (has_window) {
    std::optional<IR> copied = is_guarded ? with_border(ir, found->c.b) : with_copied_image(ir, found->c.b);
    if (!copied) return {};
    ir = initial_schedule(*std::move(copied));
    found = find_narrow_convolution(ir);
    check(found.has_value(), "a copy of the image must leave kernel {} a convolution", ir.name());
  }
  const auto dim = static_cast<size_t>(channel_dim(ir, found->c));
  const Piece& piece = ir.node(found->c.b).as<View>()->pieces[0];
  if (!piece.where.empty()) return {};
  const VarRef channel = *ir.var_named(to_string(piece.index[dim]));
  const NodeRef image = has_window ? piece.input : found->c.b;
  const VarRef image_channel = has_window ? ir.node(image).vars[dim] : channel;
  found->groups = {dot, image, image_channel, channel, has_window};
  return std::pair(std::move(ir), *std::move(found));
}

}  // namespace

std::optional<LoopTree> schedule_convolution(const IR& kernel, const Machine& machine) {
  IR ir = with_windows_of_one_pixel(initial_schedule(kernel));
  const double gain = gain_of_narrow_products(ir, machine);
  const std::optional<IR> windows = with_narrow_windows(ir);
  const IR narrow = windows ? initial_schedule(*windows) : ir;
  if (std::optional<LoopTree> tiled = schedule_tiled_convolution(narrow, machine)) return tiled;
  std::optional<std::pair<IR, Convolution>> groups = with_groups(narrow, machine);
  if (const std::optional<IR> is_unsigned = groups ? std::nullopt : with_unsigned_windows(narrow))
    groups = with_groups(initial_schedule(*is_unsigned), machine);
  if (groups) {
    ConvolutionScheduler scheduler(std::move(groups->first), std::move(groups->second), machine);
    if (scheduler.is_better_across(gain)) return scheduler.run();
  }
  if (std::optional<IR> wide = with_wide_image(ir)) ir = initial_schedule(*std::move(wide));
  std::optional<Convolution> found = find_convolution(ir);
  if (!found || !ConvolutionScheduler(ir, *found, machine).is_better_across(gain)) return {};
  if (std::optional<IR> bordered = with_border(ir, found->c.b)) {
    ir = initial_schedule(*std::move(bordered));
    found = find_convolution(ir);
    check(found.has_value(), "a border must leave kernel {} a convolution", ir.name());
  } else if (std::optional<IR> dense = with_dense_image(ir, found->c.b)) {
    ir = initial_schedule(*std::move(dense));
    found = find_convolution(ir);
    check(found.has_value(), "a dense image must leave kernel {} a convolution", ir.name());
  }
  const auto* view = ir.node(found->c.b).as<View>();
  if (!view->pieces[0].where.empty()) return {};
  return ConvolutionScheduler(std::move(ir), *std::move(found), machine).run();
}

}  // namespace tenon
