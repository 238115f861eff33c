// What programs keep from run to run: named tensors, in memory of their own, that start as they are in the file.
// Programs that name the same state share it: an optimizer's step and the evaluation after it.
//
// One run, or one call of what is below, uses them at a time: a second one meanwhile is an error, and changes nothing.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/allocator.h"
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

// Those of all programs, in order of the first that has them. Throws a StatusError (TENON_BAD_FILE) where two disagree
// about the type of a state or about how it starts.
std::vector<StateInfo> states_of(const Programs& programs);

class States {
 public:
  // The memory counts for the allocator's budget. The programs own what they start as.
  States(Programs programs, std::shared_ptr<Allocator> allocator);
  States(const States&) = delete;

  const std::vector<StateInfo>& all() const { return all_; }
  size_t find(std::string_view name) const;  // how many there are, where there is none of that name
  // Throws a StatusError (TENON_INVALID_ARGUMENT) where there is no number `i`, or it is of another type than this.
  void check_type(size_t i, const StateInfo& wanted) const;
  std::byte* data(size_t i) const { return blocks_[i].data(); }
  const Allocator& allocator() const { return *allocator_; }

  // The tensor may lie in the state itself. Throws a StatusError that names the state where it is of another type.
  void set(size_t i, const tenon_tensor& tensor);
  void reset();
  Notes& notes() { return notes_; }  // that go with them into files

  // While it lives nobody else may use them. Throws a StatusError where somebody does.
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
  Notes notes_;
  std::atomic<bool> is_used_ = false;
};

}  // namespace tenon::runtime
