// A CallForm says how a model is called: how its arguments and results nest, and which of them are inputs and outputs
// of the program that runs it. It is a closed form: whatever text it is read from, reading it imports and runs nothing,
// and a value nests in tuples, lists, dictionaries and named tuples only.
//
//     (x=%0, pair=(%1, %2), *, scale=float(%3)) -> {"sum": %0, "parts": [%1, argument 0], "count": int(%2), "note":
//     None}
//
// Artifacts have this text as their note "call". A parameter without a name is `_`; those after `*` are given by name.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/attr.h"
#include "support/diagnostic.h"
#include "symbolic/expr.h"

namespace tenon {

namespace pt2 {
struct TreeSpec;
}

// A value that is the same in every call.
using CallConstant = std::variant<None, bool, int64_t, double, std::string>;

struct CallTree {
  enum class Kind : uint8_t {
    kTuple,        // (%0, %1), (%0,)
    kList,         // [%0]
    kDict,         // {"a": %0, 1: %1}
    kOrderedDict,  // ordered{"a": %0}
    kNamedTuple,   // named Point{x: %0, y: %1}
    kTensor,       // %3: an input or an output
    kInt,          // int(%3): an input u8[n] that has as many elements, or an output of one element
    kFloat,        // float(%3): an input or an output f64[]
    kBool,         // bool(%3): an output
    kSize,         // int(2*N): an argument that follows from the sizes of tensors
    kArgument,     // argument 1: the result is this leaf of the arguments
    kConstant,     // None, True, 7, 0.5, "mean"
  };
  using Key = std::variant<std::string, int64_t>;

  Kind kind = Kind::kTensor;
  std::string name = {};                 // of a named tuple's class
  std::vector<Key> keys = {};            // of a dictionary; the fields of a named tuple: one for each child
  std::vector<CallTree> children = {};   // of what nests
  size_t position = 0;                   // of a leaf: the input, output or argument
  std::optional<symbolic::Expr> size{};  // of a kSize
  CallConstant constant = None{};

  bool is_leaf() const { return kind >= Kind::kTensor; }
};

struct CallParameter {
  std::string name;  // empty where it is not known
  CallTree value;
  bool is_keyword = false;
};

struct CallForm {
  std::vector<CallParameter> parameters;
  CallTree results;
};

inline const std::string kCallNote = "call";  // of an artifact's entry

std::string to_string(const CallForm& form);
// An error says what is wrong with the text and where.
Result<CallForm> parse_call_form(std::string_view text);

// Fails unless each of the inputs, but for the key of random numbers, is given once, and each result is there.
void check_call_form(const CallForm& form, size_t inputs, size_t outputs, std::optional<size_t> key);

// The form that the notes of an entry say; nothing where they do not. `inputs` and `outputs` are those of its program,
// `key` the input that random numbers come from. Also reads PyTorch's tree specs, which earlier files have as their
// notes "in_spec" and "out_spec".
Result<std::optional<CallForm>> read_call_form(const std::map<std::string, std::string>& notes, size_t inputs,
                                               size_t outputs, std::optional<size_t> key);

// How PyTorch says that values nest, in the closed form. A class that the form lacks becomes a dictionary where the
// file has the names of its parts, else a tuple. `leaf` makes the leaves, in order.
CallTree call_tree(const pt2::TreeSpec& spec, const std::function<CallTree()>& leaf);
// ((args...), {kwargs...}), with the names of forward's parameters.
std::vector<CallParameter> call_parameters(const pt2::TreeSpec& spec, const std::vector<std::string>& names,
                                           const std::function<CallTree()>& leaf);

}  // namespace tenon
