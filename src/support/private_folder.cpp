#include "support/private_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

#include "support/diagnostic.h"
#include "support/file.h"

namespace tenon {
namespace {

using runtime::Descriptor;

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

// "alice (user 1000)"
std::string user_text(uid_t user) {
  std::array<char, 4096> buffer;
  struct passwd entry = {};
  struct passwd* found = nullptr;
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) != 0 || !found)
    return fmt::format("user {}", user);
  return fmt::format("{} (user {})", entry.pw_name, user);
}

void require_private(const struct stat& info, const std::string& path) {
  if (info.st_uid != ::geteuid()) {
    fail("{} belongs to {}, and this process runs as {}", path, user_text(info.st_uid), user_text(::geteuid()));
  }
  if ((info.st_mode & kWritableByOthers) != 0) {
    const std::string mode = fmt::format("{:04o}", info.st_mode & 07777);
    fail("other users can write to {} (its mode is {}): `chmod go-w {}` forbids it", path, mode, path);
  }
}

// Makes folders like `mkdir -p`, for this user alone. A failure shows when the folder is opened.
void make_folders(const std::string& path) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    ::mkdir(path.substr(0, end).c_str(), 0700);
  }
  ::mkdir(path.c_str(), 0700);
}

// A write beyond the limit on file sizes fails with EFBIG, without the signal that would end the process.
class WithoutFileSizeSignal {
 public:
  WithoutFileSizeSignal() {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  WithoutFileSizeSignal(const WithoutFileSizeSignal&) = delete;
  ~WithoutFileSizeSignal() {
    const struct timespec now = {};
    while (::sigtimedwait(&signal_, nullptr, &now) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t signal_;
  sigset_t before_;
};

struct CloseList {
  void operator()(DIR* list) const { ::closedir(list); }
};

}  // namespace

std::optional<PrivateFolder> PrivateFolder::open(const std::string& path) {
  auto folder = std::make_shared<const Descriptor>(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info = {};
  if (folder->number() < 0 || ::fstat(folder->number(), &info) != 0) return {};
  require_private(info, path);
  return PrivateFolder(path, std::move(folder));
}

std::optional<PrivateFolder> PrivateFolder::create(const std::string& path) {
  if (std::optional<PrivateFolder> found = open(path)) return found;
  make_folders(path);
  return open(path);
}

std::optional<PrivateFolder::File> PrivateFolder::open_file(const std::string& name) const {
  const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  File file{std::make_shared<const Descriptor>(::openat(descriptor_->number(), name.c_str(), flags)), {}};
  const int number = file.descriptor->number();
  if (number < 0 || ::fstat(number, &file.info) != 0 || !S_ISREG(file.info.st_mode)) return {};
  require_private(file.info, path_ + "/" + name);
  return file;
}

bool PrivateFolder::replace_file(const std::string& name, std::span<const std::span<const std::byte>> pieces) const {
  static std::atomic<unsigned> counter = 0;
  const int folder = descriptor_->number();
  const std::string temporary = fmt::format("{}.tmp.{}.{}", name, ::getpid(), counter++);
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  Descriptor file(::openat(folder, temporary.c_str(), flags, 0600));
  if (file.number() < 0) return false;
  const WithoutFileSizeSignal guard;
  bool is_written = true;
  for (const auto& piece : pieces) is_written = is_written && write_all(file.number(), piece);
  is_written = file.close() == 0 && is_written;
  if (is_written && ::renameat(folder, temporary.c_str(), folder, name.c_str()) == 0) return true;
  ::unlinkat(folder, temporary.c_str(), 0);
  return false;
}

void PrivateFolder::remove_file(const std::string& name) const { ::unlinkat(descriptor_->number(), name.c_str(), 0); }

std::vector<PrivateFolder::Entry> PrivateFolder::files() const {
  std::vector<Entry> entries;
  const int folder = ::openat(descriptor_->number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return entries;
  const std::unique_ptr<DIR, CloseList> list(::fdopendir(folder));
  if (!list) return ::close(folder), entries;
  while (const struct dirent* const found = ::readdir(list.get())) {
    Entry entry{found->d_name, {}};
    if (::fstatat(folder, found->d_name, &entry.info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(entry.info.st_mode) && entry.info.st_uid == ::geteuid()) entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace tenon
