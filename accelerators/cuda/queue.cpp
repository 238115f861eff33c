#include "queue.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/kernel.h"

namespace tenon::cuda {
namespace {

constexpr uint64_t kRecords = 1024;
constexpr size_t kRecordsOfBlock = 128;  // of graphs
constexpr size_t kMostTimes = 1 << 15;
constexpr size_t kMostFailures = 1 << 10;
constexpr float kLongestClock = 4000;  // milliseconds: then the numbers of the clock are coarser than a microsecond

uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

std::optional<Stream>& chosen_stream() {
  thread_local std::optional<Stream> stream;
  return stream;
}

Queue::Queue(const Driver& driver) : driver_(driver), staging_(driver) {
  try {
    make_objects();
  } catch (...) {
    destroy_objects();
    throw;
  }
}

Queue::~Queue() {
  driver_.finish_stream(last_);
  destroy_objects();
}

// The stream takes part in the order of the default stream, so that work of others there is before and after it.
void Queue::make_objects() {
  driver_.check(driver_.create_stream(&own_, 0), "make a stream of the GPU");
  last_ = own_;
  driver_.check(driver_.create_event(&order_, kEventWithoutTime), "make an event of the GPU");
  void* records = nullptr;
  driver_.check(driver_.allocate_host(&records, kRecords * sizeof(ErrorRecord), kHostMapped), "pin memory");
  records_ = static_cast<ErrorRecord*>(records);
  std::memset(records_, 0, kRecords * sizeof(ErrorRecord));
}

void Queue::destroy_objects() noexcept {
  const auto destroy = [this](EventHandle event) {
    if (event != nullptr) driver_.destroy_event(event);
  };
  for (const Timed& timed : timed_) destroy(timed.begin), destroy(timed.end);
  for (EventHandle event : events_) destroy(event);
  for (EventHandle event : timers_) destroy(event);
  destroy(start_);
  destroy(order_);
  if (records_ != nullptr) driver_.free_host(records_);
  for (void* memory : captured_memory_) driver_.free_host(memory);
  if (own_ != nullptr) driver_.destroy_stream(own_);
}

// ---- commands -------------------------------------------------------------------------------------------------------

Stream Queue::stream_of_next() {
  const Stream stream = chosen_stream().value_or(own_);
  if (stream == last_) return stream;
  if (begun_ > done_) {
    driver_.check(driver_.record_event(order_, last_), "record an event");
    driver_.check(driver_.stream_waits(stream, order_, 0), "order two streams");
  }
  return last_ = stream;
}

Queue::Command Queue::begin(const Names& names) {
  std::unique_lock lock(mutex_);
  if (names && begun_ >= kRecords && !watched_.empty() && watched_.front().ticket <= begun_ + 1 - kRecords)
    finish_begun(lock);  // the records are used in turn
  if (const Stream chosen = chosen_stream().value_or(own_); is_capturing(chosen)) {
    has_captured_ = true;
    return {kCaptured, chosen, names ? reinterpret_cast<Address>(record_of_graph(names)) : 0};
  }
  const Stream stream = stream_of_next();
  const uint64_t ticket = ++begun_;
  ErrorRecord* const record = records_ + ticket % kRecords;
  if (names) watched_.push_back({ticket, names});
  if (takes_times_) {
    drop_oldest_times();
    timed_.push_back({ticket, take_event(timers_, 0), nullptr});
    driver_.check(driver_.record_event(timed_.back().begin, stream), "record an event");
  }
  return {ticket, stream, reinterpret_cast<Address>(record)};
}

void Queue::end(const Command& command) {
  const std::lock_guard lock(mutex_);
  if (command.ticket == kCaptured || timed_.empty() || timed_.back().ticket != command.ticket) return;
  timed_.back().end = take_event(timers_, 0);
  driver_.check(driver_.record_event(timed_.back().end, command.stream), "record an event");
}

bool Queue::is_capturing(Stream stream) const {
  int status = 0;
  return driver_.is_capturing(stream, &status) == kSuccess && status != 0;
}

void Queue::refuse_capture(Stream stream) const {
  if (is_capturing(stream))
    fail(TENON_UNSUPPORTED, "a copy between the host and the GPU cannot be part of a CUDA graph");
}

ErrorRecord* Queue::record_of_graph(const Names& names) {
  const size_t place = captured_.size() % kRecordsOfBlock;
  if (place == 0) {
    void* memory = nullptr;
    driver_.check(driver_.allocate_host(&memory, kRecordsOfBlock * sizeof(ErrorRecord), kHostMapped), "pin memory");
    captured_memory_.push_back(std::memset(memory, 0, kRecordsOfBlock * sizeof(ErrorRecord)));
  }
  captured_.push_back({static_cast<ErrorRecord*>(captured_memory_.back()) + place, names});
  return captured_.back().record;
}

void Queue::check_graphs() {
  const std::lock_guard lock(mutex_);
  for (const Captured& each : captured_) {
    if (each.record->kind == 0) continue;
    const ErrorRecord record = std::exchange(*each.record, {});
    fail(TENON_RUN_FAILED, text_of_record(record, *each.names));
  }
}

uint64_t Queue::copy_in(Address to, const void* from, uint64_t bytes) {
  refuse_capture(chosen_stream().value_or(own_));
  const Command command = begin(nullptr);
  std::unique_lock lock(mutex_);
  std::byte* const staged = staging_.take(bytes);
  if (staged != nullptr) {
    std::memcpy(staged, from, bytes);
    landings_.push_back({command.ticket, staged, nullptr, bytes});
  }
  lock.unlock();
  driver_.check(driver_.copy_in(to, staged == nullptr ? from : staged, bytes, command.stream), "copy to the GPU");
  end(command);
  return command.ticket;
}

uint64_t Queue::copy_out(void* to, Address from, uint64_t bytes) {
  refuse_capture(chosen_stream().value_or(own_));
  const Command command = begin(nullptr);
  std::unique_lock lock(mutex_);
  std::byte* const staged = staging_.take(bytes);
  lock.unlock();
  const Result result = driver_.copy_out(staged == nullptr ? to : staged, from, bytes, command.stream);
  lock.lock();
  if (staged != nullptr) landings_.push_back({command.ticket, staged, result == kSuccess ? to : nullptr, bytes});
  lock.unlock();
  driver_.check(result, "copy from the GPU");
  end(command);
  return command.ticket;
}

// ---- waiting --------------------------------------------------------------------------------------------------------

void Queue::wait(uint64_t ticket) {
  std::unique_lock lock(mutex_);
  if (ticket == 0 || ticket > begun_) fail(TENON_INVALID_ARGUMENT, "there is no command ", ticket, " on the GPU");
  if (ticket > done_) finish_begun(lock);
  const auto failed = failures_.extract(ticket);
  if (failed) fail(TENON_RUN_FAILED, failed.mapped());
}

void Queue::finish() {
  std::unique_lock lock(mutex_);
  if (begun_ > done_) finish_begun(lock);
}

// Everything that has begun is done afterwards. Others may begin commands meanwhile.
void Queue::finish_begun(std::unique_lock<std::mutex>& lock) {
  const EventHandle event = take_event(events_, kEventWithoutTime);
  const uint64_t begun = begun_;
  Result result = driver_.record_event(event, last_);
  lock.unlock();
  if (result == kSuccess) result = driver_.finish_event(event);
  lock.lock();
  events_.push_back(event);
  driver_.check(result, "finish what runs on the GPU");
  done_ = std::max(done_, begun);
  if (begun_ == done_) last_ = own_;  // the caller may destroy the stream that it chose
  settle();
}

// Copies arrive, and failures become texts.
void Queue::settle() {
  for (; !landings_.empty() && landings_.front().ticket <= done_; landings_.pop_front()) land(landings_.front());
  for (; !watched_.empty() && watched_.front().ticket <= done_; watched_.pop_front()) {
    ErrorRecord& record = records_[watched_.front().ticket % kRecords];
    if (record.kind == 0) continue;
    failures_.emplace(watched_.front().ticket, text_of_record(record, *watched_.front().names));
    if (failures_.size() > kMostFailures) failures_.erase(failures_.begin());
    record = {};
  }
}

void Queue::land(const Landing& landing) {
  if (landing.to != nullptr) std::memcpy(landing.to, landing.from, landing.bytes);
  staging_.give_back(landing.from);
}

// The same words as for a kernel of the CPU (runtime/context.cpp).
std::string Queue::text_of_record(const ErrorRecord& record, const std::vector<std::string>& names) {
  const bool is_known = record.node >= 0 && static_cast<size_t>(record.node) < names.size();
  const std::string name = "%" + (is_known ? names[static_cast<size_t>(record.node)] : std::to_string(record.node));
  if (record.kind == kTenonOutOfRange)
    return text_of(name, ": index ", record.value, " is out of range for a size of ", record.bound);
  if (record.kind == kTenonDivisionByZero) return text_of(name, ": integer division of ", record.value, " by zero");
  return text_of(name, " fails with ", record.kind, ", which is not a kind of error");
}

// ---- times ----------------------------------------------------------------------------------------------------------

EventHandle Queue::take_event(std::vector<EventHandle>& from, unsigned flags) {
  if (from.empty()) {
    EventHandle event = nullptr;
    driver_.check(driver_.create_event(&event, flags), "make an event of the GPU");
    return event;
  }
  const EventHandle event = from.back();
  from.pop_back();
  return event;
}

void Queue::drop_oldest_times() {
  for (; timed_.size() >= kMostTimes; timed_.pop_front()) {
    timers_.push_back(timed_.front().begin);
    if (timed_.front().end != nullptr) timers_.push_back(timed_.front().end);
  }
}

// Notes the two clocks when the GPU has nothing to do.
void Queue::start_times() {
  if (start_ == nullptr) driver_.check(driver_.create_event(&start_, 0), "make an event of the GPU");
  driver_.check(driver_.record_event(start_, last_), "record an event");
  driver_.check(driver_.finish_event(start_), "finish what runs on the GPU");
  start_ns_ = now_ns();
}

uint64_t Queue::take_times(tenon_device_event* events, uint64_t capacity) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(takes_times_, true)) start_times();
  uint64_t count = 0;
  float begin = 0, length = 0;
  for (; count < capacity && !timed_.empty() && timed_.front().ticket <= done_; timed_.pop_front()) {
    const Timed& timed = timed_.front();
    const bool is_whole = timed.end != nullptr && driver_.elapsed(&begin, start_, timed.begin) == kSuccess &&
                          driver_.elapsed(&length, timed.begin, timed.end) == kSuccess;
    timers_.push_back(timed.begin);
    if (timed.end != nullptr) timers_.push_back(timed.end);
    if (!is_whole) continue;
    const auto begin_ns = start_ns_ + static_cast<uint64_t>(std::max(0.0, static_cast<double>(begin) * 1e6));
    events[count++] = {timed.ticket, begin_ns, begin_ns + static_cast<uint64_t>(static_cast<double>(length) * 1e6)};
  }
  if (timed_.empty() && begin > kLongestClock) start_times();
  return count;
}

}  // namespace tenon::cuda
