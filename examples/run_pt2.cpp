// Runs a model that PyTorch exported, without Python: one layer, relu(x @ weight.T + [0.5, -0.5]).
#include <cstdio>

#include "capture/import_pt2.h"
#include "driver/pipeline.h"
#include "program/report.h"

using namespace tenon;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: example_run_pt2 tests/capture/data/linear.pt2\n", stderr);
    return 1;
  }
  try {
    // [readme]
    const Imported model = import_pt2(argv[1]).value();  // the file is mapped: weights are not copied to be read
    const Program program = compile_program(model.graph).value();
    std::fputs(describe(program).c_str(), stdout);  // "Segment 0: cpu (3 ops)", and its kernels

    const Tensor x = Tensor::zeros(DType::kF32, {5, 3});
    const std::vector<Tensor> outputs = program.run(std::vector{x});
    // [readme]
    return outputs[0].real(0) == 0.5 && outputs[0].real(1) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
