// Signatures and formulas that families of entries share.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/aten.h"
#include "capture/aten/families.h"

namespace tenon::aten {

// The signature of a factory: "aten.zeros.default(size" with PyTorch's options for new tensors behind it.
std::string with_options(std::string_view start, std::string_view before_options = "", std::string_view after = "");

// The dtype of a number alone: PyTorch's defaults.
DType dtype_of_number(const AtenArg& number);

// Integers and bool as f32, as PyTorch's functions over real numbers take them.
Value to_float(Builder& b, Value x);
DType float_dtype(DType dtype);
// The dtype in which a formula over tensors of a dtype is computed: at least f32.
DType wide_dtype(DType dtype);
Value to_wide(Builder& b, Value x);

// Elementwise formulas compute in at least f32 and round once, to the dtype of the argument (f32, of an integer).
using UnaryFormula = std::function<Value(AtenCall&, Value)>;
using BinaryFormula = std::function<Value(AtenCall&, Value, Value)>;
AtenFn unary_formula(UnaryFormula formula, std::string_view argument = "self");
AtenFn binary_formula(BinaryFormula formula, std::string_view a = "self", std::string_view b = "other");

// One op of the table over two arguments of which one may be a number. An operand of another dtype than the result is
// cast first: for ops that do not take bools.
AtenFn promoted_binary(std::string_view op, std::string_view a = "self", std::string_view b = "other");

// The argument itself, sharing its memory: the result of an overload that does not copy.
AtenArg itself(AtenCall& c, std::string_view name = "self");

// A tensor of one number, which may be only known at run time.
Value filled(AtenCall& c, std::string_view number, Shape shape, DType dtype);

std::vector<int64_t> other_dims(int64_t rank, std::span<const int64_t> dims);  // those that are not in `dims`

Value logical_and(Builder& b, Value x, Value y);
Value logical_or(Builder& b, Value x, Value y);

// An argument of type int[count]: one number stands for all. Where None or an empty list is allowed, it stays empty.
std::vector<int64_t> each(const AtenCall& c, std::string_view name, int64_t count);

// The dimension that an argument names, not negative.
int64_t dim_of(const AtenCall& c, std::string_view name, Value x);

Value cast(AtenCall& c, Value x, std::optional<DType> dtype);  // as it is without one
Value nothing(AtenCall& c, DType dtype);                       // a result that the overload leaves empty
Value flat(Builder& b, Value x);                               // as a vector
// With new dimensions of size 1 in front; a matrix as a volume has it behind.
Value at_least_1d(Builder& b, Value x);
Value at_least_2d(Builder& b, Value x);
Value at_least_3d(Builder& b, Value x);

// The symbol of a size that is only known in the run: `name` with a number.
Expr fresh_size(const AtenCall& c, const std::string& name);

// x times a number, which is cast to the dtype of x as PyTorch does it: 0.5 is 0 beside integers.
Value times(AtenCall& c, Value x, std::string_view number);
bool is_zero(const AtenArg& number);
bool is_one(const AtenArg& number);

// The results that a mask of bools asks for, None for the others.
AtenArg masked(const AtenCall& c, std::vector<Value> results, std::string_view mask);
bool wants(const AtenCall& c, std::string_view mask, size_t position);

// The gradients of a function by its operands: those of the op table, put into the graph of the call.
using Forward = std::function<Value(Builder&, const std::vector<Value>&)>;
std::vector<Value> gradients(AtenCall& c, const Forward& forward, const std::vector<Value>& operands, Value cotangent);

// The attributes of slice, select, diagonal and of what writes through them, from arguments of the same names.
NamedAttrs slice_attrs(const AtenCall& c);
NamedAttrs select_attrs(const AtenCall& c);
NamedAttrs diagonal_attrs(const AtenCall& c);

std::vector<int64_t> dims_from(int64_t first, int64_t end);  // first, ... end - 1

}  // namespace tenon::aten
