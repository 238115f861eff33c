// The commands of an open GPU, in one order: each begins when those before it are done, whatever streams they run on.
//
// A command runs on the stream that its thread chose (tenon_cuda_use_stream), or else on the device's own. Its ticket
// is its number. Nothing is recorded for a command until somebody waits: an event in a stream takes the GPU a
// microsecond.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "memory.h"
#include "tenon/device.h"

namespace tenon::cuda {

using Names = std::shared_ptr<const std::vector<std::string>>;  // of the nodes of a program

// What a kernel writes when it fails (runtime/kernel.h): kind, node, value, bound. It starts as zeros.
struct ErrorRecord {
  int64_t kind, node, value, bound;
};

class Queue {
 public:
  explicit Queue(const Driver& driver);
  ~Queue();
  Queue(const Queue&) = delete;

  // ---- commands: begin one, enqueue its work on the stream, end it. All but wait() is called by one thread at a time.
  static constexpr uint64_t kCaptured = 0;  // the ticket of a command that a CUDA graph captures: it does not run now
  struct Command {
    uint64_t ticket;
    Stream stream;
    Address errors;  // of the command's record, as the GPU sees it
  };
  Command begin(const Names& names);
  void end(const Command& command);

  uint64_t copy_in(Address to, const void* from, uint64_t bytes);
  uint64_t copy_out(void* to, Address from, uint64_t bytes);

  // Throws a StatusError if the command failed.
  void wait(uint64_t ticket);
  void finish();  // everything

  bool has_captured() const { return has_captured_; }  // A CUDA graph has commands of this device.
  // Throws a StatusError if a command of a CUDA graph has failed that nobody was told of.
  void check_graphs();

  // ---- times: taken of the commands that begin after the first call ----
  uint64_t take_times(tenon_device_event* events, uint64_t capacity);

 private:
  struct Landing {  // a copy to the host, from pinned memory
    uint64_t ticket;
    std::byte* from;
    void* to;  // null: a copy to the GPU, whose pinned memory becomes free
    uint64_t bytes;
  };
  struct Watched {
    uint64_t ticket;
    Names names;
  };
  struct Captured {  // by a graph, which may run at any time
    ErrorRecord* record;
    Names names;
  };
  struct Timed {
    uint64_t ticket;
    EventHandle begin, end;
  };

  void make_objects();
  void destroy_objects() noexcept;
  Stream stream_of_next();
  bool is_capturing(Stream stream) const;
  void refuse_capture(Stream stream) const;
  ErrorRecord* record_of_graph(const Names& names);
  void finish_begun(std::unique_lock<std::mutex>& lock);
  void settle();
  void land(const Landing& landing);
  void start_times();
  EventHandle take_event(std::vector<EventHandle>& from, unsigned flags);
  void drop_oldest_times();
  static std::string text_of_record(const ErrorRecord& record, const std::vector<std::string>& names);

  const Driver& driver_;
  Staging staging_;
  Stream own_ = nullptr;
  Stream last_ = nullptr;
  EventHandle order_ = nullptr;
  bool has_captured_ = false;
  ErrorRecord* records_ = nullptr;  // the host's memory, where kernels write

  std::mutex mutex_;  // of all below
  uint64_t begun_ = 0, done_ = 0;
  std::deque<Watched> watched_;
  std::vector<Captured> captured_;
  std::vector<void*> captured_memory_;  // of their records
  std::deque<Landing> landings_;
  std::map<uint64_t, std::string> failures_;  // that were not waited for yet
  std::vector<EventHandle> events_;           // to wait for, that are free

  bool takes_times_ = false;
  EventHandle start_ = nullptr;  // of the clock
  uint64_t start_ns_ = 0;        // of the host's, at the same time
  std::deque<Timed> timed_;
  std::vector<EventHandle> timers_;  // that are free
};

// The stream of the calling thread's commands; none: the device's own.
std::optional<Stream>& chosen_stream();

}  // namespace tenon::cuda
