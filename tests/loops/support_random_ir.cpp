#include "tests/loops/support_random_ir.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::test {
namespace {

using loops::Expr;
using loops::IR;
using loops::Node;
using loops::NodeRef;
using loops::Piece;
using loops::Scalar;
using loops::Scatter;
using loops::Symbol;
using loops::VarRef;
using loops::View;

constexpr double kReadBound = 3;
constexpr double kLargestValue = 1 << 20;  // exact in f32

// Of variables and kernels.
struct Limits {
  std::vector<int64_t> sizes;
  int64_t node_iterations;
  int64_t iterations;  // without the writes
};
const Limits kSmall = {{1, 2, 3, 4, 5, 6, 7}, 343, 3500};
const Limits kAroundVectors = {{1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 20, 31, 33, 40}, 9000, 60000};

using Vars = std::vector<VarRef>;

class Generator {
 public:
  Generator(uint64_t seed, const Limits& limits) : random_(seed), limits_(limits), ir_("random") {}

  IR run() {
    for (int i = 2 + below(2); i > 0; --i) base_.push_back(var(pick(limits_.sizes)));
    for (int i = 1 + below(3); i > 0; --i) add_read(pick({DType::kF32, DType::kI64, DType::kI32}), some(base_));
    for (int i = 3 + below(9); i > 0; --i) add_step();
    const int writes = 1 + below(3);
    for (int i = 0; i < writes; ++i) {
      const NodeRef input = i == 0 ? usable_.back() : any();
      ir_.add_write(input, shuffled(ir_.node(input).vars), chance(0.5) ? fmt::format("out{}", i) : "");
    }
    return std::move(ir_);
  }

 private:
  // ---- chance ----
  int below(int64_t limit) { return std::uniform_int_distribution<int>(0, static_cast<int>(limit) - 1)(random_); }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }
  template <class T>
  const T& pick(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(below(static_cast<int64_t>(choices.size())))];
  }
  Vars shuffled(Vars vars) {
    std::ranges::shuffle(vars, random_);
    return vars;
  }
  Vars some(Vars vars) {
    vars = shuffled(std::move(vars));
    vars.resize(static_cast<size_t>(below(static_cast<int64_t>(vars.size()) + 1)));
    return vars;
  }

  // ---- what there is ----
  NodeRef any() { return pick(usable_); }
  const Vars& vars_of(NodeRef ref) const { return ir_.node(ref).vars; }
  DType dtype_of(NodeRef ref) const { return ir_.node(ref).dtype; }
  double& bound(NodeRef ref) { return bounds_[ref.id]; }
  int64_t size(VarRef var) const { return ir_.var(var).size.constant(); }
  Expr symbol(VarRef var) const { return ir_.var(var).symbol(); }
  VarRef var(int64_t size) { return ir_.add_var(fmt::format("{}{}", pick({"i", "j", "k"}), ir_.vars().size()), size); }

  template <class Matches>
  std::optional<NodeRef> one(const Matches& matches) {
    std::vector<NodeRef> found;
    std::ranges::copy_if(usable_, std::back_inserter(found), matches);
    if (found.empty()) return {};
    return pick(found);
  }
  NodeRef partner_of(NodeRef x) {  // x itself, if there is no other
    return *one([&](NodeRef y) { return dtype_of(y) == dtype_of(x); });
  }
  std::string name(std::string_view word) {
    return chance(0.5) ? fmt::format("{}.{}", word, ir_.nodes().size()) : std::string();
  }

  // ---- one step: a few nodes, or none where they would be too much ----
  void add_step() {
    const IR before = ir_;
    const auto usable_before = usable_;
    using Step = void (Generator::*)();
    constexpr Step kSteps[] = {&Generator::add_unary,  &Generator::add_binary, &Generator::add_binary,
                               &Generator::add_select, &Generator::add_leaf,   &Generator::add_reduce,
                               &Generator::add_reduce, &Generator::add_scan,   &Generator::add_reindexed,
                               &Generator::add_concat, &Generator::add_flat,   &Generator::add_split,
                               &Generator::add_gather, &Generator::add_window, &Generator::add_scatter};
    (this->*kSteps[below(std::size(kSteps))])();
    int64_t total = 0;
    bool fits = true;
    for (NodeRef ref : ir_.order()) {
      total += iterations(ir_, ref);
      fits = fits && iterations(ir_, ref) <= limits_.node_iterations && bound(ref) <= kLargestValue;
    }
    if (fits && total <= limits_.iterations) return;
    ir_ = before;
    usable_ = usable_before;
  }

  NodeRef keep(NodeRef ref, double bound) {
    bounds_[ref.id] = bound;
    if (dtype_of(ref) != DType::kBool) usable_.push_back(ref);
    return ref;
  }

  NodeRef compute(std::string_view op, std::vector<NodeRef> inputs, double bound, std::optional<DType> dtype = {}) {
    Vars vars;
    for (NodeRef input : inputs) {
      for (VarRef var : vars_of(input)) {
        if (std::ranges::find(vars, var) == vars.end()) vars.push_back(var);
      }
    }
    return keep(ir_.add_compute(op_named(op), std::move(inputs), shuffled(std::move(vars)), dtype, name(op)), bound);
  }

  NodeRef view(View view, Vars vars, std::string_view word) {
    double largest = 1;  // of the fill
    for (const Piece& piece : view.pieces) largest = std::max(largest, bound(piece.input));
    return keep(ir_.add_view(std::move(view), shuffled(std::move(vars)), name(word)), largest);
  }

  NodeRef add_read(DType dtype, Vars vars) {
    return keep(ir_.add_read(dtype, std::move(vars), name("in")), kReadBound);
  }

  void add_leaf() {
    if (chance(0.5)) {
      const DType dtype = pick({DType::kF32, DType::kI64, DType::kI32});
      keep(ir_.add_constant(dtype, number(dtype, below(7) - 3), name("c")), kReadBound);
      return;
    }
    Expr value = below(5) - 2;
    const Vars vars = some(base_);
    for (VarRef var : vars) value += (below(5) - 2) * symbol(var);
    keep(ir_.add_index(value, vars, name("index")),
         2 + 2 * static_cast<double>(limits_.sizes.back() * std::ssize(vars)));
  }

  static Scalar number(DType dtype, int64_t value) {
    return is_float(dtype) ? Scalar(static_cast<double>(value)) : Scalar(value);
  }

  void add_unary() {
    const NodeRef x = any();
    if (chance(0.4)) {
      compute("cast", {x}, bound(x), pick({DType::kF32, DType::kI64, DType::kI32}));
    } else {
      compute(pick({"neg", "abs"}), {x}, bound(x));
    }
  }

  void add_binary() {
    const NodeRef x = any(), y = partner_of(x);
    const double sum = bound(x) + bound(y), product = bound(x) * bound(y);
    const std::string_view op = pick({"add", "mul", "sub", "maximum"});
    compute(op, {x, y}, op == "mul" ? product : sum);
  }

  void add_select() {
    const NodeRef x = any(), y = partner_of(x);
    const NodeRef condition = compute("lt", {x, y}, 1);
    const NodeRef a = any(), b = partner_of(a);
    compute("where", {condition, a, b}, std::max(bound(a), bound(b)));
  }

  void add_reduce() {
    const auto x = one([&](NodeRef ref) { return !vars_of(ref).empty(); });
    if (!x) return;
    Vars kept = shuffled(vars_of(*x));
    kept.resize(static_cast<size_t>(below(static_cast<int64_t>(kept.size()))));
    int64_t folded = 1;
    for (VarRef var : vars_of(*x)) folded *= std::ranges::find(kept, var) == kept.end() ? size(var) : 1;
    keep(ir_.add_reduce(op_named(pick({"add", "maximum"})), *x, std::move(kept), name("fold")),
         bound(*x) * static_cast<double>(folded));
  }

  void add_scan() {
    const auto x = one([&](NodeRef ref) { return !vars_of(ref).empty(); });
    if (!x) return;
    const VarRef along = pick(vars_of(*x));
    keep(ir_.add_scan(op_named(pick({"add", "maximum"})), *x, along, shuffled(vars_of(*x)), name("scan")),
         bound(*x) * static_cast<double>(size(along)));
  }

  // ---- views: of a node at its own index, but for one of its variables ----
  Piece piece_of(NodeRef input, VarRef replaced, const Expr& by) const {
    Piece piece{input, {}, {}};
    for (VarRef var : vars_of(input)) piece.index.push_back(var == replaced ? by : symbol(var));
    return piece;
  }

  Vars with(Vars vars, VarRef replaced, const Vars& by) const {
    std::erase(vars, replaced);
    for (VarRef var : by) {
      if (std::ranges::find(vars, var) == vars.end()) vars.push_back(var);
    }
    return vars;
  }

  struct Picked {
    NodeRef node;
    VarRef var;
  };
  std::optional<Picked> pick_var() {
    const auto x = one([&](NodeRef ref) { return !vars_of(ref).empty(); });
    if (!x) return {};
    return Picked{*x, pick(vars_of(*x))};
  }

  Scalar fill(NodeRef input) { return number(dtype_of(input), chance(0.5) ? 0 : below(3) - 1); }

  NodeRef sliced(NodeRef x, VarRef v) {
    const int64_t start = below(size(v)), step = 1 + below(3);
    const VarRef o = var((size(v) - start + step - 1) / step);
    return view({{piece_of(x, v, step * symbol(o) + start)}, fill(x), {}}, with(vars_of(x), v, {o}), "slice");
  }

  void add_reindexed() {
    const auto picked = pick_var();
    if (!picked) return;
    const NodeRef x = picked->node;
    const VarRef v = picked->var;
    if (chance(0.4)) {
      sliced(x, v);
      return;
    }
    if (chance(0.4)) {
      const VarRef o = var(size(v));
      view({{piece_of(x, v, size(v) - 1 - symbol(o))}, fill(x), {}}, with(vars_of(x), v, {o}), "flip");
      return;
    }
    const int64_t before = below(3), after = below(3);
    const VarRef o = var(size(v) + before + after);
    Piece piece = piece_of(x, v, symbol(o) - before);
    piece.where.push_back({symbol(o) - before, size(v)});
    view({{std::move(piece)}, fill(x), {}}, with(vars_of(x), v, {o}), "pad");
  }

  void add_concat() {
    const auto picked = pick_var();
    if (!picked) return;
    const NodeRef x = picked->node;
    const VarRef v = picked->var;
    const auto fits = [&](NodeRef y) {
      const auto in_x = [&](VarRef var) { return ir_.node(x).has(var); };
      return dtype_of(y) == dtype_of(x) && ir_.node(y).has(v) && std::ranges::all_of(vars_of(y), in_x);
    };
    const NodeRef y = *one(fits);
    const VarRef o = var(2 * size(v));
    Piece first = piece_of(x, v, symbol(o)), second = piece_of(y, v, symbol(o) - size(v));
    first.where.push_back({symbol(o), size(v)});
    second.where.push_back({symbol(o) - size(v), size(v)});
    view({{std::move(first), std::move(second)}, fill(x), {}}, with(vars_of(x), v, {o}), "concat");
  }

  void add_flat() {
    const auto x = one([&](NodeRef ref) { return vars_of(ref).size() >= 2; });
    if (!x) return;
    const Vars two = shuffled(vars_of(*x));
    const VarRef o = var(size(two[0]) * size(two[1]));
    Piece piece{*x, {}, {}};
    for (VarRef v : vars_of(*x)) {
      const Expr inner = v == two[1] ? mod(symbol(o), size(two[1])) : symbol(v);
      piece.index.push_back(v == two[0] ? floordiv(symbol(o), size(two[1])) : inner);
    }
    view({{std::move(piece)}, fill(*x), {}}, with(with(vars_of(*x), two[0], {o}), two[1], {}), "flat");
  }

  void add_split() {
    const auto picked = pick_var();
    if (!picked) return;
    const NodeRef x = picked->node;
    const VarRef v = picked->var;
    int64_t inner = 1 + below(size(v));
    while (size(v) % inner != 0) --inner;
    const VarRef i = var(size(v) / inner), j = var(inner);
    view({{piece_of(x, v, inner * symbol(i) + symbol(j))}, fill(x), {}}, with(vars_of(x), v, {i, j}), "split");
  }

  void add_window() {
    const auto picked = pick_var();
    if (!picked) return;
    const NodeRef x = picked->node;
    const VarRef v = picked->var;
    const VarRef o = var(1 + below(size(v))), k = var(1 + below(3));
    const Expr at = (1 + below(2)) * symbol(o) + symbol(k) - below(2);
    Piece piece = piece_of(x, v, at);
    piece.where.push_back({at, size(v)});
    view({{std::move(piece)}, fill(x), {}}, with(vars_of(x), v, {o, k}), "window");
  }

  // Integers made into indices of a dimension.
  NodeRef indices_below(NodeRef integers, int64_t limit) {
    const NodeRef count = ir_.add_constant(dtype_of(integers), limit);
    return compute("remainder", {integers, count}, static_cast<double>(limit));
  }

  void add_gather() {
    const auto picked = pick_var();
    if (!picked) return;
    const NodeRef x = picked->node;
    const VarRef v = picked->var;
    const auto found = one([&](NodeRef ref) { return is_integral(dtype_of(ref)); });
    const NodeRef integers = found && chance(0.7) ? *found : add_read(pick({DType::kI64, DType::kI32}), some(base_));
    const NodeRef indices = indices_below(integers, size(v));
    const Symbol row(fmt::format("r{}", ir_.nodes().size()));
    view({{piece_of(x, v, row)}, fill(x), {{row, indices, size(v)}}}, with(vars_of(x), v, vars_of(indices)), "gather");
  }

  void add_scatter() {
    const auto picked = pick_var();
    if (!picked) return;
    const NodeRef x = picked->node;
    const VarRef v = picked->var;
    const NodeRef values = sliced(x, v);
    Vars sources = vars_of(values);
    std::erase_if(sources, [&](VarRef var) { return ir_.node(x).has(var); });
    const VarRef j = sources[0];
    const OpDef* op = pick({static_cast<const OpDef*>(nullptr), &op_named("add"), &op_named("maximum")});
    Scatter scatter{op, {}, {}, {}};
    Expr at = 2 * symbol(j) + below(3) - 1;
    if (chance(0.5)) {
      const NodeRef indices = indices_below(add_read(pick({DType::kI64, DType::kI32}), {j}), size(v));
      const Symbol row(fmt::format("r{}", ir_.nodes().size()));
      scatter.lookups.push_back({row, indices, size(v)});
      at = row;
    } else {
      scatter.where.push_back({at, size(v)});
    }
    for (VarRef var : vars_of(x)) scatter.index.push_back(var == v ? at : symbol(var));
    const double count = static_cast<double>(size(j));
    keep(ir_.add_scatter(std::move(scatter), x, values, vars_of(x), name("scatter")), bound(x) + count * bound(values));
  }

  Random random_;
  const Limits& limits_;
  IR ir_;
  Vars base_;
  std::vector<NodeRef> usable_;
  std::map<uint32_t, double> bounds_;  // of the values, by node
};

}  // namespace

IR random_ir(uint64_t seed) { return Generator(seed, kSmall).run(); }

IR random_ir_around_vectors(uint64_t seed) { return Generator(seed, kAroundVectors).run(); }

std::vector<Tensor> inputs_for(const IR& ir, uint64_t seed) {
  Random random(seed);
  std::uniform_int_distribution<int64_t> values(-3, 3);
  std::vector<Tensor> inputs;
  for (NodeRef read : ir.reads()) {
    Tensor tensor = Tensor::zeros(ir.node(read).dtype, evaluate(ir.type(read).shape, {}));
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      is_float(tensor.dtype()) ? tensor.set_real(i, static_cast<double>(values(random)))
                               : tensor.set_integer(i, values(random));
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

int64_t iterations(const IR& ir, NodeRef node) {
  int64_t count = 1;
  for (VarRef var : ir.iteration_vars(node)) count *= ir.var(var).size.constant();
  return count;
}

}  // namespace tenon::test
