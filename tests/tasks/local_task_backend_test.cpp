#include "tasks/local_task_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tenon::tasks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TensorType type(const char* text) { return parse_type(text).value(); }

void fill(const Tensor& tensor, std::vector<double> values) {
  Tensor handle = tensor;
  for (size_t i = 0; i < values.size(); ++i) handle.set_real(static_cast<int64_t>(i), values[i]);
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.numel(); ++i) values.push_back(tensor.real(i));
  return values;
}

template <class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.diagnostic().message;
  }
  return "no error";
}

// Scales x into y by an argument, and tells how many elements that were.
struct ScaleTask {
  ScaleTask() {
    register_task({.name = "scale",
                   .tensors = {{.name = "x"}, {.name = "y", .is_written = true}},
                   .args = {{.name = "factor", .kind = AttrKind::kReal}, {.name = "count", .kind = AttrKind::kInt}}},
                  [](TaskCall& call) {
                    Tensor y = call.tensor(1);
                    for (int64_t i = 0; i < y.numel(); ++i) {
                      y.set_real(i, call.tensor(0).real(i) * std::get<double>(call.arg(0)));
                    }
                    call.set_arg(1, y.numel());
                  });
  }
  ~ScaleTask() { unregister_task("scale"); }
};

TaskNode scale_of(SlotRef source, double factor) {
  return {.task = "scale",
          .tensor_slots = {{1, type("f32[4]")}},
          .tensor_dependencies = {{0, source}},
          .arg_slots = {{0, factor}, {1, int64_t{0}}}};
}

// relu(x) -> scale -> exp
TaskGraph chain() {
  TaskGraph graph;
  const TaskId relu = graph.add({.task = "relu", .tensor_slots = {{0, type("f32[4]")}}});
  const TaskId scaled = graph.add(scale_of({relu, 1}, 2.0));
  graph.add({.task = "neg", .tensor_dependencies = {{0, {scaled, 1}}}});
  return graph;
}

TEST(LocalTaskBackend, RunsOpsAndTasksOfOnesOwn) {
  const ScaleTask registered;
  LocalTaskBackend backend(1 << 16);
  const std::vector<TaskId> ids = backend.insert_graph(chain());
  fill(backend.get_tensor({ids[0], 0}), {-1, 2, 3, -4});
  backend.launch();
  EXPECT_THAT(values_of(backend.get_tensor({ids[0], 1})), ElementsAre(0, 2, 3, 0));  // any tensor on the way
  EXPECT_THAT(values_of(backend.get_tensor({ids[1], 1})), ElementsAre(0, 4, 6, 0));
  EXPECT_THAT(values_of(backend.get_tensor({ids[2], 1})), ElementsAre(0, -4, -6, 0));
  EXPECT_EQ(std::get<int64_t>(backend.get_arg({ids[1], 1})), 4);  // set by the task
  backend.set_arg({ids[1], 0}, 10.0);
  backend.launch();
  EXPECT_THAT(values_of(backend.get_tensor({ids[2], 1})), ElementsAre(0, -20, -30, 0));
}

TEST(LocalTaskBackend, TakesTensorsOfTheCaller) {
  const ScaleTask registered;
  LocalTaskBackend backend;
  const std::vector<TaskId> ids = backend.insert_graph(chain());
  const Tensor x = Tensor::zeros(DType::kF32, {4});
  fill(x, {1, 2, 3, 4});
  backend.set_tensor({ids[0], 0}, x);
  backend.launch();
  EXPECT_THAT(values_of(backend.get_tensor({ids[2], 1})), ElementsAre(-2, -4, -6, -8));
  EXPECT_THAT(message_of([&] { backend.set_tensor({ids[0], 0}, Tensor::zeros(DType::kF32, {5})); }),
              HasSubstr("tensor 'x' of task 0 (relu) is f32[4], got f32[5]"));
  EXPECT_THAT(message_of([&] { backend.set_tensor({ids[1], 0}, x); }), HasSubstr("depends on another task"));
}

TEST(LocalTaskBackend, RefusesMemoryThatItCannotWrite) {
  LocalTaskBackend backend;
  const TaskId relu = backend.insert_task({.task = "relu", .tensor_slots = {{0, type("f32[4]")}}});
  const Tensor x = backend.get_tensor({relu, 0});
  const Tensor fixed = Tensor::borrow(DType::kF32, {4}, {1}, x.data(), nullptr, Access::kReadOnly);
  EXPECT_THAT(message_of([&] { backend.set_tensor({relu, 1}, fixed); }), HasSubstr("is read-only"));
  const Tensor memory = Tensor::zeros(DType::kF32, {5});
  const auto part = [&](int64_t first) {
    return Tensor::borrow(DType::kF32, {4}, {1}, memory.data() + first * 4, memory.owner());
  };
  fill(memory, {1, 2, 3, 4, 5});
  backend.set_tensor({relu, 0}, part(0));
  backend.set_tensor({relu, 1}, part(1));
  EXPECT_THAT(message_of([&] { backend.launch(); }), HasSubstr("overlap"));
}

TEST(LocalTaskBackend, PassesArgumentsOn) {
  const ScaleTask registered;
  LocalTaskBackend backend;
  const TaskId first = backend.insert_task({.task = "scale",
                                            .tensor_slots = {{0, type("f32[3]")}, {1, type("f32[3]")}},
                                            .arg_slots = {{0, 1.0}, {1, int64_t{0}}}});
  const TaskId second = backend.insert_task({.task = "scale",
                                             .tensor_slots = {{1, type("f32[2]")}},
                                             .tensor_dependencies = {{0, {first, 1}}},
                                             .arg_slots = {{1, int64_t{0}}},
                                             .arg_dependencies = {{0, {first, 0}}}});
  backend.set_arg({first, 0}, 3.0);
  fill(backend.get_tensor({first, 0}), {1, 1, 1});
  backend.launch();
  EXPECT_THAT(values_of(backend.get_tensor({second, 1})), ElementsAre(9, 9));
  EXPECT_THAT(
      message_of([&] { backend.insert_task({.task = "scale", .arg_dependencies = {{0, {first, 1}}}}); }),
      HasSubstr("argument 'factor' of task 2 (scale) depends on argument 1 of task 0 (scale), which is not of"));
}

// Counts its launches in its argument.
struct CountTask {
  CountTask() {
    register_task({.name = "count", .tensors = {}, .args = {{.name = "n", .kind = AttrKind::kInt}}},
                  [](TaskCall& call) {
                    const int64_t n = std::get<int64_t>(call.arg(0));
                    if (n < 100) call.set_arg(0, n + 1);
                  });
  }
  ~CountTask() { unregister_task("count"); }
};

TEST(LocalTaskBackend, PassesOnWhatEachTaskMakesOfAnArgument) {
  const CountTask registered;
  LocalTaskBackend backend;
  TaskGraph graph;
  graph.add({.task = "count", .arg_slots = {{0, int64_t{5}}}});
  graph.add({.task = "count", .arg_dependencies = {{0, {0, 0}}}});
  graph.add({.task = "count", .arg_dependencies = {{0, {1, 0}}}});
  const std::vector<TaskId> ids = backend.insert_graph(graph);
  const auto values = [&] {
    std::vector<int64_t> all;
    for (TaskId id : ids) all.push_back(std::get<int64_t>(backend.get_arg({id, 0})));
    return all;
  };
  EXPECT_THAT(values(), ElementsAre(5, 5, 5));
  backend.launch();
  EXPECT_THAT(values(), ElementsAre(6, 7, 8));
  backend.launch();
  EXPECT_THAT(values(), ElementsAre(7, 8, 9));
  backend.set_arg({ids[0], 0}, int64_t{200});
  backend.launch();
  EXPECT_THAT(values(), ElementsAre(200, 200, 200));
  backend.set_arg({ids[0], 0}, int64_t{300});
  EXPECT_THAT(values(), ElementsAre(300, 300, 300));  // Nobody changed what depends on it.
  EXPECT_THAT(message_of([&] { backend.set_arg({ids[1], 0}, int64_t{1}); }),
              HasSubstr("argument 'n' of task 1 (count) depends on another task"));
  const TaskNode both{.task = "count", .arg_slots = {{0, int64_t{1}}}, .arg_dependencies = {{0, {ids[0], 0}}}};
  EXPECT_THAT(message_of([&] { backend.insert_task(both); }), HasSubstr("a value of its own and depends on another"));
}

TEST(LocalTaskBackend, NamesWhatATaskLacks) {
  const ScaleTask registered;
  LocalTaskBackend backend;
  const TaskId bare = backend.insert_task({.task = "scale", .tensor_slots = {{1, type("f32[2]")}}});
  EXPECT_THAT(message_of([&] { backend.launch(); }), HasSubstr("argument 'factor' of task 0 (scale) has no value"));
  backend.set_arg({bare, 0}, 2.0);
  backend.set_arg({bare, 1}, int64_t{0});
  EXPECT_THAT(message_of([&] { backend.launch(); }), HasSubstr("tensor 'x' of task 0 (scale) is not there"));
  EXPECT_THAT(message_of([] { register_task({.name = ""}, [](TaskCall&) {}); }), HasSubstr("a task needs a name"));
  EXPECT_THAT(message_of([] { register_task({.name = "idle"}, {}); }), HasSubstr("task 'idle' has no function"));
}

TEST(LocalTaskBackend, CountsReadersAndFreesWhatNobodyReads) {
  const ScaleTask registered;
  LocalTaskBackend backend(1 << 16);
  const std::vector<TaskId> ids = backend.insert_graph(chain());
  EXPECT_EQ(backend.retriever().ref_count({ids[0], 1}), 1);
  EXPECT_EQ(backend.retriever().ref_count({ids[2], 1}), 0);
  backend.launch();
  const int64_t all = backend.allocator().used();
  backend.cleanup(ids[0]);  // its input is free, its result is read
  EXPECT_EQ(backend.allocator().used(), all - 16);
  EXPECT_THAT(message_of([&] { backend.get_tensor({ids[0], 0}); }), HasSubstr("there is no task 0"));
  backend.launch();
  backend.cleanup(ids[1]);
  EXPECT_EQ(backend.allocator().used(), all - 32);
  backend.cleanup(ids[2]);
  EXPECT_EQ(backend.allocator().used(), 0);
}

TEST(LocalTaskBackend, FusesOps) {
  LocalTaskBackend backend(1 << 16);
  TaskGraph graph;
  const TaskId product =
      graph.add({.task = "matmul", .tensor_slots = {{0, type("f32[2, 3]")}, {1, type("f32[3, 2]")}}});
  const TaskId relu = graph.add({.task = "relu", .tensor_dependencies = {{0, {product, 2}}}});
  const TaskId exp = graph.add({.task = "exp", .tensor_dependencies = {{0, {product, 2}}}});
  const TaskId sum = graph.add({.task = "add", .tensor_dependencies = {{0, {relu, 1}}, {1, {relu, 1}}}});
  backend.insert_graph(graph);
  fill(backend.get_tensor({product, 0}), {1, 2, 3, -1, -2, -3});
  fill(backend.get_tensor({product, 1}), {1, 0, 0, 1, 1, 0});
  backend.launch();
  const std::vector<double> expected = values_of(backend.get_tensor({sum, 2}));
  EXPECT_THAT(expected, ElementsAre(8, 4, 0, 0));
  const int64_t before = backend.allocator().used();
  const std::vector<TaskId> members = {product, relu, sum};
  const TaskId fused = backend.fuse(members);
  EXPECT_EQ(backend.signature(fused).name, "matmul+relu+add");
  EXPECT_THAT(backend.order(), ElementsAre(fused, exp));  // exp reads the product, and goes behind
  EXPECT_EQ(backend.allocator().used(), before - 16);     // relu's result has no memory now
  fill(backend.get_tensor({sum, 2}), {9, 9, 9, 9});
  backend.launch();
  EXPECT_EQ(values_of(backend.get_tensor({sum, 2})), expected);
  EXPECT_NEAR(backend.get_tensor({exp, 1}).real(1), std::exp(2.0), 1e-5);
  EXPECT_THAT(message_of([&] { backend.get_tensor({relu, 1}); }), HasSubstr("task 4 computes it on the way"));
  EXPECT_THAT(message_of([&] { backend.launch(relu); }), HasSubstr("was fused into task 4"));
  backend.cleanup(exp);
  backend.cleanup(fused);
  EXPECT_EQ(backend.allocator().used(), 0);
}

TEST(LocalTaskBackend, RefusesToFuseAroundATaskThatIsNeeded) {
  const ScaleTask registered;
  LocalTaskBackend backend;
  const std::vector<TaskId> ids = backend.insert_graph(chain());
  const std::vector<TaskId> ends = {ids[0], ids[2]};
  EXPECT_THAT(message_of([&] { backend.fuse(ends); }),
              HasSubstr("task 2 (neg) needs task 1 (scale), which needs other tasks that are to be fused with it"));
  EXPECT_THAT(message_of([&] { backend.fuse(ids); }), HasSubstr("task 1 (scale) is a function"));
  fill(backend.get_tensor({ids[0], 0}), {1, 1, 1, 1});
  backend.launch();  // nothing has changed
  EXPECT_THAT(values_of(backend.get_tensor({ids[2], 1})), ElementsAre(-2, -2, -2, -2));
}

// A task that writes over what an op has read must stay behind that op.
TEST(LocalTaskBackend, KeepsWritesBehindReads) {
  register_task({.name = "clear", .tensors = {{.name = "x", .is_written = true}}},
                [](TaskCall& call) { fill(call.tensor(0), {0, 0}); });
  LocalTaskBackend backend;
  const TaskId first = backend.insert_task({.task = "neg", .tensor_slots = {{0, type("f32[2]")}}});
  const TaskId clear = backend.insert_task({.task = "clear", .tensor_dependencies = {{0, {first, 0}}}});
  const TaskId last = backend.insert_task({.task = "neg", .tensor_dependencies = {{0, {first, 1}}}});
  const std::vector<TaskId> both = {first, last};
  const TaskId fused = backend.fuse(both);
  EXPECT_THAT(backend.order(), ElementsAre(fused, clear));
  fill(backend.get_tensor({first, 0}), {3, 4});
  backend.launch();
  EXPECT_THAT(values_of(backend.get_tensor({last, 1})), ElementsAre(3, 4));
  EXPECT_THAT(values_of(backend.get_tensor({first, 0})), ElementsAre(0, 0));
  unregister_task("clear");
}

TEST(LocalTaskBackend, KeepsItsBudget) {
  LocalTaskBackend backend(256);
  TaskGraph graph;
  graph.add({.task = "relu", .tensor_slots = {{0, type("f32[16]")}}});
  graph.add({.task = "relu", .tensor_slots = {{0, type("f32[64]")}}});
  EXPECT_THAT(message_of([&] { backend.insert_graph(graph); }),
              HasSubstr("task 1 (relu) needs 256 bytes for its tensor 'x', and 128 of 256 are in use"));
  EXPECT_EQ(backend.allocator().used(), 0);  // nothing was inserted
  EXPECT_THAT(backend.order(), ElementsAre());
}

TEST(LocalTaskBackend, SaysWhatIsWrong) {
  const ScaleTask registered;
  LocalTaskBackend backend;
  const auto inserting = [&](TaskNode node) { return message_of([&] { backend.insert_task(node); }); };
  EXPECT_THAT(inserting({.task = "rely"}), HasSubstr("there is no task 'rely'; did you mean 'relu'?"));
  EXPECT_THAT(inserting({.task = "relu"}), HasSubstr("tensor 'x' of task 1 (relu) has no memory"));
  EXPECT_THAT(inserting({.task = "relu", .tensor_slots = {{7, type("f32[1]")}}}), HasSubstr("has 2 tensors, and no"));
  EXPECT_THAT(inserting({.task = "relu", .tensor_slots = {{0, type("f32[N]")}}}), HasSubstr("its size must be known"));
  EXPECT_THAT(inserting({.task = "scale", .arg_slots = {{0, true}}}),
              HasSubstr("'factor' of task 4 (scale) is of kind"));
  EXPECT_THAT(inserting({.task = "concat"}), HasSubstr("takes any number of operands"));
  EXPECT_THAT(message_of([] { register_task({.name = "relu"}, [](TaskCall&) {}); }),
              HasSubstr("has the name of an op"));
  EXPECT_THAT(message_of([] { register_task({.name = "scale"}, [](TaskCall&) {}); }), HasSubstr("registered already"));
  TaskGraph graph;
  graph.add({.task = "relu", .tensor_dependencies = {{0, {1, 0}}}});
  EXPECT_THAT(message_of([&] { backend.insert_graph(graph); }), HasSubstr("node 0 depends on node 1"));
  const std::vector<TaskId> ids = backend.insert_graph(chain());
  EXPECT_THAT(message_of([&] { backend.launch(ids[1]); }), HasSubstr("(scale) reads what task"));
}

}  // namespace
}  // namespace tenon::tasks
