// An entry of one's own in the aten registry, for an operator of one's own: model files that call it can then be
// compiled. Here a call is imported by hand.
#include <cmath>
#include <cstdio>

#include "capture/importer.h"
#include "graph/evaluate.h"

using namespace tenon;

int main() {
  try {
    // [entry]
    aten_table().add("docs.swish.default(x, beta=1.0)", [](AtenCall& c) -> AtenArg {
      const Value x = c.tensor("x");
      if (!is_float(x.dtype())) c.decline("swish of {}", name_of(x.dtype()));
      return x * c.op("sigmoid", {x * c.real("beta")});
    });
    // [entry]
    Importer importer("model");
    const AtenArg x = importer.input("x", parse_type("f32[N]").value());
    const AtenArg y = importer.call({"docs.swish.default", {x, 2.0}});
    const Graph graph = importer.finish({y});
    std::fputs(to_string(graph).c_str(), stdout);

    Tensor input = Tensor::zeros(DType::kF32, {3});
    input.set_real(1, 1.5);
    const double result = evaluate(graph, std::vector{input}).value()[0].real(1);
    return std::abs(result - 1.5 / (1 + std::exp(-3.0))) < 1e-6 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
