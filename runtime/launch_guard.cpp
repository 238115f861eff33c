#include "runtime/launch_guard.h"

#include <algorithm>
#include <cstring>

#include "runtime/error.h"

namespace tenon::runtime {
namespace {

constexpr int64_t kZone = 1024;
constexpr std::byte kMark{0xc3};

int64_t aligned(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

// A buffer of the device with a zone before and after it, and how it was when the launch began.
class GuardedBuffer {
 public:
  GuardedBuffer(const std::shared_ptr<Device>& device, const LaunchBuffer& buffer, std::string name)
      : device_(device),
        buffer_(buffer),
        name_(std::move(name)),
        zone_(aligned(kZone, device->info().alignment)),
        block_(device, 2 * zone_ + aligned(buffer.bytes, device->info().alignment)),
        before_(static_cast<size_t>(block_.bytes()), kMark) {
    if (buffer.memory != nullptr) device->wait(device->copy_out(before_.data() + zone_, buffer.memory, buffer.bytes));
    device->wait(device->copy_in(block_.data(), before_.data(), block_.bytes()));
  }

  std::byte* memory() const { return block_.data() + zone_; }
  const LaunchBuffer& buffer() const { return buffer_; }

  // After the launch.
  void finish(std::string_view launch) const {
    std::vector<std::byte> after(before_.size());
    device_->wait(device_->copy_out(after.data(), block_.data(), block_.bytes()));
    const int64_t end = zone_ + buffer_.bytes;
    check(launch, after, 0, zone_, "before the start of");
    check(launch, after, end, block_.bytes(), "past the end of");
    if (!buffer_.is_output) check(launch, after, zone_, end, "into");
    if (!buffer_.is_output || buffer_.memory == nullptr) return;
    device_->wait(device_->copy_in(buffer_.memory, after.data() + zone_, buffer_.bytes));
  }

 private:
  void check(std::string_view launch, const std::vector<std::byte>& after, int64_t first, int64_t last,
             const char* where) const {
    const auto begin = before_.begin() + first;
    const auto found = std::mismatch(begin, before_.begin() + last, after.begin() + first);
    if (found.first == before_.begin() + last) return;
    const int64_t byte = found.first - before_.begin() - zone_;
    fail(TENON_RUN_FAILED, "device ", device_->info().name, " wrote ", where, " ", name_, " of ", buffer_.bytes,
         " bytes, at byte ", byte, ", in the launch of ", launch);
  }

  std::shared_ptr<Device> device_;
  LaunchBuffer buffer_;
  std::string name_;
  int64_t zone_;
  DeviceBlock block_;
  std::vector<std::byte> before_;
};

}  // namespace

void run_between_guards(const DeviceProgram& program, const tenon_launch& launch,
                        const std::vector<LaunchBuffer>& buffers, std::string_view name) {
  const std::shared_ptr<Device>& device = program.shared_device();
  std::vector<std::unique_ptr<GuardedBuffer>> guarded;
  std::vector<void*> memory;
  for (const LaunchBuffer& buffer : buffers) {
    // A result may lie in the memory of an operand: they share a buffer. A tensor without bytes lies nowhere.
    const auto is_same = [&](const LaunchBuffer& other) {
      return other.memory == buffer.memory && other.bytes > 0 && buffer.bytes > 0;
    };
    const auto same = std::ranges::find_if(guarded, [&](const auto& other) { return is_same(other->buffer()); });
    if (same != guarded.end()) {
      memory.push_back((*same)->memory());
      continue;
    }
    const bool is_output = buffer.is_output || std::ranges::any_of(buffers, [&](const LaunchBuffer& other) {
                             return is_same(other) && other.is_output;
                           });
    const std::string text = text_of("buffer ", memory.size(), is_output ? ", an output," : ", an input,");
    guarded.push_back(
        std::make_unique<GuardedBuffer>(device, LaunchBuffer{buffer.memory, buffer.bytes, is_output}, text));
    memory.push_back(guarded.back()->memory());
  }
  guarded.push_back(std::make_unique<GuardedBuffer>(device, LaunchBuffer{nullptr, program.scratch_bytes(), true},
                                                    std::string("the scratch")));
  tenon_launch apart = launch;
  apart.buffers = memory.data();
  apart.scratch = launch.scratch == nullptr ? nullptr : guarded.back()->memory();
  device->wait(device->submit(program.get(), apart));
  for (const auto& buffer : guarded) buffer->finish(name);
}

}  // namespace tenon::runtime
