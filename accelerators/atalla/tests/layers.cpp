// atalla_layers [body...]: cycles, utilization and simulation speed (in the process's own time) of typical layers.
#include <cstdio>
#include <ctime>
#include <random>

#include "streams.h"

namespace {

using atalla::Layer;

struct Case {
  const char* name;
  Layer layer;
};

const Case kCases[] = {
    {"linear 128x768x768", {.height = 128, .channels = 768, .outputs = 768}},
    {"linear 128x768x3072", {.height = 128, .channels = 768, .outputs = 3072}},
    {"linear 128x768x768 bf16",
     {.height = 128, .channels = 768, .outputs = 768, .is_float = true, .output = atalla::Output::kBf16}},
    {"conv 3x3 64->64 56x56", {.height = 56, .width = 56, .channels = 64, .outputs = 64, .kernel = 3, .padding = 1}},
    {"conv 3x3 256->256 14x14",
     {.height = 14, .width = 14, .channels = 256, .outputs = 256, .kernel = 3, .padding = 1}},
    {"conv 3x3 512->512 7x7", {.height = 7, .width = 7, .channels = 512, .outputs = 512, .kernel = 3, .padding = 1}},
    {"conv 1x1 64->256 56x56", {.height = 56, .width = 56, .channels = 64, .outputs = 256}},
    {"conv 1x1 1024->256 14x14", {.height = 14, .width = 14, .channels = 1024, .outputs = 256}},
    {"conv 1x1 512->2048 7x7", {.height = 7, .width = 7, .channels = 512, .outputs = 2048}},
    {"conv 3x3/2 256->256 28x28",
     {.height = 28, .width = 28, .channels = 256, .outputs = 256, .kernel = 3, .stride = 2, .padding = 1}},
    {"conv 1x1/2 512->1024 28x28", {.height = 28, .width = 28, .channels = 512, .outputs = 1024, .stride = 2}},
};

void measure(const char* body_name, const Case& one) {
  const atalla::Machine machine;
  Layer layer = one.layer;
  layer.store_flags = atalla::Store::kBias | atalla::Store::kScale;
  layer.input = 0;
  layer.weights = uint64_t{layer.height} * layer.width * layer.channels * 2;
  layer.vectors = layer.weights + weight_bytes(machine, layer);
  layer.result = layer.vectors + uint64_t{8} * layer.outputs;
  std::string error;
  const auto body = make_body(body_name, machine, {.memory_bytes = 16 << 20}, error);
  if (!body) {
    std::printf("%s\n", error.c_str());
    return;
  }
  std::mt19937 random(1);
  for (uint64_t i = 0; i < layer.result; i += 4) {
    const uint32_t word = (random() & 0xff7fff7fU) | 0x30003000U;
    std::memcpy(&body->memory()[i], &word, 4);
  }
  const auto commands = emit(machine, layer);
  const std::clock_t start = std::clock();
  const atalla::RunResult run = body->submit(commands);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (run.fault) {
    std::printf("%s: command %u: %s\n", one.name, run.fault->command, run.fault->reason.c_str());
    return;
  }
  const auto cycles = static_cast<double>(run.counters.cycles);
  std::printf("%-28s %-7s %6zu commands %9.0f cycles %5.1f%% busy %6.2f Mcycles/s %6.2f GMAC/s\n", one.name, body_name,
              commands.size(), cycles, 100 * run.counters.utilization(), cycles / seconds / 1e6,
              static_cast<double>(layer.multiplications()) / seconds / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Case& one : kCases) {
    if (argc == 1)
      for (const char* body : {"model", "cycles", "rtl"}) measure(body, one);
    for (int i = 1; i < argc; ++i) measure(argv[i], one);
  }
}
