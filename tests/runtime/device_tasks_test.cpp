// Which tasks of the host wait for tasks of devices, and what the format forbids them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/task_graph.h"
#include "tests/runtime/support_program.h"

namespace tenon::runtime::test {
namespace {

using testing::HasSubstr;

// x -> host kernel -> a -> device (in -> out) -> b -> host kernel -> y
struct RoundTrip : ProgramTables {
  uint16_t npu = space("npu");
  uint32_t x = input({number(8)});
  uint32_t a = temporary({number(8)});
  uint32_t in = put(temporary({number(8)}), npu);
  uint32_t out = put(temporary({number(8)}), npu);
  uint32_t b = temporary({number(8)});
  uint32_t y = output({number(8)});
};

TEST(DeviceTasks, HostWaitsForWhatItReads) {
  RoundTrip t;
  t.kernel({t.x}, {t.a});
  t.transfer(t.a, t.in);
  t.device({t.in}, {t.out});
  const uint32_t back = t.transfer(t.out, t.b);
  const uint32_t last = t.kernel({t.b}, {t.y});
  const TaskGraph graph = t.read();
  for (uint32_t i = 0; i < last; ++i) EXPECT_EQ(graph.tasks[i].wait_for, kNone) << i;
  EXPECT_EQ(graph.tasks[last].wait_for, back);
  EXPECT_EQ(graph.tasks[back].space, t.npu);
}

TEST(DeviceTasks, MemoryOfTransfersStaysUntilSomebodyWaited) {
  RoundTrip t;
  const uint32_t c = t.temporary({t.number(8)});
  t.kernel({t.x}, {t.a});
  t.transfer(t.a, t.in);  // the device may read `a` until task 5 waits
  t.device({t.in}, {t.out});
  t.transfer(t.out, t.b);
  t.kernel({t.x}, {c});
  const uint32_t waits = t.kernel({t.b, c}, {t.y});
  const TaskGraph graph = t.read();
  EXPECT_EQ(graph.slots[t.a].last_task, waits);
  EXPECT_EQ(graph.slots[t.in].last_task, 2U);  // the queue keeps the order of a device's memory
}

TEST(DeviceTasks, MemoryThatNobodyWaitsForStaysUntilTheEnd) {
  RoundTrip t;
  t.kernel({t.x}, {t.a});
  t.transfer(t.a, t.in);
  t.kernel({t.x}, {t.y});
  const TaskGraph graph = t.read();
  EXPECT_EQ(graph.slots[t.a].last_task, graph.tasks.size());
}

TEST(DeviceTasks, WritingOverWhatATransferReadsWaits) {
  RoundTrip t;
  const uint32_t over = t.temporary({t.number(8)});
  t.program.slots[over]->over = t.a;
  t.kernel({t.x}, {t.a});
  const uint32_t transfer = t.transfer(t.a, t.in);
  const uint32_t writer = t.kernel({t.a}, {over});
  t.kernel({over}, {t.y});
  const TaskGraph graph = t.read();
  EXPECT_EQ(graph.tasks[writer].wait_for, transfer);
}

TEST(DeviceTasks, ASecondDeviceWaitsForTheHostsCopy) {
  RoundTrip t;
  const uint16_t other = t.space("gpu");
  const uint32_t there = t.put(t.temporary({t.number(8)}), other);
  t.transfer(t.x, t.in);
  t.device({t.in}, {t.out});
  const uint32_t back = t.transfer(t.out, t.b);
  const uint32_t onward = t.transfer(t.b, there);
  t.kernel({t.b}, {t.y});
  EXPECT_EQ(t.read().tasks[onward].wait_for, back);
}

// ---- what may lie in memory of the caller on a device ----

TEST(DeviceTasks, InputsAndResultsMayLieOnTheDevice) {
  RoundTrip t;
  const uint32_t there = t.transfer(t.x, t.in);
  t.device({t.in}, {t.out});
  const uint32_t back = t.transfer(t.out, t.y);
  const TaskGraph graph = t.read();
  ASSERT_EQ(graph.arrivals.size(), 1U);
  EXPECT_EQ(graph.arrivals[0].task, there);
  ASSERT_EQ(graph.departures.size(), 1U);
  EXPECT_EQ(graph.departures[0].task, back);
  EXPECT_FALSE(graph.departures[0].is_read_on_host);
}

// So a tensor of the caller is never overwritten there.
TEST(DeviceTasks, NothingOverwritesMemoryOfADevice) {
  RoundTrip t;
  t.program.slots[t.out]->over = t.in;
  t.transfer(t.x, t.in);
  t.device({t.in}, {t.out});
  t.transfer(t.out, t.y);
  EXPECT_THAT(t.error(), HasSubstr("cannot lie over"));
}

TEST(DeviceTasks, OfTwoResultsWithOneValueOneStaysThere) {
  RoundTrip t;
  const uint32_t second = t.output({t.number(8)});
  t.transfer(t.x, t.in);
  t.device({t.in}, {t.out});
  t.transfer(t.out, t.y);
  t.transfer(t.out, second);
  const TaskGraph graph = t.read();
  ASSERT_EQ(graph.departures.size(), 1U);
  EXPECT_EQ(graph.departures[0].output, 0U);
}

TEST(DeviceTasks, SpacesAreChecked) {
  RoundTrip kernel;
  kernel.kernel({kernel.in}, {kernel.y});
  EXPECT_THAT(kernel.error(), HasSubstr("no task before it writes"));
  RoundTrip device;
  device.device({device.x}, {device.out});
  EXPECT_THAT(device.error(), HasSubstr("reads or writes memory that is not its device's"));
  RoundTrip host;
  host.transfer(host.x, host.in);
  host.kernel({host.in}, {host.y});
  EXPECT_THAT(host.error(), HasSubstr("reads or writes memory that is not its device's"));
  RoundTrip same;
  same.transfer(same.x, same.y);
  EXPECT_THAT(same.error(), HasSubstr("is not between host and device"));
  RoundTrip far;
  far.program.slots[far.in]->space = 7;
  EXPECT_THAT(far.error(), HasSubstr("is in space 7, but there are 1"));
  RoundTrip result;
  result.program.slots[result.y]->space = 1;
  EXPECT_THAT(result.error(), HasSubstr("neither a constant nor a temporary"));
}

}  // namespace
}  // namespace tenon::runtime::test
