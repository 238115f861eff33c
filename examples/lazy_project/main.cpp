// Trains a small network on PyTorch's device "lazy", with Tenon behind it and without Python.
#include <tenon/lazy.h>
#include <torch/torch.h>

#include <cstdio>

namespace {

// A point of the plane belongs to class 1 if it is inside of the unit circle.
struct Batch {
  torch::Tensor points = torch::rand({256, 2}) * 3 - 1.5;
  torch::Tensor classes = (points.square().sum(1) < 1).to(torch::kLong);
};

// PyTorch's C++ modules cannot be moved to device "lazy" (Module::to writes into their memory), so the parameters are
// made on the CPU, and copies of them are the module's.
struct Network : torch::nn::Module {
  Network() : w1(add("w1", {2, 32}, 0.7)), b1(add("b1", {32}, 0)), w2(add("w2", {32, 2}, 0.2)), b2(add("b2", {2}, 0)) {}

  torch::Tensor forward(const torch::Tensor& x) { return torch::addmm(b2, torch::addmm(b1, x, w1).relu(), w2); }

  torch::Tensor w1, b1, w2, b2;

 private:
  torch::Tensor add(const std::string& name, torch::IntArrayRef shape, double scale) {
    return register_parameter(name, (torch::randn(shape) * scale).to(torch::kLazy));
  }
};

// [step]
// The loss of a step, which is computed when somebody asks for it.
torch::Tensor step(Network& network, torch::optim::Optimizer& optimizer, const Batch& batch) {
  optimizer.zero_grad();
  const torch::Tensor loss = torch::nn::functional::cross_entropy(network.forward(batch.points), batch.classes);
  loss.backward();
  optimizer.step();
  tenon::lazy::mark_step();
  return loss.detach();
}
// [step]

}  // namespace

int main() {
  try {
    tenon::lazy::init();
    torch::manual_seed(0);
    Batch batch;
    batch.points = batch.points.to(torch::kLazy);
    batch.classes = batch.classes.to(torch::kLazy);
    Network network;
    torch::optim::Adam optimizer(network.parameters(), torch::optim::AdamOptions(0.02));

    const double first = step(network, optimizer, batch).item<double>();
    for (int i = 0; i < 200; ++i) step(network, optimizer, batch);
    const double last = step(network, optimizer, batch).item<double>();
    const torch::Tensor guesses = network.forward(batch.points).argmax(1);
    const int64_t right = (guesses == batch.classes).sum().item<int64_t>();
    std::printf("loss %.2f, after 200 steps %.2f\n", first, last);
    std::printf("%lld of 256 points are right\n", static_cast<long long>(right));
    std::printf("%s\n", to_string(tenon::lazy::metrics()).c_str());
    return last < first / 2 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
