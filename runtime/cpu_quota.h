// The limit that control groups (containers, systemd) set on this process's share of the CPUs.
#pragma once

#include <cstdint>

namespace tenon {

inline constexpr int64_t kNoQuota = INT64_MAX;

// In whole CPUs, at least one; kNoQuota without a limit. Rounded down: a process that uses more is stopped until its
// period ends, a tenth of a second as a rule, and all threads of a loop wait for the one that is stopped.
int64_t cpu_quota() noexcept;

}  // namespace tenon
