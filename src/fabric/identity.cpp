#include "fabric/identity.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace tranship {
namespace {

constexpr const char* contact_magic = "tranship-contact";

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Field 22 of /proc/PID/stat; the second field may contain spaces and ends with the last ')'.
std::uint64_t start_ticks(std::int64_t pid) {
  const std::string line = first_line("/proc/" + std::to_string(pid) + "/stat");
  const auto end = line.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(line.substr(end + 1));
  std::string skipped;
  for (int k = 3; k < 22; ++k) fields >> skipped;
  std::uint64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

bool looks_like_host_and_port(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) return false;
  return text.find_first_not_of("0123456789", colon + 1) == std::string::npos &&
         text.find('/') == std::string::npos;
}

}  // namespace

Identity own_identity() {
  Identity identity;
  identity.pid = getpid();
  identity.start_ticks = start_ticks(identity.pid);
  identity.boot = first_line("/proc/sys/kernel/random/boot_id");
  char text[256] = {};
  const ssize_t length = readlink("/proc/self/ns/pid", text, sizeof text - 1);
  if (length > 0) identity.pid_namespace.assign(text, static_cast<std::size_t>(length));
  if (gethostname(text, sizeof text - 1) == 0) identity.host = text;
  return identity;
}

bool alive(const Identity& identity) {
  // A process that was killed but not yet waited for still has an entry: its state says so.
  const std::string line = first_line("/proc/" + std::to_string(identity.pid) + "/stat");
  const auto end = line.rfind(')');
  if (end == std::string::npos || end + 2 >= line.size()) return false;
  const char state = line[end + 2];
  if (state == 'Z' || state == 'X') return false;
  return start_ticks(identity.pid) == identity.start_ticks;
}

Result<int> watch(const Identity& identity) {
  const auto pid = static_cast<pid_t>(identity.pid);
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0 && errno != ESRCH) {
    return Error{ErrorCode::unsupported,
                 std::string("the kernel cannot watch a process: ") + std::strerror(errno)};
  }
  if (descriptor < 0 || !alive(identity)) {
    if (descriptor >= 0) ::close(descriptor);
    return Error{ErrorCode::peer_lost, "process " + std::to_string(identity.pid) + " is gone"};
  }
  return descriptor;
}

Status write_contact(const std::string& path, const Contact& contact) {
  const std::string temporary = path + "." + std::to_string(getpid()) + ".new";
  std::ostringstream text;
  text << contact_magic << " 1\naddress " << contact.address << "\npid " << contact.identity.pid
       << "\nstart " << contact.identity.start_ticks << "\nboot " << contact.identity.boot
       << "\nnamespace " << contact.identity.pid_namespace << "\nhost " << contact.identity.host
       << "\n";
  const auto failed = [&](const char* what) {
    const std::string why = std::strerror(errno);
    unlink(temporary.c_str());
    return Error{ErrorCode::io, "the contact file " + path + " could not be " + what + ": " + why};
  };
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return failed("made");
  const std::string content = text.str();
  const ssize_t written = write(file, content.data(), content.size());
  ::close(file);
  if (written != static_cast<ssize_t>(content.size())) return failed("written");
  if (rename(temporary.c_str(), path.c_str()) != 0) return failed("put in place");
  return {};
}

Result<Contact> read_contact(const std::string& text) {
  Contact contact;
  std::ifstream file(text);
  struct stat info {};
  if (stat(text.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || !file) {
    if (looks_like_host_and_port(text)) {
      contact.address = text;
      return contact;
    }
    return Error{ErrorCode::not_found,
                 "'" + text +
                     "' is neither a contact file nor host:port: start the other engine "
                     "first, or check the path"};
  }
  std::string key;
  std::string value;
  while (file >> key && std::getline(file >> std::ws, value)) {
    if (key == "address") contact.address = value;
    if (key == "pid") contact.identity.pid = std::atoll(value.c_str());
    if (key == "start") contact.identity.start_ticks = std::strtoull(value.c_str(), nullptr, 10);
    if (key == "boot") contact.identity.boot = value;
    if (key == "namespace") contact.identity.pid_namespace = value;
    if (key == "host") contact.identity.host = value;
  }
  if (first_line(text).rfind(contact_magic, 0) != 0 || !looks_like_host_and_port(contact.address)) {
    return Error{ErrorCode::invalid_argument, "'" + text + "' is not a contact file of tranship"};
  }
  if (contact.identity.same_machine(own_identity()) && !alive(contact.identity)) {
    return Error{ErrorCode::peer_lost, "the process that wrote the contact file '" + text +
                                           "' (pid " + std::to_string(contact.identity.pid) +
                                           ") is gone: the file can be removed"};
  }
  return contact;
}

}  // namespace tranship
