#include "runtime/host.h"

#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace {

constexpr tenon_host kHost = {[](const tenon_host*, int64_t begin, int64_t end, tenon_stretch stretch, void* context) {
                                return tenon::parallel_for(begin, end, stretch, context);
                              },
                              [](const tenon_host*, int64_t bytes) { return tenon::allocate_scratch(bytes); },
                              [](const tenon_host*, void* memory) { tenon::release_scratch(memory); }};

}  // namespace

const tenon_host* tenon_default_host() { return &kHost; }

int64_t tenon_threads() { return tenon::thread_count(); }

void tenon_set_threads(int64_t threads) { tenon::set_threads(threads); }

int64_t tenon_set_own_threads(int64_t threads) { return tenon::set_own_threads(threads); }
