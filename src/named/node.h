// The graph behind lazy tensors. Nodes are immutable and shared; what they say about sizes is kept beside what they
// compute, and solved over a whole graph (sizes.h).
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "graph/tensor.h"
#include "loops/ir.h"
#include "named/symbol.h"

namespace tenon::named {

struct Node;
using NodePtr = std::shared_ptr<const Node>;

// The data of an input, under all names of its dimensions. A run takes what is there; another thread may bind
// meanwhile.
class Storage {
 public:
  explicit Storage(tenon::Tensor data) : data_(std::move(data)) {}

  tenon::Tensor data() const {
    const std::lock_guard lock(mutex_);
    return data_;
  }
  // `data` becomes what was there before. It is the caller's to free, outside of the lock: an array of Python's waits
  // for the interpreter.
  void exchange(tenon::Tensor& data) {
    const std::lock_guard lock(mutex_);
    std::swap(data_, data);
  }

 private:
  mutable std::mutex mutex_;
  tenon::Tensor data_;
};

struct Input {
  std::shared_ptr<Storage> storage;
};
struct Constant {
  loops::Scalar value;
};
struct Index {  // an i64
  Expr value;
};
struct Compute {
  const OpDef* op;
};
struct Reduce {  // of the dimensions that the result lacks
  const OpDef* op;
};
struct Piece {  // as in loops::Piece, but of an input by its position
  size_t input;
  std::vector<Expr> index;
  std::vector<loops::Constraint> where;
};
struct Lookup {
  symbolic::Symbol symbol;
  size_t indices;
  Expr bound;
};
struct View {
  std::vector<Piece> pieces;
  loops::Scalar fill;
  std::vector<Lookup> lookups;
};
struct Alias {};  // of its input, with another order of dimensions, or with something said about sizes
using Action = std::variant<Input, Constant, Index, Compute, Reduce, View, Alias>;

// A dimension that is read at an expression, never outside. Of the sizes of both, the solver infers the last from the
// others.
struct Cover {
  Symbol dim;
  Expr index;
};

struct Node {
  DType dtype;
  std::vector<Symbol> dims;
  Action action;
  std::vector<NodePtr> inputs = {};
  std::vector<symbolic::SymbolicEquation> equations = {};  // of sizes: a whole on the left, its parts on the right
  std::vector<Cover> covers = {};
  std::vector<NodePtr> context = {};      // not computed; but what they say about sizes holds
  std::vector<const Node*> sources = {};  // this and those above that say something about sizes, in order of creation
  uint64_t number = 0;                    // counts creations

  template <class T>
  const T* as() const {
    return std::get_if<T>(&action);
  }
};

// Adds what is known only then: the sources. Throws an Error when sizes contradict each other.
NodePtr make_node(Node node);

std::vector<const Node*> in_order(const Node& output);  // it and what it is computed from, inputs first

std::string list(const std::vector<Symbol>& dims);  // "[m, k]"
std::string describe(const Node& node);             // "f32[m, k]"

}  // namespace tenon::named
