#include "runtime/portable/sized_kernel.h"

#include <algorithm>
#include <bit>
#include <map>

#include "runtime/checked.h"
#include "runtime/elements.h"

namespace tenon::runtime::portable {
namespace {

int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// A sum of multiples of numbers, sorted.
struct Sum {
  int64_t constant = 0;
  std::vector<SumTerm> terms = {};

  bool is_constant() const { return terms.empty(); }
};

Sum operator+(const Sum& a, const Sum& b) {
  Sum sum{wrapping_add(a.constant, b.constant)};
  auto x = a.terms.begin();
  auto y = b.terms.begin();
  while (x != a.terms.end() || y != b.terms.end()) {
    if (y == b.terms.end() || (x != a.terms.end() && x->symbol < y->symbol)) {
      sum.terms.push_back(*x++);
    } else if (x == a.terms.end() || y->symbol < x->symbol) {
      sum.terms.push_back(*y++);
    } else {
      const int64_t factor = wrapping_add(x->factor, y->factor);
      if (factor != 0) sum.terms.push_back({x->symbol, factor});
      ++x, ++y;
    }
  }
  return sum;
}

Sum operator*(Sum sum, int64_t factor) {
  sum.constant = wrapping_mul(sum.constant, factor);
  for (SumTerm& term : sum.terms) term.factor = wrapping_mul(term.factor, factor);
  std::erase_if(sum.terms, [](const SumTerm& term) { return term.factor == 0; });
  return sum;
}

// Two derived numbers with equal keys are the same.
using Key = std::vector<int64_t>;

void append(Key& key, const Sum& sum) {
  key.push_back(sum.constant);
  key.push_back(static_cast<int64_t>(sum.terms.size()));
  for (const SumTerm& term : sum.terms) key.insert(key.end(), {term.symbol, term.factor});
}

class Sizer {
 public:
  Sizer(const Tables& tables, SizedKernel& kernel) : tables_(tables), kernel_(kernel), about_(tables.symbol_count) {}

  void run() {
    for (const Expr& size : tables_.variables) kernel_.extents.push_back(number(size));
    kernel_.loops.resize(tables_.loops.size());
    kernel_.steps.resize(tables_.steps.size());
    kernel_.roots = size_children(0, static_cast<uint32_t>(tables_.steps.size()));
    for (const Buffer& buffer : tables_.buffers) kernel_.buffers.push_back(size_buffer(buffer));
    kernel_.argument_count = tables_.argument_count();
    kernel_.number_count = about_.size();
  }

 private:
  static constexpr uint32_t kStepLevel = ~0u;

  // What is known about a symbol in scope.
  struct About {
    uint32_t level = 0;  // the number of loops around it; kStepLevel: it depends on a lookup
    uint32_t row = kNone;
  };

  using Known = std::map<Key, uint32_t>;
  struct Open {
    uint32_t loop;
    Known known;  // the numbers derived there
  };

  // ---- the tree ----

  std::vector<Child> size_children(uint32_t step, uint32_t end) {
    std::vector<Child> children;
    while (step < end) {
      if (next_loop_ < tables_.loops.size() && tables_.loops[next_loop_].steps().first() == step) {
        const uint32_t loop = next_loop_++;
        children.push_back({true, loop});
        size_loop(loop);
        step = end_of(tables_.loops[loop].steps());
      } else {
        children.push_back({false, step});
        size_step(step++);
      }
    }
    return children;
  }

  void size_loop(uint32_t index) {
    const Loop& loop = tables_.loops[index];
    SizedLoop& sized = kernel_.loops[index];
    sized.counter = loop.counter();
    sized.variable = loop.variable();
    sized.step = loop.step();
    sized.order = loop.order();
    path_.push_back({index, {}});
    about_[loop.counter()] = {static_cast<uint32_t>(path_.size()), kNone};
    parallel_.push_back(outermost_parallel());
    const uint32_t end = end_of(loop.steps());
    const bool innermost = next_loop_ == tables_.loops.size() || tables_.loops[next_loop_].steps().first() >= end;
    if (innermost) {
      strip_ = index;
      rows_ = 0;
    }
    sized.children = size_children(loop.steps().first(), end);
    if (innermost) sized.strip = may_run_in_strips(loop.steps()) ? kStrip : 1;
    strip_ = kNone;
    path_.pop_back();
  }

  uint32_t outermost_parallel() const {
    const auto found =
        std::ranges::find(path_, Order::Parallel, [&](const Open& open) { return kernel_.loops[open.loop].order; });
    return found == path_.end() ? kNone : found->loop;
  }

  uint32_t new_row() {
    kernel_.row_count = std::max<size_t>(kernel_.row_count, ++rows_);
    return rows_ - 1;
  }

  // ---- expressions ----

  int64_t number(const Expr& expr) const { return evaluate(expr, tables_.code, kernel_.sizes); }

  Sum sum_of(const Expr& expr) {
    std::vector<Sum> stack;
    for (const Instruction& instruction : tables_.code.subspan(expr.first(), expr.count())) {
      if (instruction.op() == ExprOp::Constant) {
        stack.push_back({instruction.value()});
      } else if (instruction.op() == ExprOp::Symbol) {
        stack.push_back(symbol(static_cast<uint32_t>(instruction.value())));
      } else {
        const Sum b = std::move(stack.back());
        stack.pop_back();
        stack.back() = combine(instruction.op(), stack.back(), b);
      }
    }
    return std::move(stack.back());
  }

  Sum symbol(uint32_t symbol) const {
    if (symbol < kernel_.sizes.size()) return {kernel_.sizes[symbol]};
    return {0, {{symbol, 1}}};
  }

  Sum combine(ExprOp op, const Sum& a, const Sum& b) {
    if (op == ExprOp::Add) return a + b;
    if (op == ExprOp::Mul && b.is_constant()) return a * b.constant;
    if (op == ExprOp::Mul && a.is_constant()) return b * a.constant;
    if (a.is_constant() && b.is_constant()) return {apply(op, a.constant, b.constant)};
    return {0, {{derive(op, a, b), 1}}};
  }

  // Makes the number op(a, b), or finds an equal one.
  uint32_t derive(ExprOp op, const Sum& a, const Sum& b) {
    Key key = {static_cast<int64_t>(op)};
    append(key, a);
    append(key, b);
    const uint32_t level = std::max(level_of(a), level_of(b));
    Known& known = level == kStepLevel ? of_step_ : path_[level - 1].known;
    const auto [found, is_new] = known.emplace(std::move(key), static_cast<uint32_t>(about_.size()));
    if (!is_new) return found->second;
    const bool is_row = level == kStepLevel || path_[level - 1].loop == strip_;
    about_.push_back({level, is_row ? new_row() : kNone});
    auto& list = level == kStepLevel ? kernel_.steps[step_].derived : kernel_.loops[path_[level - 1].loop].derived;
    list.push_back({op, position(a), position(b), found->second, about_.back().row});
    return found->second;
  }

  uint32_t level_of(const Sum& sum) const {
    uint32_t level = 0;
    for (const SumTerm& term : sum.terms) level = std::max(level, about_[term.symbol].level);
    return level;
  }

  Position position(const Sum& sum) const {
    Position result{.constant = sum.constant};
    for (const SumTerm& term : sum.terms) {
      const uint32_t row = about_[term.symbol].row;
      if (row != kNone) {
        result.rows.push_back({row, term.factor});
        continue;
      }
      result.numbers.push_back(term);
      if (strip_ == kNone || term.symbol != kernel_.loops[strip_].counter) continue;
      result.stride = kernel_.loops[strip_].backwards() ? wrapping_mul(term.factor, -1) : term.factor;
    }
    return result;
  }

  Position position(const Expr& expr) { return position(sum_of(expr)); }

  // ---- steps ----

  void size_step(uint32_t index) {
    const Step& step = tables_.steps[index];
    SizedStep& sized = kernel_.steps[index];
    step_ = index;
    of_step_.clear();
    if (strip_ == kNone) rows_ = 0;
    sized.action = step.action();
    sized.node = step.node();
    sized.out = step.out();
    sized.row = kNone;
    const bool has_op = sized.action != Action::Move && sized.action != Action::Bitcast;
    sized.op = has_op ? tables_.ops[step.op()] : nullptr;
    size_lookups(sized, part(tables_.lookups, step.lookups()));
    sized.where = guards(step.where());
    sized.at = position(step.at());
    sized.carry = sized.action == Action::Scan ? step.carry() : kNone;
    if (sized.carry != kNone) sized.carry_at = position(step.carry_at());
    for (const Source& each : part(tables_.sources, step.sources())) sized.sources.push_back(source(each));
  }

  void size_lookups(SizedStep& sized, std::span<const Lookup> lookups) {
    for (const Lookup& lookup : lookups) {
      sized.lookups.push_back({new_row(), number(lookup.bound()), source(tables_.sources[lookup.source()])});
    }
    for (size_t i = 0; i < lookups.size(); ++i) about_[lookups[i].symbol()] = {kStepLevel, sized.lookups[i].row};
  }

  std::vector<SizedGuard> guards(const Range& range) {
    std::vector<SizedGuard> result;
    for (const Guard& guard : part(tables_.guards, range)) {
      result.push_back({position(guard.value()), number(guard.bound())});
    }
    return result;
  }

  SizedSource source(const Source& source) {
    SizedSource sized{.kind = source.kind(), .dtype = dtype_of(source.dtype()), .buffer = kNone, .row = kNone};
    sized.where = guards(source.where());
    if (source.kind() == SourceKind::Constant) {
      const int64_t bits = tables_.constants[source.item()];
      sized.integer = bits;
      sized.real = is_float(sized.dtype) ? std::bit_cast<double>(bits) : static_cast<double>(bits);
    } else {
      sized.at = position(source.at());
    }
    if (source.kind() == SourceKind::Element) sized.buffer = source.item();
    return sized;
  }

  // ---- strips ----

  // Whether each step may run for many iterations before the next step. Other steps may read what a step writes only
  // later, and only at the same position: each iteration has an element of its own, or the element becomes a row.
  bool may_run_in_strips(const Range& range) {
    const std::span<SizedStep> steps = std::span(kernel_.steps).subspan(range.first(), range.count());
    std::map<size_t, size_t> writers;  // by buffer
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!writers.emplace(steps[i].out, i).second) return false;
      if (steps[i].carry != kNone && !writers.emplace(steps[i].carry, i).second) return false;
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto is_later = [&](SizedSource& source) {
        const auto writer = writers.find(source.buffer);
        if (writer == writers.end()) return true;
        return writer->second < i && follows(source, steps[writer->second]);
      };
      if (!std::ranges::all_of(steps[i].sources, is_later)) return false;
      for (SizedLookup& lookup : steps[i].lookups) {
        if (!is_later(lookup.source)) return false;
      }
    }
    return true;
  }

  bool follows(SizedSource& source, SizedStep& writer) {
    if (source.buffer != writer.out || !(source.at == writer.at) || !source.at.rows.empty()) return false;
    if (source.at.stride != 0) return true;
    const bool folds = writer.action == Action::Fold || writer.action == Action::Scan;
    if (folds || !writer.where.empty() || source.buffer < tables_.argument_count()) return false;
    if (writer.row == kNone) writer.row = new_row();
    source.row = writer.row;
    return true;
  }

  // ---- memory ----

  SizedBuffer size_buffer(const Buffer& buffer) const {
    const bool is_argument = kernel_.buffers.size() < tables_.argument_count();
    int64_t elements = number(buffer.elements());
    checked_mul(elements, size_of(dtype_of(buffer.dtype())));
    if (elements < 0 && is_argument) {
      fail(TENON_INVALID_ARGUMENT, "%", tables_.nodes[buffer.node()], " has ", elements, " elements");
    }
    elements = std::max<int64_t>(elements, 0);  // scratch of a loop with a negative size
    return {dtype_of(buffer.dtype()), buffer.node(), elements,
            buffer.loop() == kNone ? kNone : parallel_[buffer.loop()]};
  }

  const Tables& tables_;
  SizedKernel& kernel_;
  std::vector<About> about_;        // by symbol, then by derived number
  std::vector<Open> path_;          // the loops around
  std::vector<uint32_t> parallel_;  // by loop: the outermost parallel loop around it, including itself
  Known of_step_;
  uint32_t step_ = 0;
  uint32_t strip_ = kNone;  // the innermost loop, while in its body
  uint32_t rows_ = 0;       // the rows used so far in this strip
  uint32_t next_loop_ = 0;
};

}  // namespace

int64_t apply(ExprOp op, int64_t a, int64_t b) {
  switch (op) {
    case ExprOp::Add:
      return wrapping_add(a, b);
    case ExprOp::Mul:
      return wrapping_mul(a, b);
    case ExprOp::FloorDiv:
      if (b == 0) return 0;
      return b == -1 ? wrapping_mul(a, -1) : checked_floordiv(a, b);
    case ExprOp::Mod:
      return b == 0 ? 0 : checked_mod(a, b);
    default:
      return runtime::apply(op, a, b);
  }
}

SizedKernel::SizedKernel(const Tables& tables, std::span<const int64_t> given) : sizes(given.begin(), given.end()) {
  Sizer(tables, *this).run();
}

}  // namespace tenon::runtime::portable
