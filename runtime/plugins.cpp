// Plug-ins by name, and what the host offers them.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <utility>

#include "runtime/checksum.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/loader.h"
#include "runtime/plugin_call.h"
#include "runtime/portable_kernel.h"
#include "runtime/services.h"
#include "runtime/shared.h"

// A kernel that a plug-in runs on the host.
struct tenon_host_kernel {
  std::vector<uint64_t> bytes;  // aligned, as a portable kernel must be
  tenon::runtime::PortableKernel portable;
  std::shared_ptr<const tenon::runtime::LoadedCode> code = {};
  tenon_kernel native = nullptr;
};

namespace tenon::runtime {
namespace {

constexpr std::string_view kCuda = "cuda";  // the device that comes with Tenon

// Turns what `body` throws into a status and a text.
template <class Body>
tenon_status guarded(tenon_text* error, Body body) {
  try {
    body();
    return TENON_OK;
  } catch (const StatusError& failure) {
    return tenon_write_text(error, failure.status(), failure.what());
  } catch (const std::bad_alloc&) {
    return tenon_write_text(error, TENON_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& failure) {
    return tenon_write_text(error, TENON_INTERNAL, failure.what());
  }
}

tenon_status load_kernel(const void* kernel, uint64_t kernel_bytes, const void* object, uint64_t object_bytes,
                         tenon_host_kernel** loaded, tenon_text* error) {
  return guarded(error, [&] {
    std::vector<uint64_t> bytes(kernel_bytes / sizeof(uint64_t) + 1);
    std::memcpy(bytes.data(), kernel, kernel_bytes);
    PortableKernel portable = PortableKernel::load(std::as_bytes(std::span(bytes)).first(kernel_bytes));
    auto made = std::make_unique<tenon_host_kernel>(tenon_host_kernel{std::move(bytes), std::move(portable)});
    if (object_bytes > 0) {
      made->code = LoadedCode::load({static_cast<const char*>(object), object_bytes});
      made->native = made->code->function<std::remove_pointer_t<tenon_kernel>>("tenon_kernel");
    }
    *loaded = made.release();
  });
}

tenon_status run_kernel(const tenon_host_kernel* kernel, void* const* buffers, const int64_t* sizes,
                        tenon_text* error) {
  return guarded(error, [&] {
    const tenon_services* const services = tenon_default_services();
    int64_t what[4] = {};
    const int64_t failed = kernel->native != nullptr
                               ? kernel->native(buffers, sizes, what, services)
                               : kernel->portable.run(buffers, sizes, what, services, PortableKernel::kNoLimit);
    if (failed == 0) return;
    if (failed == kTenonOutOfMemory) fail(TENON_OUT_OF_MEMORY, "there is no memory for a kernel's scratch");
    fail(TENON_RUN_FAILED, kernel->portable.describe(what));
  });
}

void free_kernel(tenon_host_kernel* kernel) { delete kernel; }

// What a library is made of: a plug-in that was compiled anew is another one. Empty without a file.
std::string digest_of_file(const std::string& path) {
  std::vector<std::byte> bytes;
  std::FILE* const file = path.empty() ? nullptr : std::fopen(path.c_str(), "rb");
  if (file == nullptr) return {};
  for (size_t count = 1; count > 0;) {
    const size_t used = bytes.size();
    bytes.resize(used + (size_t{1} << 16));
    count = std::fread(bytes.data() + used, 1, bytes.size() - used, file);
    bytes.resize(used + count);
  }
  std::fclose(file);
  return text_of(checksum(bytes));
}

// The library of a device that belongs to this installation: beside the library or program that this code is in, or in
// the folder lib next to it. Empty: it is not there.
std::string library_beside(std::string_view name) {
  Dl_info self = {};
  if (name != kCuda || dladdr(reinterpret_cast<void*>(&free_kernel), &self) == 0) return {};
  char own[PATH_MAX];
  const bool is_program = self.dli_fname == nullptr || std::strchr(self.dli_fname, '/') == nullptr;
  if (realpath(is_program ? "/proc/self/exe" : self.dli_fname, own) == nullptr) return {};
  const std::string path = own, folder = path.substr(0, path.rfind('/'));
  for (const char* place : {"", "/lib", "/../lib"}) {
    const std::string library = text_of(folder, place, "/libtenon_", name, ".so");
    if (access(library.c_str(), R_OK) == 0) return library;
  }
  return {};
}

// ---- the registry ---------------------------------------------------------------------------------------------------

// Entries are never removed: their names are what callers get.
class Registry {
 public:
  static Registry& get() {
    static Registry registry;
    return registry;
  }

  std::string_view load(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return load_locked(path);
  }

  std::string_view add(tenon_device_plugin plugin) {
    const std::lock_guard lock(mutex_);
    return add_locked(plugin, {});
  }

  std::string library_of(std::string_view name) {
    const std::lock_guard lock(mutex_);
    load_named_by_environment();
    const Entry* const entry = find(name);
    return entry == nullptr ? "" : entry->library;
  }

  std::vector<std::string_view> names() {
    const std::lock_guard lock(mutex_);
    load_named_by_environment();
    std::vector<std::string_view> names;
    for (const Entry& entry : entries_) names.push_back(entry.name);
    return names;
  }

  bool load_by_name(std::string_view name) {
    const std::lock_guard lock(mutex_);
    return find_or_load(name) != nullptr;
  }

  std::shared_ptr<Device> open(std::string_view spec) {
    if (spec.ends_with(':')) spec.remove_suffix(1);  // no options
    const std::lock_guard lock(mutex_);
    const Entry* const entry = find_or_load(name_of_spec(spec));
    if (entry == nullptr) fail_unknown(name_of_spec(spec));
    for (const Opened& opened : open_) {
      if (opened.spec != spec) continue;
      if (std::shared_ptr<Device> device = opened.device.lock()) return device;
    }
    std::erase_if(open_, [](const Opened& opened) { return opened.device.expired(); });
    const size_t colon = spec.find(':');
    const std::string options(colon == std::string_view::npos ? "" : spec.substr(colon + 1));
    auto device = new_shared<Device>(*entry->api, options, entry->build, entry->debug);
    open_.push_back({std::string(spec), device});
    return device;
  }

 private:
  struct Entry {
    std::string name;
    const tenon_device_api* api;
    std::string library = {};
    std::string build = {};
    const tenon_device_debug_api* debug = nullptr;
  };
  struct Opened {
    std::string spec;
    std::weak_ptr<Device> device;
  };

  const Entry* find(std::string_view name) const {
    for (const Entry& entry : entries_) {
      if (entry.name == name) return &entry;
    }
    return nullptr;
  }

  const Entry* find_or_load(std::string_view name) {
    load_named_by_environment();
    if (const Entry* const known = find(name)) return known;
    const std::string library = library_beside(name);
    if (!library.empty()) load_locked(library);
    return find(name);
  }

  [[noreturn]] void fail_unknown(std::string_view name) const {
    if (name == kCuda)
      fail(TENON_INVALID_ARGUMENT, "device cuda needs libtenon_cuda.so, which is not beside Tenon's library");
    if (name == "cpu") fail(TENON_INVALID_ARGUMENT, "cpu is the host: its memory is no device's");
    std::string known = "cpu";
    for (const Entry& entry : entries_) known += ", " + entry.name;
    fail(TENON_INVALID_ARGUMENT, "there is no device '", name, "'; the devices are ", known);
  }

  std::string_view load_locked(const std::string& path) {
    const bool is_bare = path.find('/') == std::string::npos;  // dlopen would look for it among system libraries
    void* const library = dlopen((is_bare ? "./" + path : path).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) fail(TENON_IO, "the plug-in ", path, " cannot be loaded: ", dlerror());
    const auto plugin = reinterpret_cast<tenon_device_plugin>(dlsym(library, TENON_DEVICE_SYMBOL));
    if (plugin == nullptr) {
      dlclose(library);
      fail(TENON_UNSUPPORTED, path, " is not a plug-in of this version: it exports no ", TENON_DEVICE_SYMBOL);
    }
    const auto debug = reinterpret_cast<tenon_device_debug_plugin>(dlsym(library, TENON_DEVICE_DEBUG_SYMBOL));
    return with_path(path, [&] {  // it stays loaded
      return add_locked(plugin, is_bare ? "./" + path : path, debug == nullptr ? nullptr : debug());
    });
  }

  std::string_view add_locked(tenon_device_plugin plugin, const std::string& library,
                              const tenon_device_debug_api* debug = nullptr) {
    const tenon_device_api* const start = nullptr;
    const tenon_device_api* const api =
        call_plugin("of a plug-in", TENON_DEVICE_SYMBOL, start, [plugin](const tenon_device_api*& given, tenon_text*) {
          given = plugin(&plugin_host());
          return TENON_OK;
        });
    if (api == nullptr) fail(TENON_UNSUPPORTED, "the plug-in does not work with this version of Tenon");
    if (debug != nullptr && (debug->size < sizeof *debug || !debug->commands || !debug->command || !debug->launch))
      fail(TENON_INVALID_ARGUMENT, "the plug-in's table of ", TENON_DEVICE_DEBUG_SYMBOL, " is not whole");
    std::string name = Device::described(*api, "").name;
    const Entry* const known = find(name);
    if (known == nullptr)
      return entries_.emplace_back(Entry{std::move(name), api, library, digest_of_file(library), debug}).name;
    if (known->api != api) fail(TENON_INVALID_ARGUMENT, "there is a device '", name, "' already");
    return known->name;
  }

  void load_named_by_environment() {
    if (std::exchange(has_read_environment_, true)) return;
    const char* const paths = std::getenv("TENON_PLUGINS");
    std::string_view rest = paths == nullptr ? "" : paths;
    while (!rest.empty()) {
      const std::string path(rest.substr(0, rest.find(':')));
      rest.remove_prefix(std::min(path.size() + 1, rest.size()));
      if (!path.empty()) load_locked(path);
    }
  }

  std::mutex mutex_;
  std::list<Entry> entries_;
  std::vector<Opened> open_;
  bool has_read_environment_ = false;
};

}  // namespace

const tenon_host& plugin_host() {
  static const tenon_host host{sizeof(tenon_host), load_kernel, run_kernel, free_kernel};
  return host;
}

std::string_view load_plugin(const std::string& path) { return Registry::get().load(path); }
std::string_view register_plugin(tenon_device_plugin plugin) { return Registry::get().add(plugin); }
std::vector<std::string_view> device_names() { return Registry::get().names(); }
std::shared_ptr<Device> open_device(std::string_view spec) { return Registry::get().open(spec); }

bool load_device(std::string_view name) { return Registry::get().load_by_name(name); }

std::string library_of(std::string_view name) { return Registry::get().library_of(name); }

std::string_view name_of_spec(std::string_view spec) { return spec.substr(0, spec.find(':')); }

bool has_device(std::string_view name) {
  const std::vector<std::string_view> names = device_names();
  return std::ranges::find(names, name) != names.end();
}

}  // namespace tenon::runtime
