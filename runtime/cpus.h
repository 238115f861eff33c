// The CPUs that threads may run on.
#pragma once

#include <pthread.h>

#include <vector>

namespace tenon {

// Those that the calling thread may run on, in order. Never empty.
std::vector<int> allowed_cpus();
// Lets a thread run on these alone. Where the system refuses, it goes on as before.
void run_on(pthread_t thread, const std::vector<int>& cpus);
// Where the calling thread runs now, or -1.
int current_cpu();

}  // namespace tenon
