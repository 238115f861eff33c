// An open GPU: the context that PyTorch and CUDA's runtime use too, memory, the queue of commands, and cuBLASLt.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "memory.h"
#include "products.h"
#include "queue.h"

namespace tenon::cuda {

// What a user writes after the name: "", "1", "device=1,memory=8000000000".
struct Options {
  int device = 0;
  uint64_t memory = 0;  // bytes that Tenon may use; 0: all
  bool checks = false;  // Wait after each step of a launch, and name the step that failed.
};
Options options_from(std::string_view text);  // throws a StatusError

// The limits of launches.
struct Limits {
  int architecture = 0;  // compute capability, times ten
  int64_t threads = 0, blocks = 0, shared_bytes = 0;
};

// A text of PTX, which the driver compiles on a thread of its own: a program has dozens of kernels, and each takes tens
// of milliseconds. Programs with the same text share it.
class LoadedModule {
 public:
  LoadedModule(const Driver& driver, Context context, const std::string& ptx);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;

  // Waits until it is compiled. Throws a StatusError that says what the driver's compiler says.
  Module get() const { return module_.get(); }

 private:
  const Driver& driver_;
  std::shared_future<Module> module_;
};

class Gpu {
 public:
  explicit Gpu(const Options& options);
  ~Gpu();
  Gpu(const Gpu&) = delete;

  const Driver& driver() const { return driver_; }
  const Options& options() const { return options_; }
  const Limits& limits() const { return limits_; }
  Context context() const { return context_; }
  Memory& memory() { return *memory_; }
  Queue& queue() { return *queue_; }
  Products& products();
  std::shared_ptr<const LoadedModule> load(const std::string& ptx);

  // Memory that commands may use one after the other, and lose. It grows.
  Address scratch(uint64_t bytes);
  Address workspace();  // of cuBLASLt

 private:
  struct Block {
    Address memory = 0;
    uint64_t bytes = 0;
  };
  Address grown(Block& block, uint64_t bytes);
  int attribute(int which) const;

  Options options_;
  const Driver& driver_;
  DeviceNumber device_ = 0;
  Context context_ = nullptr;
  Limits limits_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Products> products_;
  std::map<std::string, std::weak_ptr<const LoadedModule>> modules_;  // by their PTX
  Block scratch_, workspace_;
};

// Bytes of a GPU's memory; 0 where there is none.
uint64_t memory_of_device(const Options& options);

}  // namespace tenon::cuda
