// Python's operators of two operands, and the elementwise ops that they are. Graph values and named tensors have them.
#pragma once

namespace tenon::python {

struct BinaryOperator {
  const char* name;
  const char* reflected;  // where the object is on the right; null where Python exchanges the sides itself
  const char* op;
};

inline constexpr BinaryOperator kElementwiseOperators[] = {
    {"__add__", "__radd__", "add"},
    {"__sub__", "__rsub__", "sub"},
    {"__mul__", "__rmul__", "mul"},
    {"__truediv__", "__rtruediv__", "div"},
    {"__floordiv__", "__rfloordiv__", "floor_div"},
    {"__mod__", "__rmod__", "remainder"},
    {"__pow__", "__rpow__", "pow"},
    {"__and__", "__rand__", "bitwise_and"},
    {"__or__", "__ror__", "bitwise_or"},
    {"__xor__", "__rxor__", "bitwise_xor"},
    {"__lshift__", "__rlshift__", "shift_left"},
    {"__rshift__", "__rrshift__", "shift_right"},
    {"__eq__", nullptr, "eq"},
    {"__ne__", nullptr, "ne"},
    {"__lt__", nullptr, "lt"},
    {"__le__", nullptr, "le"},
    {"__gt__", nullptr, "gt"},
    {"__ge__", nullptr, "ge"},
};

}  // namespace tenon::python
