// Terms: the expression behind a named tensor. Terms are immutable and shared. A term also has facts about sizes, which
// are solved over a whole graph (sizes.h).
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "graph/tensor.h"
#include "loops/ir.h"
#include "named/symbol.h"

namespace tenon::named {

struct Term;
using TermPtr = std::shared_ptr<const Term>;

// The data of an input, shared by all names of its dimensions. Another thread may bind new data during a run.
class Storage {
 public:
  explicit Storage(tenon::Tensor data) : data_(std::move(data)) {}

  tenon::Tensor data() const {
    const std::lock_guard lock(mutex_);
    return data_;
  }
  // Swaps. The caller frees the old data outside of the lock: freeing an array of Python waits for the interpreter.
  void exchange(tenon::Tensor& data) {
    const std::lock_guard lock(mutex_);
    std::swap(data_, data);
  }

 private:
  mutable std::mutex mutex_;
  tenon::Tensor data_;
};

struct InputTerm {
  std::shared_ptr<Storage> storage;
};
struct ConstantTerm {
  loops::Scalar value;
};
struct IndexTerm {  // an i64
  Expr value;
};
struct ComputeTerm {
  const OpDef* op;
};
struct ReduceTerm {  // of the dimensions that the result lacks
  const OpDef* op;
};
struct ViewPiece {  // as in loops::Piece, but of an input by its position
  size_t input;
  std::vector<Expr> index;
  std::vector<loops::Constraint> where;
};
struct ViewLookup {
  symbolic::Symbol symbol;
  size_t indices;
  Expr bound;
};
struct ViewTerm {
  std::vector<ViewPiece> pieces;
  loops::Scalar fill;
  std::vector<ViewLookup> lookups;
};
struct AliasTerm {};  // of its input, with another order of dimensions, or with something said about sizes
using TermAction = std::variant<InputTerm, ConstantTerm, IndexTerm, ComputeTerm, ReduceTerm, ViewTerm, AliasTerm>;

// A dimension that is read at an index, never outside. The solver infers an unknown size of the two from the other.
struct Cover {
  Symbol dim;
  Expr index;
};

struct Term {
  DType dtype;
  std::vector<Symbol> dims;
  TermAction action;
  std::vector<TermPtr> inputs = {};
  std::vector<symbolic::SymbolicEquation> equations = {};  // of sizes: a whole on the left, its parts on the right
  std::vector<Cover> covers = {};
  std::vector<TermPtr> context = {};      // not computed; but what they say about sizes holds
  std::vector<const Term*> sources = {};  // this and those above that say something about sizes, in order of creation
  uint64_t number = 0;                    // counts creations

  template <class T>
  const T* as() const {
    return std::get_if<T>(&action);
  }
};

// Adds the number and the sources. Throws an Error if sizes contradict each other.
TermPtr make_term(Term node);

std::vector<const Term*> in_order(const Term& output);  // all terms that it depends on and itself, inputs first

std::string list(const std::vector<Symbol>& dims);  // "[m, k]"
std::string describe(const Term& node);             // "f32[m, k]"

}  // namespace tenon::named
