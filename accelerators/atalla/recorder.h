// Keeps what commands write, for comparisons of bodies: a digest of each command, and the writes of one.
#pragma once

#include "body.h"

namespace atalla {

class Recorder {
 public:
  Recorder(const RunOptions& options, size_t commands) : log_(options.log), bases_(options.bases) {
    if (options.digests) run_digests_.assign(commands, 0xcbf29ce484222325U);
  }
  bool on() const { return log_ || !run_digests_.empty(); }
  // A write of at most 4 * N bytes. Each body reports a command's writes in the order of README.md.
  void write(uint32_t command, uint64_t address, std::span<const uint8_t> bytes) {
    if (!bases_.empty()) address -= bases_[command];
    if (!run_digests_.empty()) {
      uint64_t& digest = run_digests_[command];
      mix(digest, address);
      for (size_t i = 0; i < bytes.size(); i += 8) {
        uint64_t word = 0;
        std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
        mix(digest, word);
      }
    }
    if (log_ == command) writes_.push_back({address, {bytes.begin(), bytes.end()}});
  }
  void finish(RunResult& run) {
    run.digests = std::move(run_digests_);
    run.writes = std::move(writes_);
  }

 private:
  static void mix(uint64_t& digest, uint64_t word) { digest = std::rotl((digest ^ word) * 0x9e3779b97f4a7c15U, 29); }

  std::optional<uint32_t> log_;
  std::span<const uint64_t> bases_;
  std::vector<uint64_t> run_digests_;
  std::vector<Write> writes_;
};

}  // namespace atalla
