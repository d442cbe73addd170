#include "fabric/messages/contact.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "os/file_error.hpp"
#include "os/new_file.hpp"

namespace tranship::fabric {
namespace {

constexpr const char* contact_magic = "tranship-contact";
constexpr const char* contact_version = "2";
constexpr const char* local_prefix = "unix:@";
constexpr const char* network_prefix = "tcp:";
/// Largest contact file, in bytes; a contact file has a few lines.
constexpr std::size_t contact_bytes_max = 8192;
constexpr std::size_t local_name_max = 100;

bool looks_like_host_and_port(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) return false;
  return text.find_first_not_of("0123456789", colon + 1) == std::string::npos &&
         text.find_first_of("/,@") == std::string::npos;
}

/// Parses "unix:@NAME,tcp:HOST:PORT", either part of it, or HOST:PORT. Returns false for other
/// text.
bool parse(const std::string& text, Contact& contact) {
  std::istringstream parts(text);
  std::string part;
  bool any = false;
  while (std::getline(parts, part, ',')) {
    any = true;
    if (part.rfind(local_prefix, 0) == 0) {
      contact.local = part.substr(std::strlen(local_prefix));
      if (contact.local.empty() || contact.local.size() > local_name_max) return false;
    } else {
      const bool prefixed = part.rfind(network_prefix, 0) == 0;
      contact.network = prefixed ? part.substr(std::strlen(network_prefix)) : part;
      if (!looks_like_host_and_port(contact.network)) return false;
    }
  }
  return any;
}

std::string content_of(const Contact& contact) {
  std::ostringstream text;
  text << contact_magic << ' ' << contact_version << "\naddress " << contact.text() << "\npid "
       << contact.identity.pid << "\nstart " << contact.identity.start_ticks << "\nboot "
       << contact.identity.boot << "\nnamespace " << contact.identity.pid_namespace << "\nhost "
       << contact.identity.host << "\n";
  if (contact.key) text << "key " << to_hex(*contact.key) << "\n";
  return text.str();
}

/// Parses the content of a contact file; nothing if it is none. Files of other versions have no
/// address.
std::optional<Contact> parse_file(const std::string& content) {
  std::istringstream lines(content);
  std::string magic;
  std::string version;
  if (!(lines >> magic >> version) || magic != contact_magic) return std::nullopt;
  Contact contact;
  std::string key;
  std::string value;
  while (lines >> key && std::getline(lines >> std::ws, value)) {
    if (key == "address" && (version != contact_version || !parse(value, contact))) {
      contact.local.clear();
      contact.network.clear();
    }
    if (key == "pid") contact.identity.pid = std::atoll(value.c_str());
    if (key == "start") contact.identity.start_ticks = std::strtoull(value.c_str(), nullptr, 10);
    if (key == "boot") contact.identity.boot = value;
    if (key == "namespace") contact.identity.pid_namespace = value;
    if (key == "host") contact.identity.host = value;
    if (key != "key") continue;
    if (const auto read = key_from_hex(value)) contact.key = *read;
  }
  return contact;
}

/// Returns the beginning of a regular file; nothing, with errno set, if it cannot be read.
std::optional<std::string> read_begin(const std::string& path, int flags) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0) return std::nullopt;
  if (!S_ISREG(info.st_mode)) {
    errno = EINVAL;
    return std::nullopt;
  }
  std::string content(contact_bytes_max, '\0');
  const ssize_t length = read(file.get(), content.data(), content.size());
  if (length < 0) return std::nullopt;
  content.resize(static_cast<std::size_t>(length));
  return content;
}

/// Checks that the existing file may be replaced.
Status check_replaceable(const std::string& path) {
  const auto content = read_begin(path, O_NOFOLLOW);
  const auto there = content ? parse_file(*content) : std::nullopt;
  if (!there) {
    if (!content && errno == ENOENT) return {};
    if (!content && (errno == ENAMETOOLONG || errno == ENOTDIR)) {
      return file_error("write the contact file", path, errno);
    }
    return Error{ErrorCode::invalid_argument, "'" + path + "' is there, and is no contact file",
                 "choose another name, or remove "
                 "it"};
  }
  const Identity own = own_identity();
  if (there->identity.same_machine(own) && alive(there->identity)) {
    return Error{ErrorCode::invalid_argument,
                 "the contact file '" + path + "' belongs to process " +
                     std::to_string(there->identity.pid) +
                     ", which runs: stop that one first, or choose another name"};
  }
  return {};
}

}  // namespace

std::string Contact::text() const {
  std::string text = local.empty() ? "" : local_prefix + local;
  if (!network.empty()) text += (text.empty() ? "" : ",") + (network_prefix + network);
  return text;
}

Status write_contact(const std::string& path, const Contact& contact) {
  NewFileOptions options;
  options.mode = 0600;
  options.may_replace = [&] { return check_replaceable(path); };
  Status written = tranship::write_whole(path, content_of(contact), std::move(options));
  if (written || written.error().code == ErrorCode::invalid_argument) return written;
  Error error = written.error();
  error.message = "the contact file cannot be written: " + error.message;
  return error;
}

void remove_contact(const std::string& path, const Contact& contact) {
  const auto content = read_begin(path, O_NOFOLLOW);
  if (content && *content == content_of(contact)) (void)unlink(path.c_str());
}

Result<Contact> read_contact(const std::string& text) {
  Contact contact;
  const auto content = read_begin(text, 0);
  if (!content) {
    if (parse(text, contact)) return contact;
    return Error{ErrorCode::not_found, "'" + text + "' is neither a contact file nor host:port",
                 "start the process that writes it first, or check the path"};
  }
  const auto read = parse_file(*content);
  if (!read) {
    return Error{ErrorCode::invalid_argument, "'" + text + "' is not a contact file of tranship"};
  }
  contact = *read;
  contact.file = text;
  if (contact.identity.same_machine(own_identity()) && !alive(contact.identity)) {
    return Error{ErrorCode::peer_lost, "the process that wrote the contact file '" + text +
                                           "' (pid " + std::to_string(contact.identity.pid) +
                                           ") is gone: the file can be removed"};
  }
  if (contact.local.empty() && contact.network.empty()) {
    return Error{ErrorCode::unsupported, "'" + text +
                                             "' was written by another version of tranship: "
                                             "install the same version on both sides"};
  }
  return contact;
}

}  // namespace tranship::fabric
