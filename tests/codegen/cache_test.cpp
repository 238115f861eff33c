#include "codegen/cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "runtime/system.h"
#include "support/diagnostic.h"
#include "support/file.h"
#include "tests/support/support_environment.h"

namespace tenon::codegen {
namespace {

namespace fs = std::filesystem;
using tenon::testing::WithVariable;

constexpr int64_t kLarge = int64_t{1} << 30;

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tenon_cache_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    ::chmod(folder_.c_str(), 0700);
    fs::remove_all(folder_);
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename().string());
    return names;
  }

  std::string folder_;
};

std::string content_for(int i) { return std::string(static_cast<size_t>(100 + i), static_cast<char>('a' + i % 26)); }

TEST_F(Cache, FindsWhatWasStored) {
  const ObjectCache cache(folder_ + "/new/folder", kLarge);
  EXPECT_FALSE(cache.find("key"));
  cache.store("key", "content");
  cache.store("other", std::string("\0binary\0", 8));
  EXPECT_EQ(cache.find("key"), "content");
  EXPECT_EQ(cache.find("other"), std::string("\0binary\0", 8));
  cache.store("key", "newer");
  EXPECT_EQ(cache.find("key"), "newer");
  EXPECT_FALSE(cache.find("ke"));
}

TEST_F(Cache, KeysOfOneDigestAreApart) {
  const ObjectCache cache(folder_, kLarge);
  const Digest same{1, 2};
  cache.store("one key", "one", same);
  EXPECT_EQ(cache.find("one key", same), "one");
  EXPECT_FALSE(cache.find("two key", same));
  EXPECT_FALSE(cache.find("another", same));
  cache.store("two key", "two", same);
  EXPECT_EQ(cache.find("two key", same), "two");
  EXPECT_FALSE(cache.find("one key", same));
}

TEST_F(Cache, DamagedFilesAreMisses) {
  const ObjectCache cache(folder_, kLarge);
  cache.store("key", content_for(1));
  const std::string path = cache.path(digest("key"));
  const std::string whole(read_file(path).value().text());
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(write_file(path, std::string_view(whole).substr(0, size)).ok());
    EXPECT_FALSE(cache.find("key")) << size;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string wrong = whole;
    wrong[i] = static_cast<char>(wrong[i] ^ 0x10);
    ASSERT_TRUE(write_file(path, wrong).ok());
    EXPECT_FALSE(cache.find("key")) << i;
  }
  ASSERT_TRUE(write_file(path, whole + "more").ok());
  EXPECT_FALSE(cache.find("key"));
  cache.store("key", "again");
  EXPECT_EQ(cache.find("key"), "again");
}

void set_age(const ObjectCache& cache, std::string_view key, int hours) {
  fs::last_write_time(cache.path(digest(key)), fs::file_time_type::clock::now() - std::chrono::hours(hours));
}

TEST_F(Cache, WhatWasNotUsedForLongGoesFirst) {
  const ObjectCache cache(folder_, 4000);
  const std::string large(900, 'x');
  for (const char* key : {"a", "b", "c", "d"}) cache.store(key, large);
  set_age(cache, "a", 10);
  set_age(cache, "b", 30);
  set_age(cache, "c", 20);
  set_age(cache, "d", 40);
  EXPECT_TRUE(cache.find("d"));  // which is a use
  cache.store("e", large);
  EXPECT_FALSE(cache.find("b"));
  EXPECT_FALSE(cache.find("c"));
  for (const char* key : {"a", "d", "e"}) EXPECT_TRUE(cache.find(key)) << key;
  cache.store("larger than all", std::string(5000, 'x'));
  EXPECT_FALSE(cache.find("larger than all"));
  EXPECT_TRUE(cache.find("a"));
}

// Only now and then is the folder looked at.
TEST_F(Cache, TheFolderStaysNearItsLimit) {
  const int64_t limit = 200'000;
  const ObjectCache cache(folder_, limit);
  for (int i = 0; i < 2000; ++i) cache.store(std::to_string(i), std::string(1000, 'x'));
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) bytes += static_cast<int64_t>(entry.file_size());
  EXPECT_LT(bytes, limit + limit / 2);
  EXPECT_GT(bytes, limit / 2);
}

constexpr const char* kDigits = "0123456789abcdef0123456789abcdef";

void make_old(const std::string& path) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(100));
}

TEST_F(Cache, WhatACrashLeftIsRemoved) {
  const ObjectCache cache(folder_, 2000);
  const std::string name = folder_ + "/" + kDigits + ".tenon.tmp.";
  const std::string old = name + "1.0", fresh = name + "2.0";
  std::ofstream(old) << "half";
  std::ofstream(fresh) << "half";
  make_old(old);
  for (const char* key : {"a", "b", "c"}) cache.store(key, std::string(900, 'x'));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(Cache, FilesOfOthersAreLeftAlone) {
  const ObjectCache cache(folder_, 2000);
  const std::string digits = kDigits;
  const std::vector<std::string> names = {"notes.txt",
                                          "model.tenon",
                                          digits + ".tenon",
                                          digits.substr(1) + ".tenon",
                                          digits + "0.tenon",
                                          digits + ".tenon.tmp.1",
                                          digits + ".tenon.tmp.1.x",
                                          "model.tenon.tmp.1.0",
                                          digits + ".tenon.bak",
                                          "0" + digits + ".tenon.tmp.1.0"};
  for (const std::string& name : names) {
    std::ofstream(folder_ + "/" + name) << std::string(900, '#');
    make_old(folder_ + "/" + name);
  }
  for (int i = 0; i < 40; ++i) cache.store(std::to_string(i), std::string(900, 'x'));
  for (const std::string& name : names) EXPECT_TRUE(fs::exists(folder_ + "/" + name)) << name;
  EXPECT_LT(files().size(), names.size() + 6) << "nothing was removed";
}

TEST_F(Cache, AFolderThatCannotBeWrittenIsNoError) {
  const ObjectCache nowhere("/proc/tenon", kLarge);
  nowhere.store("key", "content");
  EXPECT_FALSE(nowhere.find("key"));
  std::ofstream(folder_ + "/file") << "";
  const ObjectCache in_a_file(folder_ + "/file", kLarge);
  in_a_file.store("key", "content");
  EXPECT_FALSE(in_a_file.find("key"));
}

TEST_F(Cache, AReadOnlyFolderIsRead) {
  const ObjectCache cache(folder_, kLarge);
  cache.store("key", "content");
  ::chmod(folder_.c_str(), 0500);
  cache.store("other", "content");
  EXPECT_EQ(cache.find("key"), "content");
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  EXPECT_FALSE(cache.find("other"));
}

// ---- what others may have written -----------------------------------------------------------------------------------

std::string said(const std::function<void()>& body) {
  ::testing::internal::CaptureStderr();
  body();
  return ::testing::internal::GetCapturedStderr();
}

TEST_F(Cache, AFolderIsMadeForThisUserAlone) {
  const mode_t before = ::umask(0);
  const ObjectCache cache(folder_ + "/new/folder", kLarge);
  cache.store("key", "content");
  ::umask(before);
  struct stat info = {};
  for (const std::string& path : {folder_ + "/new", folder_ + "/new/folder", cache.path(digest("key"))}) {
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077, 0u) << path;
  }
  EXPECT_EQ(cache.find("key"), "content");
}

TEST_F(Cache, AFolderThatOthersCanWriteIsNotUsed) {
  const ObjectCache cache(folder_, kLarge);
  cache.store("key", "content");
  for (const mode_t mode : {0777u, 0770u, 0702u, 01777u}) {
    ::chmod(folder_.c_str(), mode);
    const WithVariable variable("TENON_CACHE", folder_.c_str());
    const std::string text = said([&] {
      EXPECT_FALSE(cache.find("key"));
      EXPECT_FALSE(cache.store("other", "content"));
      EXPECT_FALSE(ObjectCache::from_environment());
    });
    EXPECT_EQ(text, fmt::format("tenon: warning: no compiled code is taken from the cache: other users can write to "
                                "{0} (its mode is {1:04o}): `chmod go-w {0}` forbids it. Nobody else may write to the "
                                "code that is run here. Set TENON_CACHE to a folder of your own, or to off\n",
                                folder_, mode));
    EXPECT_EQ(files().size(), 1u);
  }
  ::chmod(folder_.c_str(), 0755);  // others may read
  EXPECT_EQ(cache.find("key"), "content");
}

TEST_F(Cache, AFolderOfAnotherUserIsNotUsed) {
  const bool is_root = ::geteuid() == 0;
  std::string folder = is_root ? folder_ : "/usr";
  ASSERT_TRUE(!is_root || ::chown(folder_.c_str(), 12345, 12345) == 0);
  const ObjectCache cache(folder, kLarge);
  const std::string text = said([&] {
    EXPECT_FALSE(cache.store("key", "content"));
    EXPECT_FALSE(cache.find("key"));
  });
  EXPECT_THAT(text, ::testing::HasSubstr(is_root ? " belongs to user 12345, and this process runs as root (user 0)"
                                                 : "/usr belongs to root (user 0), and this process runs as "));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
}

TEST_F(Cache, AnEntryThatOthersCanWriteIsNotUsed) {
  const ObjectCache cache(folder_, kLarge);
  cache.store("key", "content");
  ::chmod(cache.path(digest("key")).c_str(), 0666);
  EXPECT_THAT(said([&] { EXPECT_FALSE(cache.find("key")); }), ::testing::HasSubstr("other users can write to"));
  cache.store("key", "own");
  EXPECT_EQ(cache.find("key"), "own");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown(cache.path(digest("key")).c_str(), 12345, 12345), 0);
  EXPECT_THAT(said([&] { EXPECT_FALSE(cache.find("key")); }), ::testing::HasSubstr(".tenon belongs to user 12345"));
  cache.store("key", "own");
  EXPECT_EQ(cache.find("key"), "own");
}

TEST_F(Cache, ALinkIsNoEntry) {
  const ObjectCache cache(folder_, kLarge), elsewhere(folder_ + "/elsewhere", kLarge);
  elsewhere.store("key", "content");
  fs::create_symlink(elsewhere.path(digest("key")), cache.path(digest("key")));
  EXPECT_FALSE(cache.find("key"));
  cache.store("key", "own");
  EXPECT_EQ(cache.find("key"), "own");
  EXPECT_EQ(elsewhere.find("key"), "content");
}

// ---- what is no entry, and what cannot be written -------------------------------------------------------------------

TEST_F(Cache, APipeIsNoEntry) {
  const ObjectCache cache(folder_, kLarge);
  ASSERT_EQ(::mkfifo(cache.path(digest("key")).c_str(), 0600), 0);
  EXPECT_FALSE(cache.find("key"));
  cache.store("key", "content");
  EXPECT_EQ(cache.find("key"), "content");
}

int64_t most_resident_bytes() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

TEST_F(Cache, AHugeFileTakesNoMemory) {
  const ObjectCache cache(folder_, kLarge * 1024);
  const int64_t before = most_resident_bytes();
  for (const bool begins_as_entry : {false, true}) {
    const std::string path = cache.path(digest("key"));
    begins_as_entry ? static_cast<void>(cache.store("key", "content")) : std::ofstream(path).close();
    ASSERT_EQ(::truncate(path.c_str(), kLarge), 0);
    EXPECT_FALSE(cache.find("key"));
  }
  EXPECT_LT(most_resident_bytes() - before, int64_t{100} << 20);
}

// The status of a child process that runs the body.
int status_of(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_F(Cache, ALimitOnTheSizeOfFilesIsNoError) {
  const ObjectCache cache(folder_, kLarge);
  EXPECT_EQ(status_of([&] {
              const struct rlimit limit = {500, 500};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              ::signal(SIGXFSZ, SIG_DFL);
              return !cache.store("key", std::string(1000, 'x')) && cache.store("small", "content");
            }),
            0);
  EXPECT_EQ(files().size(), 1u);
  EXPECT_EQ(cache.find("small"), "content");
}

TEST_F(Cache, AFullDiskIsNoError) {
  const ObjectCache cache(folder_, kLarge);
  runtime::System full = runtime::kSystem;
  full.write = [](int file, const void* bytes, size_t size) -> ssize_t {
    if (size > 100) return ::write(file, bytes, 100);
    return errno = ENOSPC, -1;
  };
  runtime::use_system(&full);
  EXPECT_FALSE(cache.store("key", std::string(1000, 'x')));
  runtime::use_system(nullptr);
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(cache.store("key", "content"));
}

// ---- several processes ----------------------------------------------------------------------------------------------

// Writers and readers of the same keys, under a limit that evicts all the time: whatever is found is right.
int hammer(const ObjectCache& cache, int seed) {
  int wrong = 0, found = 0;
  for (int round = 0; round < 3000; ++round) {
    const int i = (round * 7 + seed * 13) % 40;
    if (const auto content = cache.find(std::to_string(i))) {
      ++found;
      wrong += *content != content_for(i);
    } else {
      cache.store(std::to_string(i), content_for(i));
    }
  }
  return wrong > 0 ? 1 : found < 100 ? 2 : 0;
}

TEST_F(Cache, ProcessesShareAFolder) {
  const ObjectCache cache(folder_, 4000);
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(hammer(cache, i));
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  for (const std::string& name : files()) EXPECT_TRUE(name.ends_with(".tenon")) << name;
}

TEST(CacheEnvironment, SaysWhereItIs) {
  const WithVariable none[] = {
      {"TENON_CACHE", nullptr}, {"TENON_CACHE_SIZE", nullptr}, {"XDG_CACHE_HOME", nullptr}, {"HOME", nullptr}};
  EXPECT_FALSE(ObjectCache::from_environment());
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(ObjectCache::from_environment()->folder(), "/home/me/.cache/tenon");
  EXPECT_EQ(ObjectCache::from_environment()->most_bytes(), int64_t{512} << 20);
  ::setenv("XDG_CACHE_HOME", "/var/cache/me", 1);
  EXPECT_EQ(ObjectCache::from_environment()->folder(), "/var/cache/me/tenon");
  ::setenv("TENON_CACHE", "/elsewhere", 1);
  ::setenv("TENON_CACHE_SIZE", "1000", 1);
  EXPECT_EQ(ObjectCache::from_environment()->folder(), "/elsewhere");
  EXPECT_EQ(ObjectCache::from_environment()->most_bytes(), 1000);
  ::setenv("TENON_CACHE_SIZE", "a lot", 1);
  EXPECT_THROW(ObjectCache::from_environment(), Error);
  ::setenv("TENON_CACHE", "off", 1);
  EXPECT_FALSE(ObjectCache::from_environment());
}

}  // namespace
}  // namespace tenon::codegen
