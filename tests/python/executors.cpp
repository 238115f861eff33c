// Executors of all kinds through tenon.hpp: each line of the output is what one of them gave. test_threads.py reads it.
#include <iostream>
#include <stdexcept>
#include <tenon/tenon.hpp>
#include <thread>
#include <vector>

namespace {

using Body = tenon::Executor::Body;

void on_threads(int64_t count, Body body) {
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

struct Kind {
  const char* name;
  tenon::Executor::Function function;
};

const Kind kKinds[] = {
    {"threads", on_threads},
    {"nothing", [](int64_t, Body) {}},
    {"one", [](int64_t, Body body) { body(0); }},
    {"twice",
     [](int64_t count, Body body) {
       on_threads(count, body);
       on_threads(count, body);
     }},
    {"wrong indices",
     [](int64_t count, Body body) {
       for (const int64_t index : {int64_t{-1}, count, INT64_MAX}) body(index);
     }},
    {"throws", [](int64_t, Body) { throw std::runtime_error("the pool is closed"); }},
    {"throws a number", [](int64_t, Body) { throw 3; }},
};

float run(const tenon::Program& program, const tenon::Executor& executor) {
  tenon::Context context(program, {.threads = 3, .executor = &executor.get()});
  const std::vector<int64_t> shape = {program.input(0).dims()[0].size, program.input(0).dims()[1].size};
  std::vector<float> ones(static_cast<size_t>(shape[0] * shape[1]), 1);
  context.set_input(0, tenon::Tensor::of(ones, shape));
  context.run();
  return context.output(0).values<float>()[0];
}

}  // namespace

int main(int, char** arguments) {
  const tenon::Program program = tenon::Program::load(arguments[1]);
  for (const Kind& kind : kKinds) {
    int64_t loops = 0;
    const tenon::Executor executor([&](int64_t count, Body body) {
      ++loops;
      kind.function(count, body);
    });
    std::cout << kind.name << ": ";
    try {
      std::cout << run(program, executor);
    } catch (const tenon::RuntimeError& error) {
      std::cout << error.status() << ", " << error.what();
    }
    std::cout << (loops > 0 ? "" : ", and was not asked") << "\n";
  }
}
