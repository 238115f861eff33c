#include "backends/moved.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "runtime/thread_pool.h"

namespace tenon {

using namespace loops;

namespace {

// A linear function of variables: a constant and a slope per variable.
struct Affine {
  int64_t constant = 0;
  std::vector<int64_t> slopes = {};

  int64_t at(std::span<const int64_t> index) const {
    int64_t value = constant;
    for (size_t i = 0; i < index.size(); ++i) value += slopes[i] * index[i];
    return value;
  }
};

struct Range {
  Affine value;
  int64_t bound;
};

struct Move {
  Sizes shape;
  Affine position;
  std::vector<Range> where;
};

bool is_zero(const Scalar& value) {
  return std::visit([](auto number) { return number == 0 && !std::signbit(static_cast<double>(number)); }, value);
}

class Reader {
 public:
  explicit Reader(const IR& ir) : ir_(ir) {}

  std::optional<Move> run() {
    if (ir_.reads().size() != 1 || ir_.writes().size() != 1) return {};
    const Node& write = ir_.node(ir_.writes()[0]);
    vars_ = write.vars;
    Move move;
    for (VarRef var : vars_) {
      if (!ir_.var(var).size.is_constant()) return {};
      move.shape.push_back(ir_.var(var).size.constant());
    }
    index_.assign(ir_.vars().size(), 0);
    for (VarRef var : vars_) index_[var.id] = ir_.var(var).symbol();
    NodeRef ref = write.inputs[0];
    for (; !ir_.node(ref).as<Read>(); ref = ir_.node(ref).inputs[0]) {
      if (!follow(ir_.node(ref), move)) return {};
    }
    Expr position = 0;
    for (VarRef var : ir_.node(ref).vars) position = position * ir_.var(var).size + index_[var.id];
    const std::optional<Affine> affine = affine_of(position);
    if (!affine) return {};
    move.position = *affine;
    return move;
  }

 private:
  // Translates the index of a view to the index of its input.
  bool follow(const Node& node, Move& move) {
    const auto* view = node.as<View>();
    if (!view || view->pieces.size() != 1 || !view->lookups.empty() || !is_zero(view->fill)) return false;
    const Piece& piece = view->pieces[0];
    const symbolic::Substitution here = substitution_of(node);
    for (const Constraint& guard : piece.where) {
      const std::optional<Affine> value = affine_of(substitute(guard.expr, here));
      if (!value || !guard.bound.is_constant()) return false;
      move.where.push_back({*value, guard.bound.constant()});
    }
    const std::vector<VarRef>& of_input = ir_.node(piece.input).vars;
    for (size_t i = 0; i < of_input.size(); ++i) index_[of_input[i].id] = substitute(piece.index[i], here);
    return true;
  }

  symbolic::Substitution substitution_of(const Node& node) const {
    symbolic::Substitution substitution;
    for (VarRef var : node.vars) substitution.emplace(ir_.var(var).symbol(), index_[var.id]);
    return substitution;
  }

  std::optional<Affine> affine_of(const Expr& expr) const {
    Affine affine;
    symbolic::Substitution zero;
    for (VarRef var : vars_) {
      const Result<Expr> slope = differentiate(expr, ir_.var(var).symbol());
      if (!slope.ok() || !slope->is_constant()) return {};
      affine.slopes.push_back(slope->constant());
      zero.emplace(ir_.var(var).symbol(), 0);
    }
    const Expr constant = substitute(expr, zero);
    if (!constant.is_constant()) return {};
    affine.constant = constant.constant();
    return affine;
  }

  const IR& ir_;
  std::vector<VarRef> vars_;
  std::vector<Expr> index_;  // index along each variable
};

int64_t divided_up(int64_t x, int64_t y) { return x / y + (x % y > 0 ? 1 : 0); }

// The steps, of `count`, for which 0 <= first + step * slope < bound.
std::pair<int64_t, int64_t> steps_within(int64_t first, int64_t slope, int64_t bound, int64_t count) {
  if (slope == 0) return {0, first >= 0 && first < bound ? count : 0};
  if (slope < 0) return steps_within(bound - 1 - first, -slope, bound, count);
  return {std::clamp<int64_t>(divided_up(-first, slope), 0, count),
          std::clamp<int64_t>(divided_up(bound - first, slope), 0, count)};
}

template <class T>
void copy_strided(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t count) {
  const T* const source = reinterpret_cast<const T*>(from);
  T* const target = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) target[i * to_stride] = source[i * from_stride];
}

void copy_row(int64_t size, const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
              int64_t count) {
  if (size == 1) return copy_strided<uint8_t>(from, from_stride, to, to_stride, count);
  if (size == 2) return copy_strided<uint16_t>(from, from_stride, to, to_stride, count);
  if (size == 4) return copy_strided<uint32_t>(from, from_stride, to, to_stride, count);
  copy_strided<uint64_t>(from, from_stride, to, to_stride, count);
}

// The size of the first variable; 1 if it is also the last.
int64_t blocks_of(const Move& move) { return move.shape.size() > 1 ? move.shape.front() : 1; }

// Calls body(input, output, count) for each row of some blocks of the result, with the positions of its first element
// in both arrays.
template <class Body>
void for_each_row(const Move& move, int64_t first_block, int64_t end_block, Body&& body) {
  const int64_t length = move.shape.back(), stride = move.position.slopes.back();
  Sizes outer(move.shape.begin(), move.shape.end() - 1);
  if (!outer.empty()) outer[0] = end_block - first_block;
  Sizes index(move.shape.size(), 0);
  int64_t row = first_block * element_count(std::span(move.shape).subspan(1));
  for_each_index(outer, [&](std::span<const int64_t> at) {
    std::ranges::copy(at, index.begin());
    if (!outer.empty()) index[0] += first_block;
    int64_t begin = 0, end = length;
    for (const Range& range : move.where) {
      const auto [low, high] = steps_within(range.value.at(index), range.value.slopes.back(), range.bound, length);
      begin = std::max(begin, low);
      end = std::min(end, high);
    }
    if (begin < end) body(move.position.at(index) + begin * stride, row + begin, end - begin);
    row += length;
  });
}

}  // namespace

std::optional<Tensor> moved(const IR& kernel, const Tensor& input) {
  const std::optional<Move> move = Reader(kernel).run();
  if (!move || move->shape.empty()) return {};
  const Tensor source = input.contiguous();
  Tensor output = Tensor::zeros(input.dtype(), move->shape);
  const int64_t size = size_of(input.dtype()), stride = move->position.slopes.back();
  auto copy_blocks = [&](int64_t begin, int64_t end) {
    for_each_row(*move, begin, end, [&](int64_t from, int64_t to, int64_t count) {
      copy_row(size, source.data() + from * size, stride, output.data() + to * size, 1, count);
    });
  };
  using Copy = decltype(copy_blocks);
  const StretchFn stretch = [](void* context, int64_t begin, int64_t end) -> int64_t {
    try {
      (*static_cast<Copy*>(context))(begin, end);
      return 0;
    } catch (const std::bad_alloc&) {
      return 1;
    }
  };
  if (parallel_for(0, blocks_of(*move), stretch, &copy_blocks) != 0) throw std::bad_alloc();
  return output;
}

std::optional<Tensor> moved_back(const IR& kernel, const Tensor& result) {
  const std::optional<Move> move = Reader(kernel).run();
  if (!move || move->shape.empty() || result.shape() != move->shape) return {};
  const TensorType type = kernel.type(kernel.reads()[0]);
  if (!is_static(type.shape) || type.dtype != result.dtype()) return {};
  const Tensor source = result.contiguous();
  Tensor input = Tensor::zeros(type.dtype, evaluate(type.shape, {}));
  const int64_t size = size_of(type.dtype), stride = move->position.slopes.back();
  bool fits = true;
  for_each_row(*move, 0, blocks_of(*move), [&](int64_t to, int64_t from, int64_t count) {
    const int64_t last = to + (count - 1) * stride;
    fits = fits && std::min(to, last) >= 0 && std::max(to, last) < input.numel();
    if (fits) copy_row(size, source.data() + from * size, 1, input.data() + to * size, stride, count);
  });
  return fits ? std::optional(input) : std::nullopt;
}

}  // namespace tenon
