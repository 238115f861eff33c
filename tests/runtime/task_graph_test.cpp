#include "runtime/task_graph.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "runtime/error.h"
#include "tests/runtime/support_program.h"

namespace tenon::runtime {
namespace {

using format::ExprOp;
using test::ProgramTables;
using testing::HasSubstr;

// x -> t (task 0) -> y (task 1), where y also reads x and the constant.
struct Chain : ProgramTables {
  uint32_t x = input({number(4)});
  uint32_t c = constant({number(4)});
  uint32_t t = temporary({number(4)});
  uint32_t y = output({number(4)});

  Chain() {
    kernel({x}, {t});
    kernel({t, x, c}, {y});
  }
};

TEST(TaskGraph, KnowsWhoWritesAndReadsWhat) {
  Chain tables;
  const TaskGraph graph = tables.read();
  ASSERT_EQ(graph.tasks.size(), 2u);
  EXPECT_EQ(graph.slots[tables.t].source.task, 0u);
  EXPECT_EQ(graph.slots[tables.t].source.slot, 0u);
  EXPECT_EQ(graph.slots[tables.x].source.task, kNone);
  EXPECT_EQ(graph.tasks[1].dependencies.size(), 3u);
  EXPECT_EQ(graph.tasks[1].dependencies[0].task, 0u);
  EXPECT_EQ(graph.tasks[1].dependencies[1].task, kNone) << "the caller's";
  EXPECT_EQ(graph.tasks[1].dependencies[2].task, kNone) << "the model's";
}

TEST(TaskGraph, KnowsLifetimes) {
  Chain tables;
  const TaskGraph graph = tables.read();
  EXPECT_EQ(graph.slots[tables.x].references, 2u);
  EXPECT_EQ(graph.slots[tables.x].last_task, 1u);
  EXPECT_EQ(graph.slots[tables.t].references, 1u);
  EXPECT_EQ(graph.slots[tables.t].last_task, 1u);
  EXPECT_EQ(graph.slots[tables.y].last_task, 2u) << "the caller reads it, after all tasks";
}

TEST(TaskGraph, AnAliasIsItsRoot) {
  Chain tables;
  const uint32_t flat = tables.alias(tables.t, {tables.number(2), tables.number(2)});
  const uint32_t z = tables.output({tables.number(4)});
  tables.kernel({flat}, {z});
  const TaskGraph graph = tables.read();
  EXPECT_EQ(graph.slots[tables.t].references, 2u);
  EXPECT_EQ(graph.slots[tables.t].last_task, 2u);
  EXPECT_EQ(graph.tasks[2].dependencies[0].task, 0u);
  EXPECT_EQ(graph.slots[flat].home, tables.t);
}

TEST(TaskGraph, StatesHaveNames) {
  Chain tables;
  tables.state({tables.number(4)});
  EXPECT_EQ(tables.read().states[0].name, "state0") << "files of 1.0 have none";
  tables.program.state_names = {"momentum"};
  EXPECT_EQ(tables.read().states[0].name, "momentum");
  tables.state({tables.number(4)});
  EXPECT_EQ(tables.error(), "there are names for another number of states");
  tables.program.state_names = {"momentum", "momentum"};
  EXPECT_EQ(tables.error(), "two states have the name 'momentum'");
  tables.program.state_names = {"momentum", ""};
  EXPECT_EQ(tables.error(), "state 1 has an empty name");
}

// ---- sizes ----

TEST(TaskGraph, WhatDependsOnAFoundSizeIsLate) {
  ProgramTables tables;
  const uint32_t x = tables.input({tables.number(4)});
  tables.bind("N", 0, 0);
  tables.program.slots[x]->shape = {tables.symbol(0)};
  tables.find("U");
  const uint32_t places = tables.temporary({tables.symbol(1)});
  const uint32_t plain = tables.temporary({tables.symbol(0)});
  const uint32_t y = tables.output({tables.symbol(0)});
  tables.kernel({x}, {plain}, {0});
  tables.library({x}, {places}, {tables.number(7)});
  tables.kernel({plain}, {y}, {1});
  const TaskGraph graph = tables.read();
  EXPECT_FALSE(graph.slots[plain].is_late);
  EXPECT_TRUE(graph.slots[places].is_late);
  EXPECT_FALSE(graph.tasks[0].is_late);
  EXPECT_TRUE(graph.tasks[1].is_late) << "it writes something late";
  EXPECT_TRUE(graph.tasks[2].is_late) << "a size argument is found out";
  EXPECT_TRUE(graph.is_bound(tables.symbol(0)));
  EXPECT_EQ(type_text(graph, graph.slots[places]), "f32[U]");
}

TEST(TaskGraph, WhatTheHostGivesIsLate) {
  ProgramTables tables;
  const uint32_t x = tables.input({tables.number(4)});
  const uint32_t given = tables.temporary({tables.number(4)});
  const uint32_t y = tables.output({tables.number(4)});
  tables.fallback({x}, {given});
  tables.kernel({given}, {y});
  const TaskGraph graph = tables.read();
  EXPECT_TRUE(graph.slots[given].is_late) << "its place is the fallback's";
  EXPECT_TRUE(graph.tasks[1].is_late);
  EXPECT_FALSE(graph.slots[y].is_late);
}

// ---- places ----

TEST(TaskGraph, WhatLiesOverAnotherHasItsHomeAndItsLifetime) {
  ProgramTables tables;
  const uint32_t x = tables.input({tables.number(4)});
  const uint32_t a = tables.temporary({tables.number(4)});
  const uint32_t b = tables.temporary({tables.number(4)});
  const uint32_t c = tables.temporary({tables.number(4)});
  const uint32_t y = tables.output({tables.number(4)});
  tables.kernel({x}, {a});
  tables.kernel({a}, {b});
  tables.kernel({b}, {c});
  tables.kernel({c}, {y});
  tables.program.slots[b]->over = a;
  tables.program.slots[c]->over = b;
  const TaskGraph graph = tables.read();
  EXPECT_EQ(graph.slots[b].home, a);
  EXPECT_EQ(graph.slots[c].home, a);
  EXPECT_EQ(graph.slots[a].last_task, 3u) << "until the last that lies in it is read";
  EXPECT_TRUE(graph.slots[a].is_overwritten);
  EXPECT_FALSE(graph.slots[c].is_overwritten);
}

TEST(TaskGraph, AnUpdateMayBeComputedInItsTarget) {
  ProgramTables tables;
  const uint32_t s = tables.state({tables.number(4)});
  const uint32_t next = tables.temporary({tables.number(4)});
  tables.kernel({s}, {next});
  tables.update(s, next);
  tables.program.slots[next]->over = s;
  const TaskGraph graph = tables.read();
  EXPECT_EQ(graph.slots[next].home, s);
  EXPECT_TRUE(graph.slots[s].is_overwritten);
  EXPECT_THAT(graph.updates, testing::ElementsAre(testing::Pair(s, next)));
  tables.program.updates.clear();
  EXPECT_EQ(tables.error(), fmt::format("slot {} cannot lie over slot {}", next, s)) << "the state keeps its value";
}

TEST(TaskGraph, NothingLiesOverWhatIsStillRead) {
  Chain tables;
  const uint32_t late = tables.temporary({tables.number(4)});
  const uint32_t z = tables.output({tables.number(4)});
  tables.kernel({tables.x}, {late});
  tables.kernel({tables.t, late}, {z});
  tables.program.slots[late]->over = tables.t;
  EXPECT_EQ(tables.error(), fmt::format("slot {} cannot lie over slot {}", late, tables.t));
}

TEST(TaskGraph, OnlyAKernelReadsWhatItWritesOver) {
  const auto error = [](bool is_kernel) {
    Chain tables;
    const uint32_t over = tables.temporary({tables.number(4)});
    is_kernel ? tables.kernel({tables.t}, {over}) : tables.library({tables.t}, {over});
    tables.program.slots[over]->over = tables.t;
    return tables.error();
  };
  EXPECT_EQ(error(true), "");
  EXPECT_THAT(error(false), HasSubstr("cannot lie over"));
}

// ---- what breaks the rules of the format ----

TEST(TaskGraph, TasksReadWhatIsWritten) {
  Chain tables;
  std::swap(tables.program.tasks[0], tables.program.tasks[1]);
  EXPECT_EQ(tables.error(), fmt::format("task1 reads slot {}, which no task before it writes", tables.t));
  std::swap(tables.program.tasks[0], tables.program.tasks[1]);
  tables.program.tasks[0]->inputs[0] = 99;
  EXPECT_EQ(tables.error(), "task0 reads slot 99, but there are 4");
}

TEST(TaskGraph, ASlotIsWrittenOnceAndNotTheCallers) {
  Chain tables;
  tables.kernel({}, {tables.t});
  EXPECT_EQ(tables.error(), fmt::format("two tasks write slot {}", tables.t));
  tables.program.tasks[2]->outputs = {tables.x};
  EXPECT_EQ(tables.error(), fmt::format("task task2 writes slot {}, which is not its to write", tables.x));
  tables.program.tasks[2]->outputs = {99};
  EXPECT_EQ(tables.error(), "task task2 writes slot 99, but there are 4");
}

TEST(TaskGraph, NumbersAreInTheirTables) {
  const auto error = [](const std::function<void(Chain&)>& change) {
    Chain tables;
    change(tables);
    return tables.error();
  };
  EXPECT_EQ(error([](Chain& t) { t.program.tasks[1]->kernel = 2; }), "task task1 runs kernel 2, but there are 2");
  EXPECT_EQ(error([](Chain& t) { t.program.tasks[1]->sizes = {0}; }), "task task1 names symbol 0");
  EXPECT_EQ(error([](Chain& t) { t.program.tasks[1]->kind = TaskKind(9); }), "task 1 is of an unknown kind 9");
  EXPECT_EQ(error([](Chain& t) { t.program.slots[t.t]->dtype = format::DType(77); }), "slot 2 has an unknown dtype 77");
  EXPECT_EQ(error([](Chain& t) { t.program.slots[t.t]->kind = SlotKind(9); }), "slot 2 is of an unknown kind 9");
  EXPECT_EQ(error([](Chain& t) { t.program.slots[t.t]->root = 3; }), "slot 2 lies in a slot after it, 3");
  EXPECT_EQ(error([](Chain& t) { t.program.slots[t.t]->root = t.x; }),
            "slot 2 lies in slot 0, which is of another kind");
  EXPECT_EQ(error([](Chain& t) { t.program.slots[t.c]->position = 5; }), "slot 1 has position 5, but there are 1");
  EXPECT_EQ(error([](Chain& t) { t.program.slots[t.t]->shape.assign(65, t.number(1)); }), "slot 2 has 65 dimensions");
  EXPECT_EQ(error([](Chain& t) { t.program.inputs[0]->slot = t.t; }), "input 0 is not slot 0");
  EXPECT_EQ(error([](Chain& t) { t.program.outputs[0]->slot = t.t; }), "output 0 is the memory of something else");
  EXPECT_EQ(error([](Chain& t) { t.update(t.t, t.y); }),
            "an update changes slot 2, which is neither an input nor a state");
  EXPECT_EQ(error([](Chain& t) { t.program.key = 0; }), "random numbers come from input 0, which is not i64[2]");
  EXPECT_EQ(error([](Chain& t) { t.program.key = 7; }), "random numbers come from input 7, which is not there");
}

TEST(TaskGraph, SymbolsHaveValuesAndBindings) {
  const auto error = [](const std::function<void(Chain&)>& change) {
    Chain tables;
    tables.bind("N", 0, 0);
    change(tables);
    return tables.error();
  };
  EXPECT_EQ(error([](Chain&) {}), "");
  EXPECT_EQ(error([](Chain& t) { t.program.symbols[0]->low = 65; }), "symbol N has no value: it lies in [65, 64]");
  EXPECT_EQ(error([](Chain& t) { t.program.symbols.clear(); }), "there are more bindings than symbols");
  EXPECT_EQ(error([](Chain& t) { t.program.bindings[0] = format::Binding(3, 0, 1, t.number(0)); }),
            "symbol 0 is bound by input 3");
  EXPECT_EQ(error([](Chain& t) { t.program.bindings[0] = format::Binding(0, 1, 1, t.number(0)); }),
            "symbol 0 is bound by dimension 1");
  EXPECT_EQ(error([](Chain& t) { t.program.bindings[0] = format::Binding(0, 0, 0, t.number(0)); }),
            "symbol 0 is bound by nothing");
  EXPECT_EQ(error([](Chain& t) { t.program.bindings[0] = format::Binding(0, 0, 1, t.symbol(0)); }),
            "an expression names symbol 0, but there are 0")
      << "the rest names symbols before it";
}

TEST(TaskGraph, ExpressionsAsText) {
  Chain tables;
  tables.bind("N", 0, 0);
  const Expr sum = tables.code({{ExprOp::Symbol, 0},
                                {ExprOp::Constant, 3},
                                {ExprOp::Mul, 0},
                                {ExprOp::Constant, 1},
                                {ExprOp::Add, 0},
                                {ExprOp::Constant, 2},
                                {ExprOp::FloorDiv, 0},
                                {ExprOp::Constant, 9},
                                {ExprOp::Min, 0}});
  EXPECT_EQ(expr_text(tables.read(), sum), "min(((N*3) + 1//2), 9)");
  EXPECT_EQ(text_of(std::vector<int64_t>{2, 3}), "[2, 3]");
  EXPECT_EQ(text_of(std::vector<int64_t>()), "[]");
}

}  // namespace
}  // namespace tenon::runtime
