// What several families of entries use.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "capture/aten.h"

namespace tenon::aten {

// An argument of type int[count]: one number stands for all. Where None or an empty list is allowed, it stays empty.
std::vector<int64_t> each(const AtenCall& c, std::string_view name, int64_t count);

// The dimension that an argument names, not negative.
int64_t dim_of(const AtenCall& c, std::string_view name, Value x);

Value cast(AtenCall& c, Value x, std::optional<DType> dtype);  // as it is without one
Value like(AtenCall& c, Value x, double number);               // a full tensor of the type of x
Value nothing(AtenCall& c, DType dtype);                       // a result that the overload leaves empty
DType wide(DType dtype);                                       // f32 for f16 and bf16: what sums are computed in
Value widened(AtenCall& c, Value x);
Value flat(Builder& b, Value x);  // as a vector

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
