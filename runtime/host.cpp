#include "runtime/host.h"

#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace {

constexpr tenon_host kHost = {tenon::parallel_for, tenon::allocate_scratch, tenon::release_scratch};

}  // namespace

const tenon_host* tenon_default_host() { return &kHost; }

int64_t tenon_threads() { return tenon::thread_count(); }

void tenon_set_threads(int64_t threads) { tenon::set_threads(threads); }

int64_t tenon_set_own_threads(int64_t threads) { return tenon::set_own_threads(threads); }
