// Building and evaluating a graph in C++: the example of docs/tutorial.md, whole.
#include <cstdio>

#include "graph/builder.h"
#include "graph/evaluate.h"

using namespace tenon;

int main() {
  try {
    // [tutorial]
    Graph graph("model");
    Builder b(graph);
    const Value x = b.value(graph.add_input("x", parse_type("f32[N, 4]").value()));
    const Value y = b.exp(x) / b.sum(b.exp(x), {-1}, /*keepdim=*/true);
    graph.set_outputs({y.ref()});

    Tensor input = Tensor::zeros(DType::kF32, {2, 4});
    const std::vector<Tensor> outputs = evaluate(graph, std::vector{input}).value();
    // [tutorial]
    std::fputs(to_string(graph).c_str(), stdout);
    std::printf("softmax of zeros: %g\n", outputs[0].real(0));
    return outputs[0].real(0) == 0.25 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
