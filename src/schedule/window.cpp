// Folds of small windows that move over one channel of an image: depthwise convolutions and pooling.
//
// Lanes are pixels of a row. A block of a few rows stays in registers, and the window is unrolled, so that each vector
// of the image is read once for all rows that use it. If the image is padded, one channel at a time is copied with its
// border, and the copy stays in the cache.
//
//     for c parallel
//       for p, q vectorize                       the channel with its border
//         %x_border[c, p, q] = view %x[...]
//       for y by 4, x by 16                      a block
//         for i unroll, j unroll                 out[c, y, x] += x_border[c, y + i, x + j] * w[c, i, j]
//           for y unroll, x vectorize
//         for y unroll, x vectorize              bias, activation, ..., write
//
// Bytes are multiplied by an instruction that adds up groups of four taps of a row, where there is one:
//
//       for y by 4, x by 16
//         for i unroll, j by 4 unroll
//           for y unroll, x tile "dpbusd", j
#include <algorithm>

#include "loops/schedule.h"
#include "schedule/border.h"
#include "schedule/contraction.h"
#include "schedule/default_schedule.h"
#include "schedule/tap_groups.h"
#include "schedule/wide_image.h"

namespace tenon {

using namespace loops;

namespace {

// Code size.
constexpr int64_t kMostBodies = 64;  // Copies of the innermost body, after unrolling the window and the rows.
constexpr int64_t kMostRows = 8;     // Rows of a block.
constexpr int64_t kFewRows = 4;      // A block of fewer rows is worth less than a window that is not unrolled.
constexpr int64_t kLargestWindow = 1 << 10;

struct Window {
  NodeRef fold;
  NodeRef view;
  std::vector<NodeRef> product = {};  // the node that is folded, behind casts; empty if that is the view
  std::vector<NodeRef> epilogue = {};
  Vars folded;
  VarRef pixel;
  VarRef row;                          // empty for windows of one dimension
  const TileIntrinsic* dot = nullptr;  // the instruction that adds up groups of the last folded variable, if one does
};

bool is_window(const IR& ir, NodeRef ref) {
  const auto* view = ir.node(ref).as<View>();
  return view && view->only_piece() && ir.consumers(ref).size() == 1;
}

// The window that a fold reads: `ref`, or an operand of `ref` if that is an elementwise node with no other reader.
NodeRef window_below(const IR& ir, NodeRef ref) {
  if (is_window(ir, ref)) return ref;
  const Node& node = ir.node(ref);
  if (!node.as<loops::Compute>() || ir.consumers(ref).size() != 1) return {};
  const auto found = std::ranges::find_if(node.inputs, [&](NodeRef input) {
    const auto is_smaller = [&](NodeRef other) { return ir.node(other).vars.size() < ir.node(input).vars.size(); };
    return is_window(ir, input) && std::ranges::count_if(node.inputs, is_smaller) + 1 == std::ssize(node.inputs);
  });
  return found == node.inputs.end() ? NodeRef() : *found;
}

// Whether the index along the image's last dimension depends on the pixel and on a folded variable.
bool slides(const IR& ir, NodeRef view, VarRef pixel, const Vars& folded) {
  const std::vector<Expr>& index = ir.node(view).as<View>()->pieces[0].index;
  if (index.empty() || !depends_on(index.back(), ir.var(pixel).symbol())) return false;
  return std::ranges::any_of(folded, [&](VarRef var) { return depends_on(index.back(), ir.var(var).symbol()); });
}

VarRef row_of(const IR& ir, const Window& window) {
  const Vars& vars = ir.node(window.fold).vars;
  const auto pixel = std::ranges::find(vars, window.pixel);
  return pixel == vars.begin() ? VarRef() : *(pixel - 1);
}

// The window with the nodes and variables around its fold. Empty if it does not slide over one channel.
std::optional<Window> with_nodes_around(const IR& ir, Window window) {
  const auto is_known = [&](VarRef var) { return ir.var(var).size.is_constant(); };
  if (!window.view || !std::ranges::all_of(window.folded, is_known)) return {};
  if (about(ir, window.folded) > kLargestWindow) return {};
  window.epilogue = with_operands(ir, window.fold, epilogue_of(ir, window.fold));
  window.pixel = column_of(ir, window.fold, window.epilogue);
  const Vars& kept = ir.node(window.fold).vars;
  const auto has_all = [&](VarRef var) { return ir.node(window.view).has(var); };
  if (!window.pixel || !is_in(kept, window.pixel) || !std::ranges::all_of(kept, has_all)) return {};
  if (!slides(ir, window.view, window.pixel, window.folded)) return {};
  window.row = row_of(ir, window);
  return window;
}

std::optional<Window> find_window(const IR& ir) {
  std::vector<NodeRef> folds;
  for (NodeRef ref : ir.order()) {
    if (ir.node(ref).as<Reduce>()) folds.push_back(ref);
  }
  if (folds.size() != 1) return {};
  const NodeRef input = ir.node(folds[0]).inputs[0];
  Window window{
      .fold = folds[0], .view = window_below(ir, input), .folded = ir.folded_vars(folds[0]), .pixel = {}, .row = {}};
  if (window.view && input != window.view) window.product = {input};
  return with_nodes_around(ir, std::move(window));
}

// The same where an instruction adds up groups of the tap.
std::optional<Window> find_window_of_bytes(const IR& ir, VarRef tap, const TileIntrinsic& dot) {
  const std::optional<ByteWindows> bytes = find_byte_windows(ir);
  if (!bytes) return {};
  Window window{.fold = bytes->sum,
                .view = ir.node(bytes->image_cast).inputs[0],
                .product = {bytes->image_cast, bytes->weight_cast, bytes->product},
                .folded = ir.folded_vars(bytes->sum),
                .pixel = {},
                .row = {},
                .dot = &dot};
  std::erase(window.folded, tap);
  window.folded.push_back(tap);
  return with_nodes_around(ir, std::move(window));
}

class WindowScheduler {
 public:
  WindowScheduler(IR ir, Window window, const Machine& machine)
      : ir_(std::move(ir)), window_(std::move(window)), lanes_(machine.lanes(ir_.node(window_.fold).dtype)) {
    rows_ = window_.row ? pick_rows() : 1;
    around_ = with_threads(ir_, outer(), machine);
  }

  LoopTree run() {
    const LoopSpecs inner = joined(joined(around_, folded()), window_.dot ? groups() : block());
    for (NodeRef ref : core()) ir_.set_loops(ref, inner);
    for (NodeRef ref : window_.epilogue) ir_.set_loops(ref, joined(joined(around_, others()), block()));
    for (NodeRef ref : makers()) make_operand(ref);
    set_order();
    return LoopTree(std::move(ir_));
  }

 private:
  // The most rows that code size allows, preferably a divisor of the height. In a large window only the last variable
  // is unrolled.
  int64_t pick_rows() const {
    const int64_t size = about(ir_.var(window_.row).size);
    int64_t taps = 1;
    for (VarRef var : window_.folded) taps *= steps_over(var);
    const int64_t whole = kMostBodies / taps;
    const int64_t copies = whole >= kFewRows ? whole : kMostBodies / steps_over(window_.folded.back());
    const int64_t most = std::clamp<int64_t>(copies, 1, std::min(kMostRows, size));
    for (int64_t rows = most; 2 * rows > most; --rows) {
      if (size % rows == 0) return rows;
    }
    return most;
  }

  // Taps that one instruction adds up.
  int64_t taps_of_step(VarRef var) const { return window_.dot && var == window_.folded.back() ? window_.dot->k : 1; }
  int64_t steps_over(VarRef var) const { return divided_up(about(ir_.var(var).size), taps_of_step(var)); }

  LoopSpecs folded() const {
    LoopSpecs loops;
    int64_t copies = rows_;
    for (auto var = window_.folded.rbegin(); var != window_.folded.rend(); ++var) {
      copies = std::min(copies, kMostBodies + 1) * steps_over(*var);
      const Annotation annotation{copies <= kMostBodies ? Mark::kUnroll : Mark::kNone};
      loops.insert(loops.begin(), {.var = *var, .step = taps_of_step(*var), .annotation = annotation});
    }
    return loops;
  }

  LoopSpecs outer() const {
    LoopSpecs loops;
    for (VarRef var : ir_.node(window_.fold).vars) {
      if (var != window_.row && var != window_.pixel) loops.push_back({.var = var});
    }
    if (window_.row) loops.push_back({.var = window_.row, .step = rows_});
    loops.push_back({.var = window_.pixel, .step = lanes_});
    return loops;
  }

  LoopSpecs block() const {
    LoopSpecs loops;
    if (window_.row && rows_ > 1) loops.push_back({.var = window_.row, .annotation = {Mark::kUnroll}});
    loops.push_back({.var = window_.pixel, .annotation = {Mark::kVectorize}});
    return loops;
  }

  LoopSpecs groups() const {
    LoopSpecs loops = block();
    loops.back().annotation = {Mark::kTile, window_.dot->name};
    loops.push_back({.var = window_.folded.back()});
    return loops;
  }

  // Loops over variables that only the epilogue has: equal for all of its nodes, so that they share loops.
  LoopSpecs others() const {
    LoopSpecs loops;
    for (NodeRef ref : window_.epilogue) {
      for (VarRef var : ir_.node(ref).vars) {
        const bool is_known = std::ranges::find(loops, var, &LoopSpec::var) != loops.end();
        if (!is_known && !ir_.node(window_.fold).has(var)) loops.push_back({.var = var});
      }
    }
    return loops;
  }

  std::vector<NodeRef> core() const {
    std::vector<NodeRef> nodes = {window_.view};
    nodes.insert(nodes.end(), window_.product.begin(), window_.product.end());
    nodes.push_back(window_.fold);
    return nodes;
  }

  // The nodes that the fold and its epilogue need.
  std::vector<NodeRef> makers() const {
    std::vector<NodeRef> blocks = core();
    blocks.insert(blocks.end(), window_.epilogue.begin(), window_.epilogue.end());
    return needed_by(ir_, blocks);
  }

  // Computes an operand in the outer loops over its variables.
  void make_operand(NodeRef ref) {
    if (!ir_.node(ref).as<View>() && !ir_.node(ref).as<loops::Compute>()) return;
    const Vars& own = ir_.node(ref).vars;
    LoopSpecs loops;
    for (const LoopSpec& loop : around_) {
      if (loop.step != 1 || !is_in(own, loop.var)) break;
      loops.push_back(loop);
    }
    const bool is_alone = loops.empty();
    for (VarRef var : own) {
      if (std::ranges::find(loops, var, &LoopSpec::var) == loops.end()) loops.push_back({.var = var});
    }
    if (loops.empty()) return;
    if (is_alone && loops.size() > 1) loops.front().annotation.mark = Mark::kParallel;
    if (loops.back().annotation.mark == Mark::kNone) loops.back().annotation.mark = Mark::kVectorize;
    ir_.set_loops(ref, std::move(loops));
  }

  void set_order() {
    std::vector<NodeRef> together = makers();
    for (const auto& nodes : {core(), window_.epilogue}) together.insert(together.end(), nodes.begin(), nodes.end());
    order_around(ir_, together);
  }

  IR ir_;
  Window window_;
  int64_t lanes_;
  int64_t rows_ = 1;
  LoopSpecs around_;
};

std::optional<LoopTree> schedule_window_of_bytes(const IR& kernel, const Machine& machine) {
  std::optional<TapGroups> groups = with_tap_groups(kernel, machine);
  if (!groups) return {};
  const auto find = [&] { return find_window_of_bytes(groups->ir, groups->tap, *groups->dot); };
  std::optional<Window> found = find();
  if (!found) return {};
  if (std::optional<IR> bordered = with_border(groups->ir, found->view)) {
    groups->ir = initial_schedule(*std::move(bordered));
    found = find();
    check(found.has_value(), "a border must leave kernel {} a fold of windows", kernel.name());
  }
  if (!groups->ir.node(found->view).as<View>()->pieces[0].where.empty()) return {};
  return WindowScheduler(std::move(groups->ir), *std::move(found), machine).run();
}

}  // namespace

std::optional<LoopTree> schedule_window(const IR& kernel, const Machine& machine) {
  IR ir = initial_schedule(kernel);
  if (std::optional<LoopTree> tree = schedule_window_of_bytes(ir, machine)) return tree;
  if (std::optional<IR> wide = with_wide_image(ir)) ir = initial_schedule(*std::move(wide));
  std::optional<Window> found = find_window(ir);
  if (!found) return {};
  if (std::optional<IR> bordered = with_border(ir, found->view)) {
    ir = initial_schedule(*std::move(bordered));
    found = find_window(ir);
    check(found.has_value(), "a border must leave kernel {} a fold of windows", ir.name());
  }
  if (!ir.node(found->view).as<View>()->pieces[0].where.empty()) return {};
  return WindowScheduler(std::move(ir), *std::move(found), machine).run();
}

}  // namespace tenon
