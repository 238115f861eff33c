// Signatures and formulas that families of entries share; tools.h has the rest.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/aten/tools.h"

namespace tenon::aten {

// Names of PyTorch that mean the same: each gets the entry. In the signatures, `{}` stands for the name.
void add_each(AtenTable& table, std::initializer_list<std::string_view> names, std::string_view signature,
              const AtenFn& build);

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

// The argument itself, with its memory: what an overload gives that need not copy.
AtenArg itself(AtenCall& c, std::string_view name = "self");

// A tensor of one number, which may be only known at run time.
Value filled(AtenCall& c, std::string_view number, Shape shape, DType dtype);

std::vector<int64_t> other_dims(int64_t rank, std::span<const int64_t> dims);  // those that are not in `dims`

Value logical_and(Builder& b, Value x, Value y);
Value logical_or(Builder& b, Value x, Value y);

}  // namespace tenon::aten
