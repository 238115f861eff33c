// The op table: all that Tenon knows of an operation is in ONE record.
//
// Semantics that hold for every op:
//   - Values are immutable. A view (reshape, slice, ...) is a value like any other; nothing aliases anything.
//   - Operands of different dtypes are promoted and shapes broadcast as PyTorch does, where the record says so.
//   - Integer arithmetic wraps in two's complement. Integer division and remainder by zero are run-time errors; the
//     smallest integer divided by -1 wraps.
//   - Floating arithmetic is IEEE-754 with round to nearest. f16 and bf16 are computed in at least f32 and rounded
//   once.
//   - NaN propagates through arithmetic, minimum/maximum and reductions. Comparisons with NaN are false, `ne` is true.
//   - A float that is NaN or outside int64 casts to the smallest int64, which then wraps to the narrower integer.
//   - A reduction may add in any order; a backend states its own. The reference adds in double.
//   - Random numbers are a pure function of the key operand (Philox 4x32-10), the same on every machine.
//   - An index out of range is a run-time error, never a wild read.
//   - Effects exist only as a graph's updates, which happen after everything else. A run-time error is not an effect: a
//     pass may delete a failing node whose result is unused.
//   - Any NaN is as good as any other: payloads and signs of NaN are free.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/attr.h"
#include "graph/scalar.h"
#include "graph/type.h"

namespace tenon {

struct OpDef;
class OpView;
class InferContext;
class ReferenceContext;  // graph/reference.h
class ExpandContext;     // graph/builder.h
class GradContext;       // graph/builder.h
class LoopContext;       // loops/lower.h
class Value;

// A field that a record cannot leave out: it has no default.
template <class T>
class Required {
 public:
  template <class U>
  Required(U&& value) : value_(std::forward<U>(value)) {}  // NOLINT: a field initializer
  const T& get() const { return value_; }
  operator const T&() const { return value_; }  // NOLINT

 private:
  T value_;
};

// ---- operands and results -------------------------------------------------------------------------------------------

enum class Arity : uint8_t {
  kOne,
  kOptional,          // may be `none`
  kVariadic,          // any number, the last operand of its op
  kVariadicOptional,  // any number, each may be `none`
};

constexpr bool is_variadic(Arity arity) { return arity == Arity::kVariadic || arity == Arity::kVariadicOptional; }
constexpr bool may_be_none(Arity arity) { return arity == Arity::kOptional || arity == Arity::kVariadicOptional; }

struct OperandDef {
  std::string_view name;
  DTypeSet dtypes = kAny;
  Arity arity = Arity::kOne;
};

// Shape and dtype rule: the types of the results. Fails with a Diagnostic that names the sizes.
using InferFn = std::function<std::vector<TensorType>(InferContext&)>;

// ---- semantics: a record has exactly one of these -------------------------------------------------------------------

// In which dtype an elementwise op computes.
enum class Compute : uint8_t {
  kPromote,         // the promoted dtype of all operands
  kPromoteToFloat,  // likewise; integers and bool become f32
  kSelect,          // operand 0 is a condition; the promoted dtype of the others
};

// The op is a function of one element of each operand. An op without `integer` never computes in an integer dtype, one
// without `real` never in a floating one.
struct Elementwise {
  Compute compute = Compute::kPromote;
  ScalarFn real;
  ScalarFn integer;
};

// The op is this function over whole tensors.
struct Reference {
  std::function<void(ReferenceContext&)> run;
};

// The op is composite: it is this graph of other ops.
struct Expansion {
  std::function<std::vector<Value>(ExpandContext&)> run;
};

using Semantics = std::variant<Elementwise, Reference, Expansion>;

// ---- gradient -------------------------------------------------------------------------------------------------------

struct NotDifferentiable {};
struct ByExpansion {};  // of a composite: the gradient of what it expands to

// One gradient for each operand; an empty Value where there is none. A gradient of a broadcast shape or another dtype
// is summed and cast to its operand's type by the caller.
using GradientFn = std::function<std::vector<Value>(GradContext&)>;
using Gradient = std::variant<NotDifferentiable, ByExpansion, GradientFn>;

// ---- loops ----------------------------------------------------------------------------------------------------------

struct LibraryTask {};  // not loops: a backend runs it as a whole

// The lowering to loops (loops/lower.h). Empty: an elementwise op is one Compute node of itself, a composite expands.
using LoopsFn = std::function<void(LoopContext&)>;
using Loops = std::variant<std::monostate, LoopsFn, LibraryTask>;

// ---- how the op fuses, and what it costs ----------------------------------------------------------------------------

// What fusion does with a node of the op. A view shows elements of operand 0 in other places.
enum class Role : uint8_t {
  kPointwise,    // an element of the result needs the same element of each operand
  kFill,         // has no operands: cheaper to compute again than to keep
  kPermutation,  // a view: the dimensions in another order
  kBroadcast,    // a view: repeated along dimensions
  kView,         // any other view: index expressions say where an element comes from
  kBorder,       // a view that puts other elements around those of the operand
  kReshape,      // the same elements in the same order
  kGather,       // elements of a table, in places that another operand gives
  kFold,         // folds the dimensions in its attribute `dims` or `dim`
  kRows,         // an element needs all of its row, along `dims` or `dim`: softmax, standardize
  kContraction,  // sums products
  kAttention,
  kAlone,     // loops that share a kernel with nothing
  kLibrary,   // a function of the runtime computes it
  kExternal,  // PyTorch computes it
  kSegment,   // a device computes it, as a whole
};

constexpr bool is_view(Role role) { return role >= Role::kPermutation && role <= Role::kBorder; }

// The multiplications and additions of a node whose sizes are all known.
using FlopsFn = double (*)(const OpView& view, const TensorType& result);

// ---- how the op is tested -------------------------------------------------------------------------------------------

// The same op in PyTorch: a Python expression over the operands and attributes by name, or why there is none.
struct Peer {
  std::string_view torch;
  std::string_view why_none;
};
inline Peer torch_is(std::string_view expression) { return {expression, {}}; }
inline Peer no_peer(std::string_view why) { return {{}, why}; }

// The interval that test values are drawn from.
struct Domain {
  double low = -3;
  double high = 3;
};

// A record is known by its address: it cannot be copied.
struct Pinned {
  Pinned() = default;
  Pinned(const Pinned&) = delete;
};

// ---- the record -----------------------------------------------------------------------------------------------------

struct OpDef {
  Required<std::string_view> name;
  Required<std::string_view> family;
  Required<std::string_view> doc;  // Markdown; the first sentence is the summary
  Required<std::vector<OperandDef>> operands;
  std::vector<AttrDef> attrs = {};
  std::vector<std::string_view> results = {"out"};
  Required<InferFn> infer;
  Required<Semantics> semantics;
  Required<Gradient> gradient;
  Loops loops = {};
  std::optional<Role> role = {};  // Where role_of() cannot tell.
  std::optional<Cost> cost = {};  // Where cost_of() cannot tell.
  FlopsFn flops = nullptr;
  bool takes_border = false;  // Operand 0 may be a border view: the schedules make an image with a border anyway.
  bool is_plumbing = false;   // The name of a kernel that does more leaves it out.
  Required<Peer> peer;
  // Each a line like "T[3, 4], i64[2, 4] in 0..2; dim=0": operand types, for T each dtype of the op's first T operand,
  // then attributes. `in` bounds the values (inclusive); `none` leaves an optional operand out.
  Required<std::vector<std::string>> samples;
  Domain domain = {};
  bool special_values = true;  // also test NaN, Inf, -0 and extreme integers
  Pinned pinned = {};

  bool is_composite() const { return std::holds_alternative<Expansion>(semantics.get()); }
  const AttrDef* attr_named(std::string_view name) const;
};

// The record's role. By default an elementwise op is pointwise, an op with a function of the runtime is a library call,
// and other ops stand alone.
Role role_of(const OpDef& op);
// The record's cost. By default views and fills are free, an op with `flops` is a product, an elementwise op costs as
// much as its dearest primitive, and other ops are functions.
Cost cost_of(const OpDef& op);

// All ops, grouped by family. Names are unique.
std::span<const OpDef* const> op_table();
const OpDef* find_op(std::string_view name);   // null when there is none
const OpDef& op_named(std::string_view name);  // throws an Error that suggests the nearest name

// ---- what an op's functions see of a node ---------------------------------------------------------------------------

// The types of the operands and the attributes, by the names of the record.
class OpView {
 public:
  // A null type is an absent optional operand. The pointers must outlive the view.
  OpView(const OpDef& op, std::vector<const TensorType*> types, std::span<const Attr> attrs)
      : op_(&op), types_(std::move(types)), attrs_(attrs) {}

  const OpDef& op() const { return *op_; }
  size_t operand_count() const { return types_.size(); }
  bool has(size_t operand) const { return operand < types_.size() && types_[operand] != nullptr; }
  const TensorType& type(size_t operand) const { return *types_[operand]; }
  const std::vector<const TensorType*>& types() const { return types_; }
  std::vector<TensorType> present_types(size_t first = 0) const;

  bool given(std::string_view attr) const;  // false when the attribute is `none`
  bool flag(std::string_view attr) const;
  int64_t integer(std::string_view attr) const;
  double real(std::string_view attr) const;
  const std::string& string(std::string_view attr) const;
  DType dtype(std::string_view attr) const;
  const Expr& expr(std::string_view attr) const;
  const Attr& attr(std::string_view attr) const;
  std::span<const int64_t> ints(std::string_view attr) const;
  std::span<const double> reals(std::string_view attr) const;
  std::span<const Expr> exprs(std::string_view attr) const;

  // An attribute as a dimension of an operand, normalized.
  int64_t dim(std::string_view attr, size_t operand = 0) const {
    return normalize_dim(integer(attr), type(operand).rank());
  }
  std::vector<int64_t> dims(std::string_view attr, size_t operand = 0) const {
    return normalize_dims(ints(attr), type(operand).rank());
  }

 private:
  template <class T>
  const T& get(std::string_view attr) const;

  const OpDef* op_;
  std::vector<const TensorType*> types_;
  std::span<const Attr> attrs_;
};

class InferContext : public OpView {
 public:
  InferContext(const OpDef& op, std::vector<const TensorType*> types, std::span<const Attr> attrs, Facts facts)
      : OpView(op, std::move(types), attrs), facts_(facts) {}

  const Facts& facts() const { return facts_; }

 private:
  Facts facts_;
};

// Checks operand counts, operand dtypes and attribute kinds against the record, then applies its rule.
std::vector<TensorType> infer(const OpDef& op, const std::vector<const TensorType*>& types, std::span<const Attr> attrs,
                              const Facts& facts = {});

// Attributes in the record's order, defaults filled in. Fails for an unknown, missing or ill-typed one.
std::vector<Attr> complete_attrs(const OpDef& op, NamedAttrs named);

DType compute_dtype(const Elementwise& elementwise, const OpView& view);

// The expression of an op that computes in a dtype; throws an Error for an op that has none.
const ScalarFn& scalar_fn(const OpDef& op, DType compute);
bool divides_integers(const OpDef& op, DType compute);  // Its second operand must not be 0.

}  // namespace tenon
