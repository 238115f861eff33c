// Code of the compiler (format/cuda.fbs) on an open GPU: its kernels, and what its launches do for each set of sizes.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "gpu.h"
#include "tenon/device.h"

namespace tenon::cuda {

// Bytes in a buffer of the launch, or in its scratch.
struct Place {
  static constexpr uint32_t kScratch = UINT32_MAX;
  uint32_t buffer;
  int64_t offset;
};

struct KernelLaunch {
  struct Argument {
    format::cuda::ArgumentKind kind;
    uint32_t item;
    int64_t value;
  };
  const char* entry;
  Function function;
  unsigned blocks, threads, shared_bytes;
  std::vector<Argument> arguments;
};

struct ProductLaunch {
  std::shared_ptr<Product> product;
  Place a, b, d, bias;
  double alpha;
};

struct FillLaunch {  // with zeros
  Place to;
  uint64_t bytes;
};

// What a launch does, for one set of sizes: every number is known and checked.
struct Plan {
  std::vector<std::variant<KernelLaunch, ProductLaunch, FillLaunch>> steps;
  int64_t scratch = 0;    // bytes
  bool may_fail = false;  // a kernel has an error record
};

// What a launch of a kernel gives to the driver. Kept from launch to launch, for its memory.
struct Parameters {
  std::vector<uint64_t> values;
  std::vector<void*> addresses;
};

class Program {
 public:
  // The code must stay as it is. Throws a StatusError for code that breaks a rule of the schema, or that this GPU
  // cannot run.
  Program(Gpu& gpu, std::span<const std::byte> code);

  // Returns the ticket of the launch.
  uint64_t launch(const tenon_launch& launch);

 private:
  struct Entry {
    Function function;
    int64_t threads;       // at most
    int64_t shared_bytes;  // that it is prepared for
  };
  struct Kept {
    std::shared_ptr<const Plan> plan;
    std::list<std::vector<int64_t>>::iterator age;
  };
  friend class Planner;

  bool has_kernels() const;
  void find_entries();
  void check_parameters(Function function, const format::cuda::Kernel& kernel) const;
  std::shared_ptr<const Plan> plan_for(std::span<const int64_t> sizes);

  Gpu& gpu_;
  const format::cuda::Code& code_;
  std::shared_ptr<const LoadedModule> module_;  // null where no step is a kernel
  std::map<std::string, Entry, std::less<>> entries_;
  Names names_;
  std::map<std::vector<int64_t>, Kept> plans_;  // by sizes
  std::list<std::vector<int64_t>> ages_;        // the sizes, last used first
  std::shared_ptr<const Plan> last_;            // of the sizes that were used last
  Parameters parameters_;
};

}  // namespace tenon::cuda
