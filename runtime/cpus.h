// CPU affinity of threads.
#pragma once

#include <pthread.h>

#include <vector>

namespace tenon {

// The CPUs that the calling thread may run on, in order. Never empty.
std::vector<int> allowed_cpus();
// Restricts a thread to these CPUs. If the system refuses, nothing changes.
void run_on(pthread_t thread, const std::vector<int>& cpus);
// The CPU that the calling thread runs on now, or -1.
int current_cpu();

}  // namespace tenon
