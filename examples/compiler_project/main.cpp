// Makes a classifier, trains it, compiles it, and saves it for programs that have the runtime alone.
#include <tenon/compiler.h>

#include <cstdio>

using namespace tenon;

namespace {

// A point of the plane belongs to class 1 if it is above the diagonal.
Graph make_classifier() {
  Graph graph("classifier");
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", parse_type("f32[N, 2]").value()));
  const Value weight =
      b.value(graph.add_parameter("weight", parse_type("f32[2, 2]").value(), Tensor::zeros(DType::kF32, {2, 2})));
  graph.set_outputs({b.matmul(x, weight).ref()});
  return graph;
}

struct Batch {
  Tensor points = Tensor::zeros(DType::kF32, {64, 2});
  Tensor classes = Tensor::zeros(DType::kI64, {64});
};

Batch make_batch() {
  Batch batch;
  for (int64_t i = 0; i < 64; ++i) {
    const double x = static_cast<double>(i % 8) - 3.5, y = static_cast<double>(i / 8) - 3.2;
    batch.points.set_real(2 * i, x);
    batch.points.set_real(2 * i + 1, y);
    batch.classes.set_integer(i, y > x ? 1 : 0);
  }
  return batch;
}

int64_t count_right(const Tensor& scores, const Tensor& classes) {
  int64_t right = 0;
  for (int64_t i = 0; i < classes.numel(); ++i) {
    right += (scores.real(2 * i + 1) > scores.real(2 * i)) == (classes.integer(i) == 1) ? 1 : 0;
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Graph model = make_classifier();
    const Batch batch = make_batch();
    LocalTrainingInstance trainer({model, model}, {.loss = parse_loss("cross_entropy").value(),
                                                   .optimizer = parse_optimizer("sgd(lr=0.5)").value()});
    const double first = trainer.step(std::vector{batch.points}, batch.classes).real(0);
    double last = first;
    for (int i = 0; i < 200; ++i) last = trainer.step(std::vector{batch.points}, batch.classes).real(0);
    std::printf("loss %.2f, after 200 steps %.2f\n", first, last);

    const Program& program = trainer.predict_program();
    const Tensor scores = program.run(std::vector{batch.points})[0];
    std::printf("%lld of 64 points are right\n", static_cast<long long>(count_right(scores, batch.classes)));
    std::fputs(describe(program).c_str(), stdout);
    if (argc == 2) write_artifact(argv[1], {&program}).value();
    return last < first / 2 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
