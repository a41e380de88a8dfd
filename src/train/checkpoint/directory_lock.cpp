#include "train/checkpoint/directory_lock.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <iomanip>
#include <random>
#include <sstream>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

#include "core/error.h"

namespace tributary::train {
namespace {

[[noreturn]] void fail(std::string_view call, const std::string& path) {
  TRIB_RAISE(Fault::kResource, .what = str("checkpoint: ", call, " fails"), .where = path,
             .found = std::generic_category().message(errno));
}

std::string read_line(int file, const std::string& path) {
  std::array<char, 256> text{};
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  if (got < 0) fail("read", path);
  const std::string all(text.data(), static_cast<std::size_t>(got));
  return all.substr(0, all.find('\n'));
}

/// Eight hexadecimal digits; the name of a job must differ from that of any other.
std::string draw_job() {
  std::random_device device;
  std::ostringstream digits;
  digits << std::hex << (0x10000000U | (device() & 0xfffffffU));
  return digits.str();
}

std::string compose_line(const std::string& job, std::int64_t incarnation) {
  std::ostringstream line;
  line << job << ' ' << std::setw(10) << std::setfill('0') << incarnation << '\n';
  return line.str();
}

bool is_job(const std::string& name) {
  return name.size() == 8 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& root) {
  const std::string path = root + "/LOCK";
  file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  TRIB_REQUIRE(file_ || errno != ELOOP, .what = "checkpoint: the lock is a symbolic link",
               .where = path, .expected = "a plain file", .fix = "remove the link");
  if (!file_) fail("open", path);
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    TRIB_REQUIRE(errno != EWOULDBLOCK, .what = "checkpoint: another job holds the directory",
                 .where = root, .found = str("job ", escaped(read_line(file_.get(), path))),
                 .fix = "wait for it to end, or choose another run.dir");
    fail("flock", path);
  }
  std::istringstream line(read_line(file_.get(), path));
  if (!(line >> job_ >> incarnation_) || !is_job(job_) || incarnation_ < 0) {
    job_ = draw_job();
    incarnation_ = 0;
  }
  ++incarnation_;
  // One write of the same width over the old text: whenever it fails or the process dies, the file
  // names the job.
  const std::string text = compose_line(job_, incarnation_);
  if (::pwrite(file_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    fail("write", path);
  if (::ftruncate(file_.get(), static_cast<off_t>(text.size())) != 0) fail("ftruncate", path);
  if (::fsync(file_.get()) != 0) fail("fsync", path);
}

}  // namespace tributary::train
