// What a C++ program may do with device "lazy", one kind of work per run: lazy_program train|threads|long|... Ends with
// 0 if all of it is right. There is no Python in the process.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <tenon/lazy.h>

#include <barrier>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <thread>

namespace {

namespace lazy = tenon::lazy;

void check(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

void check_close(const at::Tensor& given, const at::Tensor& expected, const std::string& what) {
  check(at::allclose(given.cpu(), expected.cpu(), 1e-4, 1e-5), what + ": the results differ from the CPU's");
}

void check_all_ran_on_tenon() {
  const lazy::Metrics metrics = lazy::metrics();
  check(metrics.torchscript_runs == 0 && metrics.fallbacks.empty() && metrics.internal_errors.empty(),
        "Tenon did not run all of it:\n" + to_string(metrics));
}

template <class Function>
void check_throws(Function function, const std::string& text) {
  try {
    function();
  } catch (const std::exception& error) {
    return check(std::string(error.what()).find(text) != std::string::npos,
                 std::string("another error: ") + error.what());
  }
  check(false, "no error that says " + text);
}

// ---- training -------------------------------------------------------------------------------------------------------

struct Network {
  std::vector<at::Tensor> weights, momentum;

  Network(const at::Device& device, double scale) {
    for (const auto& shape : {std::vector<int64_t>{8, 16}, {16}, {16, 3}, {3}}) {
      int64_t count = 1;
      for (int64_t size : shape) count *= size;
      const at::Tensor values = at::arange(count, at::kFloat).mul(0.37).sin().reshape(shape) * scale;
      weights.push_back(values.to(device).requires_grad_());
      momentum.push_back(at::zeros(shape).to(device));
    }
  }

  at::Tensor step(const at::Tensor& x, const at::Tensor& y) {
    const at::Tensor hidden = at::addmm(weights[1], x, weights[0]).relu();
    const at::Tensor loss = at::cross_entropy_loss(at::addmm(weights[3], hidden, weights[2]), y);
    loss.backward();
    const c10::NoGradGuard no_grad;
    for (size_t i = 0; i < weights.size(); ++i) {
      momentum[i].mul_(0.9).add_(weights[i].grad());
      weights[i].add_(momentum[i], -0.05);
      weights[i].mutable_grad() = at::Tensor();
    }
    return loss.detach();
  }
};

struct Batch {
  at::Tensor x = at::arange(64, at::kFloat).mul(0.7).cos().reshape({8, 8});
  at::Tensor y = at::arange(8, at::kLong).remainder(3);
};

std::vector<double> losses_of(const at::Device& device, double scale, bool marks) {
  const Batch batch;
  const at::Tensor x = batch.x.to(device), y = batch.y.to(device);
  Network network(device, scale);
  std::vector<double> losses;
  for (int i = 0; i < 30; ++i) {
    const at::Tensor loss = network.step(x, y);
    if (marks) lazy::mark_step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

void check_training(const at::Device& device, double scale, bool marks) {
  const std::vector<double> given = losses_of(device, scale, marks), expected = losses_of(at::kCPU, scale, false);
  check_close(at::tensor(given), at::tensor(expected), "training");
  check(given.back() < given.front(), "training does not make the loss smaller");
}

void train() {
  check_training(at::kLazy, 0.5, /*marks=*/true);
  const lazy::Metrics metrics = lazy::metrics();
  check(metrics.compiles <= 3 && metrics.hits >= 27 && metrics.reused_bytes > 0,
        "steps are compiled anew:\n" + to_string(metrics));
  check_all_ran_on_tenon();
  check(lazy::explain().find("graph lazy") == 0, "explain shows no graph");
}

// PyTorch's rules for the shapes of these calls are written in Python.
at::Tensor without_shape_rules(const at::Tensor& x) {
  const at::Tensor weight = x.detach().clone().requires_grad_();
  const at::Tensor y = at::where(weight > 0, at::hardswish(weight), at::dropout(weight, 0.0, true)).roll(1, 0);
  at::mse_loss(y, at::zeros_like(y)).add(y.var()).backward();
  return at::cat({y.detach(), weight.grad()});
}

void shapes() {
  const at::Tensor x = at::arange(12, at::kFloat).sub(6).reshape({3, 4}) / 3;
  check_close(without_shape_rules(x.to(at::kLazy)), without_shape_rules(x), "calls without rules of shapes");
  check(lazy::metrics().runs == 1, "the calls are no single graph:\n" + to_string(lazy::metrics()));
  check_all_ran_on_tenon();
}

// ---- threads --------------------------------------------------------------------------------------------------------

void in_threads(size_t count, const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::thread> all;
  for (size_t i = 0; i < count; ++i) {
    all.emplace_back([&, i] {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

// What a thread leaves runs once, although several threads end a step at the same time.
void check_what_a_thread_leaves(int round) {
  constexpr int kLeft = 8;
  std::vector<at::Tensor> left(kLeft);
  in_threads(1, [&](size_t) {
    for (int i = 0; i < kLeft; ++i) left[i] = at::full({4}, round).to(at::kLazy) * i + 1;
  });
  std::barrier start(3);
  in_threads(3, [&](size_t) {
    start.arrive_and_wait();
    lazy::mark_step();
  });
  for (int i = 0; i < kLeft; ++i) check_close(left[i], at::full({4}, round * i + 1), "what a thread left");
}

void threads() {
  in_threads(6, [](size_t i) {
    for (int round = 0; round < 5; ++round) check_training(at::kLazy, 0.1 * static_cast<double>(i + 1), i % 2 == 0);
  });
  for (int round = 0; round < 200; ++round) check_what_a_thread_leaves(round);
  check_all_ran_on_tenon();
}

// ---- long graphs ----------------------------------------------------------------------------------------------------

void chain(int64_t length) {
  at::Tensor x = at::ones({4}).to(at::kLazy);
  at::Tensor expected = at::ones({4});
  for (int64_t i = 0; i < length; ++i) {
    x = x * 0.5 + 1;
    expected = expected * 0.5 + 1;
  }
  check_close(x, expected, "a chain of " + std::to_string(2 * length) + " calls");
}

// In another thread, too; and a graph that nobody asks for is freed.
void long_graphs() {
  chain(20'000);  // with its numbers, 80000 nodes
  std::thread([] { chain(10'000); }).join();
  check(lazy::metrics().runs > 2, "a graph of 80000 nodes did not run before somebody asked for it");
  at::Tensor unread = at::ones({4}).to(at::kLazy);
  for (int i = 0; i < 40'000; ++i) unread = unread + 1;
  unread = at::Tensor();
  check_all_ran_on_tenon();
}

// ---- memory, devices ------------------------------------------------------------------------------------------------

void memory() {
  const lazy::MemoryInfo before = lazy::memory_info();
  check(
      before.total_bytes > (1 << 28) && before.free_bytes > 0 && before.free_bytes <= before.total_bytes,
      "the CPU has " + std::to_string(before.free_bytes) + " of " + std::to_string(before.total_bytes) + " bytes free");
  {
    at::Tensor x = at::ones({1 << 20}).to(at::kLazy);
    x.mul_(2);
    lazy::sync();
    const int64_t held = lazy::memory_info().tensor_bytes - before.tensor_bytes;
    check(held >= 4 << 20 && held < 5 << 20, "a tensor of 4 MiB holds " + std::to_string(held) + " bytes");
  }
  const int64_t left = lazy::memory_info().tensor_bytes - before.tensor_bytes;
  check(left < 1 << 16, "tensors that are gone hold " + std::to_string(left) + " bytes");
  check_throws([] { lazy::memory_info(7); }, "there is no device");
}

void devices() {
  check(lazy::devices() == std::vector<std::string>{"cpu", "loopback"}, "other devices than cpu and loopback");
  check_training(at::Device(at::kLazy, 1), 0.5, /*marks=*/true);
  check(lazy::explain().find(": loopback (") != std::string::npos, "loopback runs nothing:\n" + lazy::explain());
  check(lazy::memory_info(1).program_bytes > 0, "programs hold no memory of the device");
  check_all_ran_on_tenon();
  check_throws([] { (at::ones({2}).to(at::Device(at::kLazy, 2)) * 2).cpu(); }, "there is no device lazy:2");
}

// ---- what Tenon lacks, what fails -----------------------------------------------------------------------------------

void fallback() {
  const at::Tensor x = at::arange(12, at::kFloat).reshape({3, 4});
  check_close((x.to(at::kLazy) * 2).renorm(2, 0, 0.5) + 1, (x * 2).renorm(2, 0, 0.5) + 1, "a call that Tenon lacks");
  const lazy::Metrics metrics = lazy::metrics();
  check(metrics.fallbacks == lazy::Metrics::Counts{{"aten::renorm", 1}} && metrics.runs == 1, to_string(metrics));
}

void failure() {
  const at::Tensor table = at::ones({3, 2}).to(at::kLazy);
  const at::Tensor bad = at::embedding(table, at::tensor({0, 7}, at::kLong).to(at::kLazy));
  check_throws([] { lazy::mark_step(); }, "7");
  check_throws([&] { bad.cpu(); }, "7");
  check_close(table + 1, at::ones({3, 2}) + 1, "a step after one that failed");
}

void random_numbers() {
  const auto draw = [](uint64_t seed) {
    at::manual_seed(seed);
    return at::native_dropout(at::ones({64}).to(at::kLazy), 0.5, true);
  };
  const at::Tensor first = std::get<0>(draw(1)).cpu();
  check(at::equal(first, std::get<0>(draw(1)).cpu()), "equal seeds give different numbers");
  check(!at::equal(first, std::get<0>(draw(2)).cpu()), "different seeds give equal numbers");
}

// ---- all of them ----------------------------------------------------------------------------------------------------

void check_without_python() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    check(line.find("python") == std::string::npos || line.find("site-packages/torch/lib/") != std::string::npos, line);
    check(line.find("libpython") == std::string::npos && line.find("torch_python") == std::string::npos, line);
  }
}

const std::map<std::string, std::function<void()>> kWork = {
    {"train", train},     {"shapes", shapes},     {"threads", threads}, {"long", long_graphs},      {"memory", memory},
    {"devices", devices}, {"fallback", fallback}, {"failure", failure}, {"random", random_numbers},
};

}  // namespace

int main(int argc, char** argv) {
  try {
    check(argc == 2 && kWork.contains(argv[1]), "say what to do");
    check_throws([] { lazy::mark_step(); }, "init()");
    lazy::InitTenonBackend();
    lazy::init();
    check(lazy::is_initialized(), "Tenon is not in charge");
    kWork.at(argv[1])();
    check_without_python();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
