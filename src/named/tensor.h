// Named tensors: arrays over named dimensions, straight to loops. Nothing is computed before it is asked for; then the
// expression is compiled as one kernel, once for all expressions of the same structure, and run.
//
//     named::Symbol m("m"), k("k"), n("n");
//     named::Tensor a({m, k}), b({k, n});
//     named::Tensor c = (a * b).sum(k);
//     a.bind(x), b.bind(y);
//     tenon::Tensor product = c.data();
//
// Dimensions are matched by Symbol, not by position: arithmetic is over the union of the operands' Symbols, the first
// operand's first.
//
// Sizes come from the data. Other sizes are inferred: in X[{2 * o + k}] the size of o follows from the sizes of X and
// k, or the size of X from those of o and k. An index that can be outside of the tensor is an error; at() and pad()
// take a value for outside. Sizes that do not follow stay symbols, and come with the data of a run: see data(feeds).
//
// Dtypes promote as in PyTorch. f16 and bf16 compute in f32, and are rounded after each operation.
//
// Tensors are handles of immutable expressions. Copies share the data of an input, and the schedule and backend of an
// expression. Several threads may call all functions: a run uses the data, schedule and backend at its start, and
// arrays must not change during the run.
//
// Every function throws a tenon::Error for a user's mistake, as early as possible.
#pragma once

#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/tensor.h"
#include "graph/type.h"
#include "loops/loop_tree.h"
#include "named/symbol.h"

namespace tenon::named {

struct Term;
struct RunSettings;
class Operand;
class Coordinate;

// One or several.
struct Symbols : std::vector<Symbol> {
  Symbols() = default;
  Symbols(Symbol symbol) : vector{std::move(symbol)} {}                 // NOLINT(google-explicit-constructor)
  Symbols(std::initializer_list<Symbol> symbols) : vector(symbols) {}   // NOLINT(google-explicit-constructor)
  Symbols(std::vector<Symbol> symbols) : vector(std::move(symbols)) {}  // NOLINT(google-explicit-constructor)
};

class Tensor {
 public:
  // ---- inputs ----
  explicit Tensor(Symbols dims, DType dtype = DType::kF32);
  Tensor(const tenon::Tensor& data, Symbols dims);
  // Gives an input its data, which is not copied; again and again, if need be.
  void bind(tenon::Tensor data) const;

  // ---- what it is ----
  const std::vector<Symbol>& dims() const;
  DType dtype() const;
  Shape shape() const;                    // numbers as far as they are known, over Symbol::size() else
  Expr size(const Symbol& symbol) const;  // also of a Symbol that is folded or indexed inside

  // ---- views ----
  // The elements at some indices, one for each dimension: expressions over Symbols, numbers, or tensors of integers.
  // The Symbols of the indices are the dimensions of the result, in order of appearance (within one expression, of
  // creation). Outside of the tensor is an error: for the elements of an index tensor when it runs.
  Tensor operator[](const std::vector<Coordinate>& index) const;
  Tensor operator[](std::initializer_list<Coordinate> index) const;
  // The same, but `fill` where an index is outside. Sizes are not inferred from it.
  Tensor at(const std::vector<Coordinate>& index, const Operand& fill) const;
  Tensor at(const std::vector<Coordinate>& index) const;  // 0 outside
  Tensor to(const Symbols& dims) const;                   // the same under new Symbols, by position
  Tensor transpose(const Symbols& dims) const;            // the same Symbols in another order
  Tensor with_sizes(const std::vector<std::pair<Symbol, int64_t>>& sizes) const;
  // Several dimensions as one, the last of the list the fastest: {b, a} flattens a[a, b] column by column.
  Tensor flatten(const Symbols& dims, const Symbol& flat) const;
  // The inverse. The two-argument form needs the sizes of all but one part to be known from elsewhere.
  Tensor split(const Symbol& flat, const Symbols& parts) const;
  Tensor split(const Symbol& flat, const Symbols& parts, int64_t innermost) const;
  // Elements before and behind, or less of them where a number is negative. The dimension becomes `padded`, or a new
  // one of the same name: see dims().
  Tensor pad(const Symbol& dim, int64_t low, int64_t high) const;
  Tensor pad(const Symbol& dim, int64_t low, int64_t high, const Operand& fill) const;
  Tensor pad(const Symbol& dim, int64_t low, int64_t high, const Operand& fill, const Symbol& padded) const;

  // ---- reductions: of some dimensions, or of all ----
  Tensor sum(const Symbols& dims = {}) const;   // of integers: as i64
  Tensor prod(const Symbols& dims = {}) const;  // likewise
  Tensor mean(const Symbols& dims = {}) const;  // of integers as f32
  Tensor max(const Symbols& dims = {}) const;
  Tensor min(const Symbols& dims = {}) const;

  Tensor cast(DType dtype) const;

  // ---- compiling and running ----
  tenon::Tensor data() const;
  // The same, with data for inputs of the expression that are not bound (or instead of it). The kernel is compiled for
  // any size of them.
  tenon::Tensor data(const std::vector<std::pair<Tensor, tenon::Tensor>>& feeds) const;
  std::string code() const;  // the kernel's, for people
  // The loops that were set; else plain loops to start from (a run uses the backend's own schedule then).
  loops::IR ir() const;
  loops::LoopTree loop_tree() const;
  // Sets the loops: a tree or IR made from ir() or loop_tree(), in this process or another. The kernel's name is a hash
  // of its computation, and edits and the text form keep it: another name is an error.
  const Tensor& set(const loops::LoopTree& schedule) const;
  const Tensor& set(loops::IR schedule) const;
  const Tensor& reset_schedule() const;           // to the backend's own
  const Tensor& backend(std::string name) const;  // an unknown name is an error that lists those there are

  explicit Tensor(std::shared_ptr<const Term> node);
  const std::shared_ptr<const Term>& node() const { return node_; }

 private:
  std::shared_ptr<const Term> node_;
  std::shared_ptr<RunSettings> settings_;
};

// A tensor or a number. A number takes the dtype of the tensors beside it, unless it is of a higher kind (2.5 beside
// integers is f32).
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(tensor.node()) {}  // NOLINT(google-explicit-constructor)
  Operand(std::floating_point auto number) : number_(double(number)), natural_(DType::kF32) {}  // NOLINT
  Operand(std::integral auto number) : number_(int64_t{number}), natural_(DType::kI64) {}       // NOLINT
  Operand(bool number) : number_(int64_t{number}), natural_(DType::kBool) {}                    // NOLINT

  const std::shared_ptr<const Term>& tensor() const { return tensor_; }  // null for a number
  const loops::Scalar& number() const { return number_; }
  DType natural() const { return natural_; }  // of a number that is alone

 private:
  std::shared_ptr<const Term> tensor_;
  loops::Scalar number_;
  DType natural_ = DType::kF32;
};

// Where a dimension is read.
class Coordinate {
 public:
  Coordinate(Expr expr) : expr_(std::move(expr)) {}                // NOLINT(google-explicit-constructor)
  Coordinate(const Symbol& symbol) : expr_(symbol) {}              // NOLINT(google-explicit-constructor)
  Coordinate(std::integral auto number) : expr_(number) {}         // NOLINT(google-explicit-constructor)
  Coordinate(const Tensor& indices) : indices_(indices.node()) {}  // NOLINT(google-explicit-constructor)

  const Expr& expr() const { return expr_; }
  const std::shared_ptr<const Term>& indices() const { return indices_; }  // null for an expression

 private:
  Expr expr_;
  std::shared_ptr<const Term> indices_;
};

// ---- elementwise ----------------------------------------------------------------------------------------------------

// Any op of the table that is a function of single elements, also a composite one, by name. An unknown name is an error
// that suggests one.
Tensor apply(std::string_view op, const std::vector<Operand>& operands, NamedAttrs attrs = {});

Tensor operator+(const Operand& a, const Operand& b);
Tensor operator-(const Operand& a, const Operand& b);
Tensor operator*(const Operand& a, const Operand& b);
Tensor operator/(const Operand& a, const Operand& b);
Tensor operator-(const Tensor& x);
Tensor operator<(const Operand& a, const Operand& b);
Tensor operator<=(const Operand& a, const Operand& b);
Tensor operator>(const Operand& a, const Operand& b);
Tensor operator>=(const Operand& a, const Operand& b);
Tensor eq(const Operand& a, const Operand& b);
Tensor ne(const Operand& a, const Operand& b);
Tensor max(const Operand& a, const Operand& b);
Tensor min(const Operand& a, const Operand& b);
Tensor where(const Operand& condition, const Operand& a, const Operand& b);
Tensor exp(const Operand& x);
Tensor log(const Operand& x);
Tensor sqrt(const Operand& x);
Tensor abs(const Operand& x);
Tensor tanh(const Operand& x);

// ---- others ---------------------------------------------------------------------------------------------------------

Tensor index(const Expr& value);  // an i64 over the Symbols of an expression: index(m) counts 0, 1, 2, ...

// Tensors one after the other along a dimension, which each has under its own Symbol. The other dimensions are matched
// by Symbol.
Tensor concat(const std::vector<std::pair<Tensor, Symbol>>& parts, const Symbol& whole);
// All of the same size along `dim`. The result has a new dimension of the same name there: see dims().
Tensor concat(const std::vector<Tensor>& parts, const Symbol& dim);

// The backend of tensors that name none: at first "cpu" where it is there, else "interpreter".
void set_default_backend(std::string name);
std::string default_backend();

// The compiled kernels: one for each structure (which dimensions and inputs are the same), with its dtypes, constants,
// sizes, schedule and backend; names do not matter.
size_t cache_size();
void clear_cache();

}  // namespace tenon::named
