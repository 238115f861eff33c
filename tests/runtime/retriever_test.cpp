#include "runtime/retriever.h"

#include <gtest/gtest.h>

#include "tests/runtime/support_program.h"

namespace tenon::runtime {
namespace {

using test::ProgramTables;

// x (N) -> t -> y (N), with a constant; t2 is t under another name.
class RetrieverTest : public testing::Test {
 protected:
  RetrieverTest() {
    tables.bind("N", 0, 0);
    tables.kernel({x, c}, {t});
    tables.kernel({t2, x}, {y}, {0});
  }

  void place_all(Retriever& retriever) {
    for (uint32_t slot : {x, c, t, y}) retriever.place(slot, memory + slot);
  }

  ProgramTables tables;
  uint32_t x = tables.input({tables.number(4)});
  uint32_t c = tables.constant({tables.number(4)});
  uint32_t t = tables.temporary({tables.number(4)});
  uint32_t t2 = tables.alias(t, {tables.number(2), tables.number(2)});
  uint32_t y = tables.output({tables.number(4)});
  char memory[16] = {};
};

TEST_F(RetrieverTest, InputsComeFirstThenOutputs) {
  const TaskGraph graph = tables.read();
  Retriever retriever(graph);
  place_all(retriever);
  retriever.resolve(std::vector<int64_t>{4});
  EXPECT_EQ(retriever.get_tensor(0, 0), memory + x);
  EXPECT_EQ(retriever.get_tensor(0, 1), memory + c);
  EXPECT_EQ(retriever.get_tensor(0, 2), memory + t);
  EXPECT_EQ(retriever.get_tensor(1, 0), memory + t) << "an alias lies where its root does";
  EXPECT_EQ(retriever.get_tensor(1, 1), memory + x);
  EXPECT_EQ(retriever.get_tensor(1, 2), memory + y);
  EXPECT_EQ(retriever.tensors(1)[2], memory + y);
  EXPECT_EQ(retriever.get_arg(1, 0), 4);
  EXPECT_EQ(*retriever.args(1), 4);
}

TEST_F(RetrieverTest, NothingReachesTasksBeforeItIsResolved) {
  const TaskGraph graph = tables.read();
  Retriever retriever(graph);
  place_all(retriever);
  EXPECT_EQ(retriever.place_of(t2), memory + t);
  EXPECT_EQ(retriever.get_tensor(0, 0), nullptr);
  retriever.resolve(1, std::vector<int64_t>{7});
  EXPECT_EQ(retriever.get_tensor(0, 0), nullptr) << "of another task";
  EXPECT_EQ(retriever.get_tensor(1, 1), memory + x);
  EXPECT_EQ(retriever.get_arg(1, 0), 7);
}

TEST_F(RetrieverTest, OnlyTheCallersMemoryMoves) {
  const TaskGraph graph = tables.read();
  Retriever retriever(graph);
  place_all(retriever);
  retriever.resolve(std::vector<int64_t>{4});
  for (uint32_t slot : {x, c, t, y}) retriever.place(slot, memory + 8 + slot);
  retriever.resolve_callers();
  EXPECT_EQ(retriever.get_tensor(0, 0), memory + 8 + x);
  EXPECT_EQ(retriever.get_tensor(1, 1), memory + 8 + x) << "in every task that reads it";
  EXPECT_EQ(retriever.get_tensor(1, 2), memory + 8 + y);
  EXPECT_EQ(retriever.get_tensor(0, 1), memory + c);
  EXPECT_EQ(retriever.get_tensor(0, 2), memory + t);
}

// A result that the fallback gives lies where the fallback says, whatever the caller set.
TEST_F(RetrieverTest, ALateResultIsNotTheCallers) {
  const uint32_t z = tables.output({tables.number(4)});
  tables.fallback({x}, {z});
  const TaskGraph graph = tables.read();
  Retriever retriever(graph);
  place_all(retriever);
  retriever.place(z, memory + z);
  retriever.resolve(std::vector<int64_t>{4});
  retriever.place(z, memory + 8 + z);
  retriever.resolve_callers();
  EXPECT_EQ(retriever.get_tensor(2, 1), memory + z);
}

// What takes the place of another has no place of its own.
TEST_F(RetrieverTest, ASlotLiesInItsHome) {
  const uint32_t over = tables.temporary({tables.number(4)});
  tables.kernel({t}, {over});
  tables.program.slots[over]->over = t;
  const TaskGraph graph = tables.read();
  Retriever retriever(graph);
  place_all(retriever);
  retriever.resolve(std::vector<int64_t>{4});
  EXPECT_EQ(retriever.place_of(over), memory + t);
  EXPECT_EQ(retriever.get_tensor(2, 0), memory + t);
  EXPECT_EQ(retriever.get_tensor(2, 1), memory + t);
}

}  // namespace
}  // namespace tenon::runtime
