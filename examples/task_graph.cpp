// Tasks put together by hand: two ops, and a task of one's own between them. The example of docs/tutorial.md, whole.
#include <cstdio>

#include "tasks/local_task_backend.h"

using namespace tenon;

namespace {

void round_down(tasks::TaskCall& call) {
  Tensor y = call.tensor(1);
  const double step = std::get<double>(call.arg(0));
  for (int64_t i = 0; i < y.numel(); ++i) {
    const double x = call.tensor(0).real(i);
    y.set_real(i, static_cast<double>(static_cast<int64_t>(x / step)) * step);
  }
}

}  // namespace

int main() {
  try {
    // [tutorial]
    tasks::register_task({.name = "round_down",
                          .tensors = {{.name = "x"}, {.name = "y", .is_written = true}},
                          .args = {{.name = "step", .kind = AttrKind::kReal}}},
                         round_down);

    const TensorType pair = parse_type("f32[2]").value();
    tasks::TaskGraph graph;
    const tasks::TaskId exp = graph.add({.task = "exp", .tensor_slots = {{0, pair}}});
    const tasks::TaskId rounded = graph.add({.task = "round_down",
                                             .tensor_slots = {{1, pair}},
                                             .tensor_dependencies = {{0, {exp, 1}}},
                                             .arg_slots = {{0, 0.5}}});
    const tasks::TaskId root = graph.add({.task = "sqrt", .tensor_dependencies = {{0, {rounded, 1}}}});

    tasks::LocalTaskBackend backend(4096);  // bytes
    backend.insert_graph(graph);
    backend.launch();
    const Tensor& y = backend.get_tensor({root, 1});      // sqrt(1), twice
    const Tensor& middle = backend.get_tensor({exp, 1});  // exp(0): every tensor on the way is there
    const int64_t readers = backend.retriever().ref_count({exp, 1});
    // [tutorial]
    std::printf("%g, from %g, which %lld task reads; %lld bytes\n", y.real(0), middle.real(1),
                static_cast<long long>(readers), static_cast<long long>(backend.allocator().used()));
    return y.real(0) == 1 && readers == 1 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
