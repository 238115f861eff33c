#include "runtime/services.h"

#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace {

constexpr tenon_services kServices = {
    [](const tenon_services*, int64_t begin, int64_t end, tenon_stretch stretch, void* context) {
      return tenon::parallel_for(begin, end, stretch, context);
    },
    [](const tenon_services*, int64_t bytes) { return tenon::allocate_scratch(bytes); },
    [](const tenon_services*, void* memory) { tenon::release_scratch(memory); }};

}  // namespace

const tenon_services* tenon_default_services() { return &kServices; }

int64_t tenon_threads() { return tenon::thread_count(); }

void tenon_set_threads(int64_t threads) { tenon::set_threads(threads); }

int64_t tenon_set_own_threads(int64_t threads) { return tenon::set_own_threads(threads); }
