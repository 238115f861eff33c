// Backends by name. A backend turns a LoopTree into something that runs:
//
//     struct MyBackend : Backend {
//       MyBackend() : Backend("mine") {}
//       std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override { ... }
//       int hardware_requirement() const override { return 0; }
//     };
//     static RegisterBackend registration(std::make_shared<MyBackend>());
//
// and is then found by its name from C++, Python and the command line.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/tensor.h"
#include "loops/loop_tree.h"
#include "runtime/device.h"
#include "runtime/kernel.h"

namespace tenon {

// What a backend needs. 0 is any CPU; the others are bits of what this machine has.
enum Hardware : int { kCpu = 0, kCuda = 1 << 0 };
int available_hardware();

// A kernel that can run. Safe to run from several threads at once, with different memory.
class Compiled {
 public:
  virtual ~Compiled() = default;
  // `memory` is the inputs by slot, then the outputs by slot: row-major arrays of the kernel's types. An output may be
  // the memory of an input where in_place_pairs(tree) has the two (loops/in_place.h), and overlaps nothing else.
  // `sizes` are the values of ir.size_symbols(). What goes wrong on the way (an index out of range, an integer division
  // by zero) is thrown as an Error; the outputs are then undefined. With `sync` false a backend may return before it is
  // done.
  virtual void run(std::span<void* const> memory, std::span<const int64_t> sizes = {}, bool sync = true) const = 0;
  virtual std::string dump() const { return ""; }  // its code, for people
  // The function itself, where there is one: whoever runs many kernels calls it without the checks of `run`.
  virtual tenon_kernel native() const { return nullptr; }
  // The code of a device, where it is one's: a program launches it in the device's memory.
  virtual std::shared_ptr<const runtime::DeviceProgram> device_program() const { return nullptr; }
  // The sizes that a launch of such code is given.
  virtual std::vector<Expr> launch_sizes() const { return {}; }
};

// For those who implement `run`: checks that there are as many arrays and sizes as the kernel takes.
void check_arguments(const loops::IR& ir, std::span<void* const> memory, std::span<const int64_t> sizes);

class Backend {
 public:
  explicit Backend(std::string name) : name_(std::move(name)) {}
  virtual ~Backend() = default;

  const std::string& name() const { return name_; }
  // The face of compile_impl: refuses when the hardware is missing.
  Result<std::unique_ptr<Compiled>> compile(const loops::LoopTree& tree) const;
  // Many at once, which a backend may do on all threads, and once for those that are the same.
  Result<std::vector<std::unique_ptr<Compiled>>> compile_all(std::span<const loops::LoopTree* const> trees) const;
  bool is_available() const { return missing_hardware().empty(); }

  virtual std::string doc() const { return ""; }
  // A schedule that suits the backend's machine, without a search. Here, the one that suits any.
  virtual loops::LoopTree schedule(const loops::IR& kernel) const;
  // Others that are worth a try, for a search.
  virtual std::vector<loops::LoopTree> variants(const loops::IR&) const { return {}; }
  // From now on, also in other processes, `schedule` gives this one for such a kernel. False where there is no place to
  // keep it.
  virtual bool keep(const loops::IR&, const loops::LoopTree&) const { return false; }
  virtual std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const = 0;  // throws an Error
  virtual std::vector<std::unique_ptr<Compiled>> compile_all_impl(std::span<const loops::LoopTree* const> trees) const;
  virtual int hardware_requirement() const = 0;
  // What this machine lacks, in the backend's own words: "an FPGA on port 3". Empty: nothing.
  virtual std::string missing_hardware() const;

 private:
  void check_hardware() const;

  std::string name_;
};

// Throws an Error when the name is taken by another backend.
void register_backend(std::shared_ptr<const Backend> backend);
void unregister_backend(std::string_view name);

struct RegisterBackend {
  explicit RegisterBackend(std::shared_ptr<const Backend> backend) { register_backend(std::move(backend)); }
};

std::vector<std::shared_ptr<const Backend>> backends();  // sorted by name
// A plug-in's device is a backend by its name, or by its name and options: "npu:rate=2". An unknown name is an error
// that lists those there are.
Result<std::shared_ptr<const Backend>> find_backend(std::string_view name);

// Throws an Error for a size that the kernel does not leave open.
void check_sizes(const loops::IR& ir, const symbolic::Bindings& sizes);

// Runs a kernel on tensors: checks their types, solves for the sizes, copies what is not contiguous, and makes the
// outputs. `sizes` says what the inputs' shapes leave open.
Result<std::vector<Tensor>> run(const Compiled& kernel, const loops::IR& ir, std::span<const Tensor> inputs,
                                const symbolic::Bindings& sizes = {});

// A run whose arrays are known. They are checked when it is prepared, so that each run is the kernel's own time and
// nothing else; it writes straight to the outputs.
class PreparedRun {
 public:
  void operator()() const { kernel_->run(memory_, sizes_); }

 private:
  friend Result<PreparedRun> prepare(const Compiled&, const loops::IR&, std::vector<Tensor>, const symbolic::Bindings&);

  const Compiled* kernel_ = nullptr;
  std::vector<Tensor> arrays_;  // what the memory is of
  std::vector<void*> memory_;
  std::vector<int64_t> sizes_;
};

// `arrays` are the inputs by slot, then the outputs by slot: contiguous, and no output overlaps another array. The
// kernel must outlive the run.
Result<PreparedRun> prepare(const Compiled& kernel, const loops::IR& ir, std::vector<Tensor> arrays,
                            const symbolic::Bindings& sizes = {});

}  // namespace tenon
