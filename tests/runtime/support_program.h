// Tables of a program (format/program.fbs), written by hand.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "runtime/task_graph.h"

namespace tenon::runtime::test {

// Fields are public, to break what a test wants broken.
struct ProgramTables {
  format::ProgramT program;

  ProgramTables() { program.name = "tables"; }

  // ---- expressions ----
  Expr number(int64_t value) { return code({{format::ExprOp::Constant, value}}); }
  Expr symbol(int64_t symbol) { return code({{format::ExprOp::Symbol, symbol}}); }
  Expr code(std::initializer_list<Instruction> instructions);

  // ---- slots: each returns its number ----
  uint32_t input(std::vector<Expr> shape);
  uint32_t state(std::vector<Expr> shape);
  uint32_t constant(std::vector<Expr> shape);
  uint32_t temporary(std::vector<Expr> shape) { return slot(SlotKind::Temporary, 0, std::move(shape)); }
  uint32_t output(std::vector<Expr> shape);
  uint32_t alias(uint32_t root, std::vector<Expr> shape);
  void result(uint32_t slot, bool is_copied = false);  // that is not an output slot

  // The dimension of the input is the symbol, which lies in [1, 64].
  void bind(std::string name, uint32_t input, uint32_t dim);
  void find(std::string name);  // a symbol that a task finds out

  // ---- tasks: each returns its number ----
  uint32_t kernel(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs, std::vector<uint32_t> sizes = {});
  uint32_t library(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs, std::vector<Expr> numbers = {});
  uint32_t fallback(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs);
  uint32_t device(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs);
  uint32_t transfer(uint32_t from, uint32_t to);
  void update(uint32_t target, uint32_t value);

  // ---- devices ----
  uint16_t space(std::string device);           // returns its number
  uint32_t put(uint32_t slot, uint16_t space);  // moves the slot there; returns it

  // The tables must stay until the graph is not needed any more, and read() is not called again.
  TaskGraph read();
  std::string error();  // what read() says; empty where it says nothing

 private:
  uint32_t slot(SlotKind kind, size_t position, std::vector<Expr> shape);
  uint32_t task(TaskKind kind, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs);

  flatbuffers::FlatBufferBuilder packed_;
};

}  // namespace tenon::runtime::test
