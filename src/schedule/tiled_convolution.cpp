// Convolutions by tiles: rows are output channels, columns are pixels, and each tap of the window adds up channels.
//
// The image is copied once, with its border, so that the channels of a group are neighbours. A tile of columns is then
// a part of a row of the copy, at each tap another one. Weights are packed in the order in which tiles read them:
//
//     for p parallel
//       for c by 2, q by 16, q tile "interleave", c         %x_tiles[p, c, q] = view %x[...]
//     for m by 32 parallel
//       for y, x by 32
//         for c by 32, i, j                                 out[m, y, x] += w_tiles[m, c, i, j] * x_tiles[y+i, c, x+j]
//           for m by 16 unroll, x by 16 unroll, m tile "amx-bf16", c by 2, x, c
//         for m, x by 16 unroll, x vectorize                bias, activation, ..., write
//
// The rows of a small image fill no tile. Then the columns are all pixels of the copy, one row after the other, with
// the pixels of the border between rows; these are never read:
//
//     for m by 32 parallel
//       for n by 32                                         sum[m, n] += w_tiles[m, c, i, j] * x_tiles[c, n + 9*i + j]
//       for m, y, x                                         reads sum[m, 9*y + x]
//
// If windows move by s pixels, the copy has s phases of rows and of columns: one for each remainder. If there are few
// channels, the rows of a window count as channels; and if windows then move by whole groups of pixels, a group is of
// taps, which are neighbours in the image already: r, x, s in place of c, x, c.
#include "schedule/tiled_convolution.h"

#include <algorithm>

#include "loops/schedule.h"
#include "schedule/contraction.h"

namespace tenon {

using namespace loops;

namespace {

constexpr double kLeastUse =
    0.15;  // The part of the products of tiles that must be wanted. Products of vectors take 1/8.
// The time of a column of one row. It takes a pass over the sums more, but its blocks have two tiles side by side.
constexpr double kOneRow = 0.9;

int64_t rounded_up(int64_t x, int64_t to) { return divided_up(x, to) * to; }

// A dimension of the image along which windows lie: pixel * stride + tap * dilation + offset.
struct Axis {
  size_t dim;
  VarRef pixel = {};  // empty: one
  VarRef tap = {};    // empty: one
  int64_t pixels = 1;
  int64_t taps = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t offset = 0;

  bool is_plain() const { return taps == 1 && stride == 1 && offset == 0; }
  int64_t phases() const { return std::min(stride, dilation * (taps - 1) + 1); }
  int64_t reach() const { return dilation * (taps - 1) / stride; }  // pixels of a phase after the window's first
};

struct TiledConvolution {
  NarrowContraction narrow;
  const TileIntrinsic* tile;
  VarRef row;  // output channels
  VarRef channel;
  size_t channel_dim;
  std::vector<Axis> batch;
  std::optional<Axis> y;
  Axis x;
};

// ---- what is what ---------------------------------------------------------------------------------------------------

class Finder {
 public:
  Finder(const IR& ir, const Machine& machine) : ir_(ir), machine_(machine) {}

  std::optional<TiledConvolution> run() {
    std::optional<NarrowContraction> narrow = find_narrow_contraction(ir_);
    if (!narrow || narrow->c.rows.size() != 1 || !narrow->c.batch.empty()) return {};
    c_ = &narrow->c;
    const auto* view = ir_.node(c_->b).as<View>();
    if (!view || !view->only_piece() || view->fill != zero_of(ir_.node(c_->b).dtype)) return {};
    const TileIntrinsic* const tile = find_tile();
    if (!tile || !has_plain_guards(view->pieces[0]) || !find_axes(view->pieces[0]) || !covers_all()) return {};
    TiledConvolution found{.tile = tile, .row = c_->rows[0], .channel = channel_, .channel_dim = channel_dim_};
    found.x = axes_.back();
    axes_.pop_back();
    if (!axes_.empty()) found.y = axes_.back();
    if (!axes_.empty()) axes_.pop_back();
    if (!std::ranges::all_of(axes_, &Axis::is_plain)) return {};
    for (VarRef pixel : {found.x.pixel, found.y ? found.y->pixel : VarRef()}) {
      if (pixel && !ir_.var(pixel).size.is_constant()) return {};
    }
    // Images of an unknown number are copied one by one: they are the outermost loop.
    for (size_t i = 1; i < axes_.size(); ++i) {
      if (!ir_.var(axes_[i].pixel).size.is_constant()) return {};
    }
    found.batch = std::move(axes_);
    found.narrow = *std::move(narrow);
    return found;
  }

 private:
  const TileIntrinsic* find_tile() const {
    const auto multiplies = [&](const TileIntrinsic& each) {
      return each.m > 1 && each.a == ir_.node(c_->a).dtype && each.b == ir_.node(c_->b).dtype &&
             each.c == ir_.node(c_->sum).dtype;
    };
    const auto found = std::ranges::find_if(machine_.tiles, multiplies);
    return found == machine_.tiles.end() ? nullptr : &*found;
  }

  // Whether guards say no more than that an element of the image exists.
  bool has_plain_guards(const Piece& piece) const {
    return std::ranges::all_of(piece.where, [&](const Constraint& guard) {
      const auto dim = std::ranges::find(piece.index, guard.expr) - piece.index.begin();
      return dim < std::ssize(piece.index) &&
             ir_.var(ir_.node(piece.input).vars[static_cast<size_t>(dim)]).size == guard.bound;
    });
  }

  bool find_axes(const Piece& piece) {
    for (size_t dim = 0; dim < piece.index.size(); ++dim) {
      const Expr& index = piece.index[dim];
      Vars pixels, taps;
      for (VarRef var : ir_.node(c_->b).vars) {
        if (!depends_on(index, ir_.var(var).symbol())) continue;
        const bool is_tap = is_in(c_->folded, var);
        if (is_tap && !ir_.var(var).size.is_constant()) return false;
        (is_tap ? taps : pixels).push_back(var);
      }
      if (pixels.empty() && taps.empty()) {
        if (!index.is_constant()) return false;
      } else if (!channel_ && pixels.empty() && taps.size() == 1 && index == Expr(ir_.var(taps[0]).symbol())) {
        channel_ = taps[0];
        channel_dim_ = dim;
      } else if (!add_axis(dim, index, pixels, taps)) {
        return false;
      }
    }
    return channel_ && !axes_.empty();
  }

  bool add_axis(size_t dim, const Expr& index, const Vars& pixels, const Vars& taps) {
    if (pixels.size() > 1 || taps.size() > 1) return false;
    Axis axis{.dim = dim};
    Expr offset = index;
    const auto take = [&](VarRef var, int64_t& count, int64_t& step) {
      const Symbol symbol = ir_.var(var).symbol();
      const Result<Expr> slope = differentiate(index, symbol);
      if (!slope.ok() || !slope->is_constant() || slope->constant() < 1) return false;
      count = about(ir_.var(var).size);
      step = slope->constant();
      offset = substitute(offset, {{symbol, Expr(0)}});
      return true;
    };
    if (!pixels.empty() && !take(axis.pixel = pixels[0], axis.pixels, axis.stride)) return false;
    if (!taps.empty() && !take(axis.tap = taps[0], axis.taps, axis.dilation)) return false;
    if (!offset.is_constant()) return false;
    axis.offset = offset.constant();
    axes_.push_back(axis);
    return true;
  }

  // Whether each variable of the sum, and each that it folds, is one of those that were found.
  bool covers_all() const {
    const auto is_known = [&](VarRef var) {
      const auto is_of = [&](const Axis& axis) { return axis.pixel == var || axis.tap == var; };
      return var == channel_ || var == c_->rows[0] || std::ranges::any_of(axes_, is_of);
    };
    return std::ranges::all_of(ir_.iteration_vars(c_->sum), is_known) && ir_.var(c_->rows[0]).size.is_constant();
  }

  const IR& ir_;
  const Machine& machine_;
  const Contraction* c_ = nullptr;
  VarRef channel_ = {};
  size_t channel_dim_ = 0;
  std::vector<Axis> axes_ = {};
};

// ---- the schedule ---------------------------------------------------------------------------------------------------

class TiledConvolutionScheduler {
 public:
  TiledConvolutionScheduler(IR ir, TiledConvolution found, const Machine& machine)
      : ir_(std::move(ir)),
        f_(std::move(found)),
        c_(f_.narrow.c),
        machine_(machine),
        m_(f_.tile->m),
        k_(f_.tile->k),
        rows_(size(f_.row)),
        channels_(size(f_.channel)) {
    if (f_.y && f_.y->taps > 1 && 2 * channels_ <= k_) merge_rows_of_window();
    has_groups_of_taps_ = merged_ && f_.x.taps > 1 && f_.x.stride % group() == 0 && f_.x.dilation == 1;
    depth_ = rounded_up(channels_, has_groups_of_taps_ ? m_ : k_);
    pitch_ = f_.x.pixels + (has_groups_of_taps_ ? (groups_of_taps() - 1) / groups_of_pixel() : f_.x.reach());
    is_one_row_ = f_.y && !has_groups_of_taps_ && pitch_ <= m_ &&
                  kOneRow * static_cast<double>(columns()) < static_cast<double>(row_columns());
  }

  bool is_worth() const {
    if (!has_groups_of_taps_ && f_.x.stride > machine_.most_strided_step) return false;
    const double wanted = static_cast<double>(rows_ * channels_ * pixels());
    const double done = static_cast<double>(rounded_up(rows_, m_) * depth_ * (is_one_row_ ? columns() : row_columns()));
    return wanted / done >= kLeastUse;
  }

  LoopTree run() {
    choose_blocks();
    make_image();
    make_weights();
    make_product();
    replace_sum();
    set_loops();
    for (const std::string& name : replaced_) {
      if (const auto ref = ir_.node_named(name); ref && ir_.consumers(*ref).empty()) ir_ = ir_.without(*ref);
    }
    return LoopTree(std::move(ir_));
  }

 private:
  // ---- sizes ----

  int64_t size(VarRef var) const { return ir_.var(var).size.constant(); }
  int64_t lines() const { return f_.y ? f_.y->pixels : 1; }
  int64_t pixels() const { return lines() * f_.x.pixels; }
  int64_t columns() const { return rounded_up(lines() * pitch_, 2 * m_); }
  int64_t row_columns() const { return lines() * rounded_up(f_.x.pixels, m_); }
  int64_t group() const { return k_ / m_; }
  int64_t groups_of_taps() const { return divided_up(f_.x.taps, group()); }
  int64_t groups_of_pixel() const { return f_.x.stride / group(); }  // by which a window moves

  // The rows of the window count as channels: c + channels * i.
  void merge_rows_of_window() {
    plain_channels_ = channels_;
    merged_ = *f_.y;
    channels_ *= merged_->taps;
    f_.y->tap = {};
    f_.y->taps = 1;
  }

  Expr symbol(VarRef var) const { return Expr(ir_.var(var).symbol()); }

  // Whether the number of images is known when the program runs.
  bool has_unknown_number() const { return !f_.batch.empty() && !ir_.var(f_.batch[0].pixel).size.is_constant(); }

  // Two tiles of rows, or one if there are few rows or if threads would wait.
  void choose_blocks() {
    const auto busy = [&](int64_t rows) { return machine_.busy_share(divided_up(rows_, rows)); };
    const bool may_halve = is_one_row_ && f_.batch.empty() && busy(m_) > 1.5 * busy(2 * m_);
    block_rows_ = rows_ > m_ && !may_halve ? 2 * m_ : m_;
  }

  // ---- nodes ----

  VarRef new_var(const std::string& name, int64_t size) { return ir_.add_var(unused_var_name(ir_, name), size); }

  void make_image() {
    const Piece source = ir_.node(c_.b).as<View>()->pieces[0];
    depth_var_ = new_var("r", depth_);
    Piece piece = source;
    piece.where.clear();
    const auto in_image = [&](size_t dim) {
      const Constraint exists{piece.index[dim], ir_.var(ir_.node(source.input).vars[dim]).size};
      if (!provably_within(exists.expr, exists.bound, ir_)) piece.where.push_back(exists);
    };
    Vars vars;
    for (const Axis& axis : f_.batch) vars.push_back(axis.pixel);
    if (depth_ > channels_) piece.where.push_back({symbol(depth_var_), channels_});
    piece.index[f_.channel_dim] = merged_ ? mod(symbol(depth_var_), plain_channels_) : symbol(depth_var_);
    if (f_.y) {
      line_ = new_var("p", lines_of_copy());
      if (f_.y->phases() > 1) line_phase_ = new_var("a", f_.y->phases());
      Expr index = symbol(line_) * f_.y->stride + f_.y->offset;
      if (line_phase_) index += symbol(line_phase_);
      if (merged_) index += floordiv(symbol(depth_var_), plain_channels_) * merged_->dilation;
      piece.index[f_.y->dim] = index;
      in_image(f_.y->dim);
    }
    column_ = new_var("q", pitch_);
    const int64_t phases = has_groups_of_taps_ ? groups_of_pixel() : f_.x.phases();
    if (phases > 1) column_phase_ = new_var("b", phases);
    if (has_groups_of_taps_) step_ = new_var("s", group());
    Expr index = symbol(column_) * f_.x.stride + f_.x.offset;
    if (column_phase_) index += symbol(column_phase_) * (has_groups_of_taps_ ? group() : 1);
    if (step_) index += symbol(step_);
    piece.index[f_.x.dim] = index;
    in_image(f_.x.dim);
    for (VarRef var : {line_, line_phase_, depth_var_, column_phase_, column_, step_}) {
      if (var) vars.push_back(var);
    }
    if (merged_ || depth_ > channels_) in_image(f_.channel_dim);
    image_ = ir_.add_view({{piece}, zero_of(ir_.node(c_.b).dtype), {}}, vars, name_like(c_.b, "_tiles"));
  }

  // With a line more than windows reach: tiles read past the columns of the last one.
  int64_t lines_of_copy() const {
    if (!is_one_row_) return lines() + f_.y->reach() + 1;
    return divided_up(columns() + f_.y->reach() * pitch_ + f_.x.reach(), pitch_);
  }

  std::string name_like(NodeRef ref, std::string_view suffix) const {
    return ir_.unused_node_name(ir_.node(ref).name + std::string(suffix));
  }

  void make_weights() {
    if (has_groups_of_taps_) tap_group_ = new_var("g", groups_of_taps());
    Piece piece{.input = c_.a};
    for (VarRef var : ir_.node(c_.a).vars) {
      const bool is_merged = merged_ && var == merged_->tap;
      piece.index.push_back(is_merged           ? floordiv(symbol(depth_var_), plain_channels_)
                            : var == f_.x.tap   ? tap_of_window()
                            : var != f_.channel ? symbol(var)
                            : merged_           ? mod(symbol(depth_var_), plain_channels_)
                                                : symbol(depth_var_));
    }
    if (depth_ > channels_) piece.where.push_back({symbol(depth_var_), channels_});
    for (size_t dim = 0; merged_ && dim < piece.index.size(); ++dim) {
      const Constraint exists{piece.index[dim], ir_.var(ir_.node(c_.a).vars[dim]).size};
      if (!provably_within(exists.expr, exists.bound, ir_)) piece.where.push_back(exists);
    }
    Vars vars = {f_.row, depth_var_};
    for (VarRef tap : taps()) vars.push_back(tap);
    if (step_) vars.push_back(step_);
    weights_ = ir_.add_view({{piece}, zero_of(ir_.node(c_.a).dtype), {}}, vars, name_like(c_.a, "_tiles"));
  }

  // The tap of the weights along a row.
  Expr tap_of_window() const {
    return has_groups_of_taps_ ? symbol(tap_group_) * group() + symbol(step_) : symbol(f_.x.tap);
  }

  // Folded variables but channels and steps.
  Vars taps() const {
    Vars vars;
    if (f_.y && f_.y->tap) vars.push_back(f_.y->tap);
    if (f_.x.tap) vars.push_back(has_groups_of_taps_ ? tap_group_ : f_.x.tap);
    return vars;
  }

  // The window at the tap, in the copy of the image.
  NodeRef make_window(const Vars& vars) {
    const auto shift = [&](const Axis& axis) {
      if (has_groups_of_taps_ && &axis == &f_.x) return floordiv(symbol(tap_group_), groups_of_pixel());
      return axis.tap ? floordiv(symbol(axis.tap) * axis.dilation, axis.stride) : Expr(0);
    };
    const auto phase = [&](const Axis& axis) {
      if (has_groups_of_taps_ && &axis == &f_.x) return mod(symbol(tap_group_), groups_of_pixel());
      return axis.tap ? mod(symbol(axis.tap) * axis.dilation, axis.stride) : Expr(0);
    };
    const auto pixel = [&](const Axis& axis) { return axis.pixel ? symbol(axis.pixel) : Expr(0); };
    Piece piece{.input = image_};
    for (const Axis& axis : f_.batch) piece.index.push_back(pixel(axis));
    Expr line, column = shift(f_.x);
    if (is_one_row_) {
      const Expr at = symbol(one_row_) + shift(*f_.y) * pitch_ + column;
      line = floordiv(at, pitch_);
      column = mod(at, pitch_);
    } else {
      if (f_.y) line = pixel(*f_.y) + shift(*f_.y);
      column += pixel(f_.x);
    }
    if (line_) piece.index.push_back(line);
    if (line_phase_) piece.index.push_back(phase(*f_.y));
    piece.index.push_back(symbol(depth_var_));
    if (column_phase_) piece.index.push_back(phase(f_.x));
    piece.index.push_back(column);
    if (step_) piece.index.push_back(symbol(step_));
    return ir_.add_view({{piece}, zero_of(ir_.node(image_).dtype), {}}, vars, name_like(c_.b, "_window"));
  }

  void make_product() {
    const DType wide = ir_.node(c_.sum).dtype;
    Vars kept, folded = {depth_var_};
    for (VarRef var : ir_.node(c_.sum).vars) {
      const bool is_joined = is_one_row_ && (var == f_.y->pixel || var == f_.x.pixel);
      if (!is_joined) kept.push_back(var);
    }
    if (is_one_row_) kept.push_back(one_row_ = new_var("n", columns()));
    for (VarRef tap : taps()) folded.push_back(tap);
    if (step_) folded.push_back(step_);
    Vars window, all = kept;
    std::ranges::copy_if(kept, std::back_inserter(window), [&](VarRef var) { return var != f_.row; });
    window.insert(window.end(), folded.begin(), folded.end());
    all.insert(all.end(), folded.begin(), folded.end());
    const NodeRef read = make_window(window);
    const NodeRef a = ir_.add_compute(op_named("cast"), {weights_}, ir_.node(weights_).vars, wide);
    const NodeRef b = ir_.add_compute(op_named("cast"), {read}, window, wide);
    const NodeRef product = ir_.add_compute(op_named("mul"), {a, b}, all);
    sum_ = ir_.add_reduce(op_named("add"), product, kept);
    core_ = {a, read, b, product, sum_};
  }

  // The epilogue reads the new sum. Of sums in one row it reads a copy, in which the columns of a row are contiguous.
  void replace_sum() {
    NodeRef result = sum_;
    if (is_one_row_) {
      row_copy_ = ir_.add_copy(sum_, ir_.node(sum_).vars, name_like(sum_, "_row"));
      Piece piece{.input = row_copy_};
      for (VarRef var : ir_.node(row_copy_).vars) {
        const auto part = [&](VarRef of) { return of ? symbol(of) : Expr(0); };
        piece.index.push_back(var == one_row_ ? part(f_.y->pixel) * pitch_ + part(f_.x.pixel) : symbol(var));
      }
      result = ir_.add_view({{piece}, zero_of(ir_.node(sum_).dtype), {}}, ir_.node(c_.sum).vars);
      c_.epilogue.insert(c_.epilogue.begin(), result);
    }
    for (NodeRef reader : ir_.consumers(c_.sum)) ir_.set_input(reader, c_.sum, result);
    std::vector<NodeRef> old = {c_.sum, c_.product};
    old.insert(old.end(), f_.narrow.casts.begin(), f_.narrow.casts.end());
    old.push_back(c_.b);
    for (NodeRef ref : old) replaced_.push_back(ir_.node(ref).name);
    c_.makes_b.erase(c_.b);
  }

  // ---- loops ----

  // A block of channels goes through all pixels, so that results and residuals are read and written in order; but an
  // image that leaves no room in the L2 cache is read once.
  LoopSpecs outer() const {
    LoopSpecs loops;
    for (const Axis& axis : f_.batch) loops.push_back({.var = axis.pixel});
    const LoopSpec rows{.var = f_.row, .step = block_rows_};
    const int64_t image_bytes = about(ir_, ir_.node(image_).vars) * size_of(ir_.node(image_).dtype);
    const bool is_image_first = !is_one_row_ && 4 * image_bytes > machine_.l2_bytes;
    if (!is_image_first) loops.push_back(rows);
    if (is_one_row_) return loops;
    if (f_.y && f_.y->pixel) loops.push_back({.var = f_.y->pixel});
    if (is_image_first) loops.push_back(rows);
    if (f_.x.pixel) loops.push_back({.var = f_.x.pixel, .step = block_columns()});
    return loops;
  }

  int64_t block_columns() const { return f_.x.pixels > m_ ? 2 * m_ : m_; }
  VarRef pixel() const { return is_one_row_ ? one_row_ : f_.x.pixel; }

  LoopSpecs folded() const {
    LoopSpecs loops = {{.var = depth_var_, .step = step_ ? m_ : k_}};
    return joined(std::move(loops), loops_over(taps()));
  }

  LoopSpecs tiles(const LoopSpecs& around) const {
    LoopSpecs loops = around;
    if (is_one_row_) loops.push_back({.var = one_row_, .step = 2 * m_});
    loops = joined(std::move(loops), folded());
    const auto add = [&](VarRef var, int64_t step, Annotation annotation = {}) {
      loops.push_back({.var = var, .step = step, .annotation = std::move(annotation)});
    };
    if (block_rows_ > m_) add(f_.row, m_, {Mark::kUnroll});
    if (is_one_row_ || block_columns() > m_) add(pixel(), m_, {Mark::kUnroll});
    add(f_.row, 1, {Mark::kTile, f_.tile->name});
    add(depth_var_, step_ ? 1 : group());
    add(pixel(), 1);
    add(step_ ? step_ : depth_var_, 1);
    return loops;
  }

  LoopSpecs image_loops(const LoopSpecs& around) const {
    LoopSpecs loops, first;
    const bool is_shared = !f_.batch.empty() && around[0].var == f_.batch[0].pixel;
    for (const Axis& axis : f_.batch) first.push_back({.var = axis.pixel});
    if (is_shared) first[0] = around[0];
    const LoopSpec groups{.var = depth_var_, .step = step_ ? 1 : group()};
    if (is_one_row_) loops.push_back(groups);
    for (VarRef var : {is_one_row_ ? line_phase_ : line_, is_one_row_ ? column_phase_ : line_phase_}) {
      if (var) loops.push_back({.var = var});
    }
    if (is_one_row_) loops.push_back({.var = line_});
    if (!is_one_row_) loops.push_back(groups);
    if (!is_one_row_ && column_phase_) loops.push_back({.var = column_phase_});
    loops = joined(std::move(first), loops);
    if (!is_shared) loops = with_threads(ir_, std::move(loops), machine_);
    if (pitch_ > m_) loops.push_back({.var = column_, .step = m_});
    loops.push_back({.var = column_, .annotation = {Mark::kTile, "interleave"}});
    loops.push_back({.var = step_ ? step_ : depth_var_});
    return loops;
  }

  LoopSpecs weight_loops() const {
    LoopSpecs loops = {{.var = f_.row, .step = block_rows_, .annotation = {Mark::kParallel}}};
    loops = joined(std::move(loops), folded());
    if (block_rows_ > m_) loops.push_back({.var = f_.row, .step = m_});
    loops.push_back({.var = f_.row});
    if (step_) loops.push_back({.var = depth_var_});
    loops.push_back({.var = step_ ? step_ : depth_var_, .annotation = {Mark::kVectorize}});
    return loops;
  }

  // Rows of the block, and then columns as lanes. Equal for all of the nodes, so that they share loops.
  LoopSpecs written(const LoopSpecs& around, const std::vector<NodeRef>& nodes, VarRef lanes) const {
    LoopSpecs loops = around;
    const auto is_open = [&](VarRef var) {
      return std::ranges::any_of(loops, [&](const LoopSpec& l) { return l.var == var && l.step == 1; });
    };
    for (NodeRef ref : nodes) {
      for (VarRef var : ir_.node(ref).vars) {
        if (!is_open(var) && var != f_.row && var != lanes) loops.push_back({.var = var});
      }
    }
    if (block_rows_ > m_) loops.push_back({.var = f_.row, .step = m_});
    loops.push_back({.var = f_.row});
    if (!lanes) return loops;
    if (is_one_row_ ? lanes == one_row_ : block_columns() > m_)
      loops.push_back({.var = lanes, .step = m_, .annotation = {Mark::kUnroll}});
    loops.push_back({.var = lanes, .annotation = {Mark::kVectorize}});
    return loops;
  }

  // What makes the operands: in parallel, with lanes along the last dimension.
  void set_makers(const std::set<NodeRef>& makers) {
    for (NodeRef ref : makers) {
      LoopSpecs loops = loops_over(ir_.node(ref).vars);
      if (loops.empty()) continue;
      loops.back().annotation = {Mark::kVectorize};
      if (loops.size() > 1) loops.front().annotation = {Mark::kParallel};
      ir_.set_loops(ref, loops_it_has(ir_, ref, std::move(loops)));
    }
  }

  void set_loops() {
    LoopSpecs around = outer();
    if (has_unknown_number()) {
      around[0].annotation.mark = Mark::kParallel;
    } else {
      around = with_threads(ir_, std::move(around), machine_);
    }
    set_makers(c_.makes_a);
    set_makers(c_.makes_b);
    ir_.set_loops(image_, image_loops(around));
    ir_.set_loops(weights_, weight_loops());
    for (NodeRef ref : core_) ir_.set_loops(ref, tiles(around));
    if (row_copy_) ir_.set_loops(row_copy_, written(around, {row_copy_}, one_row_));
    for (NodeRef ref : c_.epilogue) ir_.set_loops(ref, written(around, c_.epilogue, f_.x.pixel));
    std::vector<NodeRef> order;
    const auto add = [&](const std::set<NodeRef>& refs) {
      std::ranges::copy_if(ir_.order(), std::back_inserter(order), [&](NodeRef ref) { return refs.contains(ref); });
    };
    add(c_.makes_b);
    order.push_back(image_);
    add(c_.makes_a);
    order.push_back(weights_);  // right before the blocks, with which they may share a loop
    order.insert(order.end(), core_.begin(), core_.end());
    if (row_copy_) order.push_back(row_copy_);
    order.insert(order.end(), c_.epilogue.begin(), c_.epilogue.end());
    order_around(ir_, order);
  }

  IR ir_;
  TiledConvolution f_;
  Contraction& c_;
  const Machine& machine_;
  int64_t m_;  // rows, columns and groups of a tile
  int64_t k_;  // steps of a tile
  int64_t rows_;
  int64_t channels_;  // with the rows of the window, if they are merged
  int64_t plain_channels_ = 0;
  std::optional<Axis> merged_ = {};  // the axis of these rows
  int64_t depth_ = 0;                // channels of the copies: a multiple of the tile's
  int64_t pitch_ = 0;                // columns of a row of the image's copy
  bool has_groups_of_taps_ = false;  // Steps of a group are taps along a row.
  bool is_one_row_ = false;          // the columns are all pixels of the copy
  int64_t block_rows_ = 0;
  VarRef depth_var_, line_, line_phase_, column_, column_phase_;  // of the copy of the image
  VarRef tap_group_, step_;                                       // of groups of taps
  VarRef one_row_;                                                // its pixels, if they are the columns
  NodeRef image_, weights_, sum_, row_copy_;
  std::vector<NodeRef> core_ = {};          // the nodes of the innermost loops
  std::vector<std::string> replaced_ = {};  // names of nodes that nothing reads any more, readers first
};

}  // namespace

std::optional<LoopTree> schedule_tiled_convolution(const IR& ir, const Machine& machine) {
  std::optional<TiledConvolution> found = Finder(ir, machine).run();
  if (!found) return {};
  TiledConvolutionScheduler scheduler(ir, *std::move(found), machine);
  return scheduler.is_worth() ? std::optional(scheduler.run()) : std::nullopt;
}

}  // namespace tenon
