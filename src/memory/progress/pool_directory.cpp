#include "memory/progress/pool_directory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "core/error.h"
#include "core/file/file_system.h"
#include "core/handle.h"
#include "core/json.h"
#include "core/text.h"
#include "memory/address/host_id.h"
#include "memory/progress/progress_thread.h"
#include "memory/transport/socket/unix_socket.h"

namespace tributary::memory {
namespace {

constexpr const char* kFormat = "tributary pool 1";
constexpr Nanoseconds kBetweenAttempts{20'000'000}, kLongestPause{500'000'000};
constexpr Nanoseconds kShortestAttempt{100'000'000}, kLongestAttempt{2'000'000'000};
constexpr std::uint64_t kMaxFileBytes = 64 << 10;

std::string controller_file(const std::string& directory) {
  return str(directory, "/controller.json");
}

std::string hex_of(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) (text += kDigits[byte >> 4]) += kDigits[byte & 15];
  return text;
}

std::array<std::uint8_t, 16> id_of(const std::string& hex) {
  std::array<std::uint8_t, 16> id{};
  for (std::size_t i = 0; i < id.size(); ++i)
    id[i] = static_cast<std::uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  return id;
}

Json json_of(const PoolJob& job) {
  const Timers& timers = job.timers;
  return {{"format", kFormat},
          {"job", hex_of(job.id)},
          {"consumers", job.consumers},
          {"first_step", job.first_step},
          {"window", job.window},
          {"page_bytes", job.page_bytes},
          {"reserve_pages", job.reserve_pages},
          {"timers_ns",
           {{"heartbeat", timers.heartbeat.count},
            {"fence", timers.fence.count},
            {"lost", timers.lost.count},
            {"resend", timers.resend.count},
            {"collect_failures", timers.collect_failures.count}}},
          {"endpoint", job.endpoint},
          {"unix_socket", job.unix_socket}};
}

PoolJob job_of(const Json& json) {
  const Json& timers = json.at("timers_ns");
  const auto time = [&](const char* name) {
    return Nanoseconds{timers.at(name).get<std::int64_t>()};
  };
  PoolJob job{.id = id_of(json.at("job").get<std::string>()),
              .consumers = json.at("consumers").get<std::uint32_t>(),
              .first_step = json.at("first_step").get<std::uint64_t>(),
              .window = json.at("window").get<std::uint64_t>(),
              .page_bytes = json.at("page_bytes").get<std::uint64_t>(),
              .reserve_pages = json.at("reserve_pages").get<std::uint64_t>(),
              .timers = {.heartbeat = time("heartbeat"),
                         .fence = time("fence"),
                         .lost = time("lost"),
                         .resend = time("resend"),
                         .collect_failures = time("collect_failures")},
              .endpoint = json.at("endpoint").get<std::string>(),
              .unix_socket = json.at("unix_socket").get<std::string>()};
  TRIB_REQUIRE(job.page_bytes > 0 && job.consumers > 0 && job.consumers <= kMaxConsumers,
               .what = "memory: a pool's file has a number out of range",
               .found = str("page_bytes = ", job.page_bytes, ", consumers = ", job.consumers));
  return job;
}

/// Whether waiting is in vain: the key of the job, or settings of this process, are wrong.
bool is_lasting(const Refusal& refusal) {
  return refusal.code == "key" || refusal.code == "capacity";
}

void write_secret(const std::string& path, std::span<const std::byte> secret) {
  const std::string part = path + ".part";
  unlink(part.c_str());
  const Descriptor file(
      open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file ||
      write(file.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size()) ||
      rename(part.c_str(), path.c_str()) != 0)
    TRIB_RAISE(Fault::kResource, .what = "memory: the pool's key cannot be written", .where = path,
               .found = std::strerror(errno));
}

}  // namespace

Membership PoolJob::member(Role role, std::uint16_t process, std::uint32_t incarnation) const {
  return {.job = id,
          .rank = process,
          .world = world(),
          .role = role,
          .process = process,
          .incarnation = incarnation};
}

void make_pool_directory(const std::string& directory) {
  if (const std::size_t slash = directory.rfind('/'); slash != std::string::npos && slash > 0)
    make_directories(real_file_system(), directory.substr(0, slash));
  const Descriptor lock = lock_private_directory(directory);
  unlink(controller_file(directory).c_str());
}

JobKey write_pool_key(const std::string& directory) {
  make_pool_directory(directory);
  const Descriptor lock = lock_private_directory(directory);
  const Nonce secret = draw_nonce();
  write_secret(str(directory, "/key"), secret);
  return JobKey(secret);
}

void publish_controller(const std::string& directory, const PoolJob& job) {
  replace_file(real_file_system(), controller_file(directory), json_of(job).dump(2) + "\n");
}

void withdraw_controller(const std::string& directory, const PoolJob& job) noexcept {
  try {
    const Result<FoundPool> found = find_pool(directory);
    if (found && found.value().job.id == job.id) unlink(controller_file(directory).c_str());
  } catch (const std::exception&) {
    // A directory that is gone names nobody.
  }
}

Result<FoundPool> find_pool(const std::string& directory) {
  const std::string path = controller_file(directory);
  // Opening the folder makes a network file system look whether it has changed.
  const Descriptor folder(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto is_there = [&] { return faccessat(folder.get(), "controller.json", F_OK, 0) == 0; };
  const Refusal none{"none", str("memory: no controller is there: ", path)};
  if (!folder || !is_there()) return none;
  bool reads_key = false;
  try {
    const std::string text = read_text_file(real_file_system(), path, kMaxFileBytes);
    const Json json = parse_json(text, path);
    if (json.at("format") != kFormat)
      return Refusal{"format", str("memory: ", path, " is of another version")};
    PoolJob job = job_of(json);
    reads_key = true;
    return FoundPool{.job = std::move(job), .key = read_job_key(str(directory, "/key"))};
  } catch (const std::exception& error) {
    if (!is_there()) return none;  // it was removed in between
    return Refusal{reads_key ? "key" : "file", error.what()};
  }
}

void join_pool(const std::string& directory, Nanoseconds patience,
               const std::function<Result<bool>(const FoundPool&, TimePoint)>& attempt) {
  const TimePoint end = steady_now() + Nanoseconds{wait_of(patience).count()};
  Refusal why;
  Nanoseconds pause = kBetweenAttempts;
  do {
    const Result<FoundPool> found = find_pool(directory);
    const TimePoint deadline =
        std::clamp(end, steady_now() + kShortestAttempt, steady_now() + kLongestAttempt);
    const Result<bool> joined =
        found ? attempt(found.value(), deadline) : Result<bool>(found.refusal());
    if (joined) return;
    // Who is refused again and again asks ever more seldom.
    const bool is_again = found && joined.refusal().reason == why.reason;
    pause = is_again ? std::min(pause * 2, kLongestPause) : kBetweenAttempts;
    why = joined.refusal();
    const Nanoseconds left = end - steady_now();
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(pause, left).count));
  } while (steady_now() < end);
  const bool lasts = is_lasting(why);
  TRIB_RAISE(lasts ? Fault::kInput : Fault::kResource,
             .what = "memory: no controller lets this process in", .where = directory,
             .found = why.reason, .expected = str("one within ", seconds_of(patience), " s"),
             .fix = lasts ? "take the files and settings of the run"
                          : "start the run, or name its pool's directory; encoders of other "
                            "machines need its pool.bind",
             .exit = lasts ? ExitCode::kInput : ExitCode::kPeerLost);
}

std::string socket_directory_of(const std::string& directory) {
  const Digest host = read_host_id();
  std::array<std::uint8_t, 4> first{};
  std::memcpy(first.data(), host.data(), first.size());
  // Whole, since members have working directories of their own.
  return str(std::filesystem::absolute(directory).string(), "/", hex_of(first));
}

}  // namespace tributary::memory
