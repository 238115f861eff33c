// The aten registry: how each ATen overload becomes nodes of a Graph. Every front door feeds it (see importer.h).
//
// An entry is a signature, with the names and defaults that PyTorch's schema has, and a function that builds nodes:
//
//     table.add("aten.add.Tensor(self, other, *, alpha=1)", [](AtenCall& c) { ... });
//     table.op("aten.tanh.default(self)");                                // just one op of the op table
//     table.op("aten.{neg,negative}.default(self)", "neg");               // overloads that mean the same
//     table.view("aten.t.default(self)", [](AtenCall& c) { ... });        // PyTorch's result shares memory with self
//
// In-place overloads (`aten.add_.Tensor`) and copies of views (`aten.view_copy.default`) need no entry: they follow
// from `aten.add.Tensor` and `aten.view.default`.
//
// A function that cannot express a case calls `c.decline("why")`: PyTorch then runs the call, and the report gives the
// reason.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/builder.h"

namespace tenon {

// ---- arguments ------------------------------------------------------------------------------------------------------

// A tensor of the model. The importer knows it by its variable, because PyTorch's tensors can be written in place; an
// entry sees the value that it has when the call happens.
struct AtenTensor {
  static constexpr uint32_t kNone = ~0u;
  Value value;
  uint32_t variable = kNone;
  bool is_number = false;  // see AtenArg
};

// A device, layout, memory format or generator: it does not affect a Value.
struct AtenSetting {
  std::string text;
};

// An argument or a result of a call. A SymInt is an Expr, and so is a SymBool (a comparison). A number that is only
// known at run time is a tensor of rank 0 in Python's precision (f64, i64 or bool) with `is_number` set: beside a
// tensor it is promoted as a number, whatever its own dtype.
struct AtenArg {
  using List = std::vector<AtenArg>;
  std::variant<None, bool, Expr, double, std::string, DType, AtenTensor, AtenSetting, List> data;

  AtenArg() = default;
  AtenArg(None) {}                                            // NOLINT(google-explicit-constructor): all of these
  AtenArg(bool flag) : data(flag) {}                          // NOLINT
  AtenArg(Expr number) : data(std::move(number)) {}           // NOLINT
  AtenArg(double number) : data(number) {}                    // NOLINT
  AtenArg(int number) : data(Expr(number)) {}                 // NOLINT
  AtenArg(int64_t number) : data(Expr(number)) {}             // NOLINT
  AtenArg(std::string text) : data(std::move(text)) {}        // NOLINT
  AtenArg(DType dtype) : data(dtype) {}                       // NOLINT
  AtenArg(Value value) : data(AtenTensor{value}) {}           // NOLINT: an empty Value is None
  AtenArg(AtenTensor tensor) : data(tensor) {}                // NOLINT
  AtenArg(AtenSetting setting) : data(std::move(setting)) {}  // NOLINT
  AtenArg(List list) : data(std::move(list)) {}               // NOLINT
  AtenArg(const std::vector<Value>& values);                  // NOLINT

  static AtenArg run_time_number(Value value) { return AtenTensor{value, AtenTensor::kNone, true}; }

  bool is_none() const;
  bool is_run_time_number() const;
  template <class T>
  const T* get() const {
    return std::get_if<T>(&data);
  }
};

std::string to_string(const AtenArg& argument);  // for messages: "f32[2, 3]", "[1, N]", "None"

// ---- entries --------------------------------------------------------------------------------------------------------

struct AtenParameter {
  std::string name;
  std::optional<AtenArg> fallback = {};  // the default
  bool keyword_only = false;
};

// "aten.add.Tensor(self, other, *, alpha=1)"
struct AtenSignature {
  std::string name;
  std::vector<AtenParameter> parameters;
};
Result<AtenSignature> parse_signature(std::string_view text);

class AtenCall;
using AtenFn = std::function<AtenArg(AtenCall&)>;                  // several results are a list
using AtenWriteFn = std::function<Value(AtenCall&, Value value)>;  // self, with the view's elements replaced by `value`

enum class AtenKind : uint8_t { kNative, kComposite };  // one op of the table, or several

struct AtenEntry {
  AtenSignature signature;
  AtenKind kind;
  AtenFn build;
  bool is_view = false;
  AtenWriteFn write = {};  // of a view; empty: writes at the positions that the view shows
};

class AtenTable {
 public:
  // Each throws an Error for a malformed signature. Braces around names stand for one entry each. An entry of the same
  // name is replaced: that is how a user puts in another one.
  void add(std::string_view signature, const AtenFn& build);
  // One op of the table: without a name, the op that is called as the overload's packet. The parameters are its
  // operands, in order; a parameter that names an attribute of the op is that attribute. `formula` is for calls where
  // the number of an attribute is only known at run time; without a formula such a call is declined.
  void op(std::string_view signature, std::string_view op = {}, const AtenFn& formula = {});
  // The gradient of one op by its operand. The parameters are grad_output, self, and attributes of the op; others are
  // ignored.
  void gradient(std::string_view signature, std::string_view op);
  void view(std::string_view signature, const AtenFn& build, const AtenWriteFn& write = {});
  void remove(std::string_view name);

  const AtenEntry* find(std::string_view name) const;  // null when there is none
  // Also finds overloads that follow from another entry: `add_` from `add`, `view_copy` from `view`. Sets `writes_self`
  // if the call writes its first argument.
  const AtenEntry* find(std::string_view name, bool& writes_self) const;
  const std::map<std::string, AtenEntry, std::less<>>& entries() const { return entries_; }

 private:
  void insert(AtenEntry entry);

  std::map<std::string, AtenEntry, std::less<>> entries_;
};

// All entries; filled on first use. Changing it while another thread imports a model is a race.
AtenTable& aten_table();

// ---- a call that is being built -------------------------------------------------------------------------------------

// A call cannot become nodes of a Graph. The message says why.
class Declined : public Error {
 public:
  using Error::Error;
};

// The importer, as a call sees it.
class AtenImporter {
 public:
  virtual ~AtenImporter() = default;
  virtual const std::shared_ptr<Graph>& shared_graph() const = 0;
  virtual Value next_key(Builder& builder, const Expr& words) = 0;  // where random numbers come from
};

// Entries read arguments by the names of the signature, as the type that they need. An argument of another type is an
// error that names it.
class AtenCall : public Builder {
 public:
  // `arguments` in the order of the signature, complete.
  AtenCall(AtenImporter& importer, const AtenEntry& entry, std::vector<AtenArg> arguments, Location location);

  using Builder::integer;

  const std::string& target() const { return entry_->signature.name; }
  const AtenArg& argument(std::string_view name) const;
  const std::vector<AtenArg>& arguments() const { return arguments_; }
  bool given(std::string_view name) const { return !argument(name).is_none(); }  // not None
  bool takes(std::string_view name) const;  // whether the signature has it: for functions that several entries share

  Value tensor(std::string_view name = "self") const;
  Value tensor_or_none(std::string_view name) const;        // an empty Value for None
  std::vector<Value> tensors(std::string_view name) const;  // each may be empty, where the list has a None
  bool is_tensor(std::string_view name) const;              // false for a number
  bool is_run_time_number(std::string_view name) const { return argument(name).is_run_time_number(); }
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;  // declines a symbolic integer
  Expr size(std::string_view name) const;        // an integer, perhaps symbolic
  double real(std::string_view name) const;      // any number that is known now
  std::string string(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name = "dtype") const;
  std::vector<int64_t> ints(std::string_view name) const;  // one integer is a list of one; None is empty
  Shape sizes(std::string_view name) const;                // likewise
  std::vector<double> reals(std::string_view name) const;  // likewise
  Attr number(std::string_view name) const;                // an Expr or a double, for attributes that take both
  // Any number as a tensor of rank 0, also one that is only known at run time.
  Value number(std::string_view name, DType dtype);

  // A tensor as it is. A number becomes a tensor of rank 0, with the dtype that PyTorch computes in when the number
  // stands beside a tensor of dtype `beside`.
  Value operand(std::string_view name, DType beside);
  // Two arguments of which at least one is a tensor, as the operands of an op.
  std::pair<Value, Value> pair(std::string_view a, std::string_view b);
  // A number as a tensor of PyTorch's default dtype for it.
  Value as_tensor(const AtenArg& number);

  // A new key for an op that draws this many random words of 32 bits.
  Value key(const Expr& words) { return importer_->next_key(*this, words); }
  const std::shared_ptr<Graph>& shared_graph() const { return importer_->shared_graph(); }

  // The call also writes this value into its argument (running statistics, out=).
  void write(std::string_view name, Value value);
  const std::map<std::string, Value>& writes() const { return writes_; }

  // For the entry of a view: this call gives a copy, as `reshape` of a transposed tensor does.
  void give_copy() { gives_copy_ = true; }
  bool gives_copy() const { return gives_copy_; }
  // The first argument becomes the result, whatever its shape: `resize_`.
  void replace_self() { replaces_self_ = true; }
  bool replaces_self() const { return replaces_self_; }
  // For a view that gives several tensors: the position of the written tensor.
  void set_written(size_t position) { written_ = position; }
  size_t written() const { return written_; }

  // Calls another entry of the registry with arguments by position: how composites are made of simpler overloads.
  AtenArg call(std::string_view target, std::vector<AtenArg> arguments);

  // For a case that the ops of the table cannot express.
  template <class... Args>
  [[noreturn]] void decline(MessageFor<Args...> format, const Args&... args) const {
    throw Declined({fill_in(format, args...), {}});
  }

 private:
  size_t position_of(std::string_view name) const;
  const AtenArg& known(std::string_view name) const;  // declines what is only known at run time
  [[noreturn]] void mismatch(std::string_view name, std::string_view wanted) const;
  template <class T, class Convert>
  std::vector<T> list_of(std::string_view name, std::string_view wanted, Convert convert) const;

  AtenImporter* importer_;
  const AtenEntry* entry_;
  std::vector<AtenArg> arguments_;
  std::map<std::string, Value> writes_;
  bool gives_copy_ = false;
  bool replaces_self_ = false;
  size_t written_ = 0;
  Location where_;
};

// Puts arguments by position and by name into the order of the signature, with defaults for the rest. Fails for an
// argument that is unknown, missing or given twice.
std::vector<AtenArg> bind_arguments(const AtenSignature& signature, std::vector<AtenArg> positional,
                                    std::vector<std::pair<std::string, AtenArg>> named);

// PyTorch's dtype of a number of dtype `number` beside a tensor: the tensor's, unless the number is of a higher kind.
DType dtype_beside(DType tensor, DType number);

}  // namespace tenon
