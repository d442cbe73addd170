// Contact files and texts, which come from users.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/check.hpp"
#include "fabric/messages/contact.hpp"
#include "fuzz/targets.hpp"

namespace tranship::fuzz {

using namespace fabric;

/// Reads a contact; the first byte says whether the rest of the input is a file or a text.
void run_contacts(std::span<const std::byte> input) {
  Source source(input);
  const bool is_file = source.byte() % 2 == 0;
  const auto bytes = source.rest();
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  static const FileDescriptor file(memfd_create("contact", MFD_CLOEXEC));
  if (is_file) {
    const bool written =
        ftruncate(file.get(), 0) == 0 &&
        pwrite(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
    CHECK(written, "a file in memory");
    text = "/proc/self/fd/" + std::to_string(file.get());
  } else if (text.find('/') != std::string::npos) {
    return;  // a path would read the machine's own files
  }
  const auto contact = read_contact(text);
  if (!contact) return;
  CHECK(!contact->local.empty() || !contact->network.empty(), "a contact that leads somewhere");
  const auto again = read_contact(contact->text());
  CHECK(again && again->text() == contact->text(), "a contact's text names the same again");
}

}  // namespace tranship::fuzz
