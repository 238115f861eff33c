// States: the named tensors that programs keep from run to run. They start with the values in the file. Programs share
// states of the same name: a training step and the evaluation after it.
//
// Programs with devices keep states in the memory of devices: a value is moved when a program or a caller needs it
// elsewhere (device_tensor.h). The host always has room for all of them.
//
// One run, or one call below, may use the states at a time. A concurrent use is an error, and changes nothing.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/allocator.h"
#include "runtime/device_tensor.h"
#include "runtime/loaded_program.h"

namespace tenon::runtime {

struct StateInfo {
  std::string name;
  tenon_dtype dtype;
  std::vector<int64_t> shape;
  int64_t bytes;
  const std::byte* initial;
};

std::string type_text(const StateInfo& info);  // "f32[4]"

using Notes = std::map<std::string, std::string, std::less<>>;
using Programs = std::vector<std::shared_ptr<const LoadedProgram>>;

// The states of all programs, in order of first occurrence. Throws a StatusError (TENON_BAD_FILE) if two programs
// disagree about the type or the initial value of a state.
std::vector<StateInfo> states_of(const Programs& programs);

class States {
 public:
  // The memory counts for the allocator's budget. The programs own the initial values.
  States(Programs programs, std::shared_ptr<Allocator> allocator);
  // States in memory of the caller, at `StateInfo::initial`, which they change.
  explicit States(std::vector<StateInfo> infos);
  States(const States&) = delete;

  const std::vector<StateInfo>& all() const { return all_; }
  size_t find(std::string_view name) const;  // size() if there is no state of that name
  // Throws a StatusError (TENON_INVALID_ARGUMENT) if `i` is out of range, or if the types differ.
  void check_type(size_t i, const StateInfo& wanted) const;
  DeviceTensor& tensor(size_t i) { return *tensors_[i]; }
  std::byte* memory(size_t i) const { return tensors_[i]->host(); }  // of the host; current or not
  std::byte* read(size_t i) { return tensors_[i]->on_host(); }
  // To write all of it: its value in a device's memory is lost.
  std::byte* write(size_t i);

  // The tensor may overlap the state itself. Throws a StatusError with the state's name if the types differ.
  void set(size_t i, const tenon_tensor& tensor);
  void reset();
  // A program that runs over them uses devices: values may lie there only.
  void use_devices() { uses_devices_.store(true, std::memory_order_relaxed); }
  bool uses_devices() const { return uses_devices_.load(std::memory_order_relaxed); }
  Notes& notes() { return notes_; }  // written to files together with the states

  // Excludes other uses while the result lives. Throws a StatusError if the states are in use.
  class Use {
   public:
    explicit Use(States& states);
    ~Use() { states_.is_used_.store(false, std::memory_order_release); }
    Use(const Use&) = delete;

   private:
    States& states_;
  };

 private:
  Programs programs_;
  std::vector<StateInfo> all_;
  std::shared_ptr<Allocator> allocator_;
  std::vector<Block> blocks_;
  std::vector<std::unique_ptr<DeviceTensor>> tensors_;  // in the memory of the blocks
  Notes notes_;
  std::atomic<bool> is_used_ = false;
  std::atomic<bool> uses_devices_ = false;
};

}  // namespace tenon::runtime
