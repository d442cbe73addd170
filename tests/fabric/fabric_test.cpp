#include "fabric/fabric.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/random.hpp"
#include "fabric/helpers.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;
using namespace std::chrono_literals;

namespace {

/// Returns the names in a folder.
std::set<std::string> entries(const char* folder) {
  std::set<std::string> names;
  DIR* open = opendir(folder);
  while (const dirent* entry = readdir(open)) names.insert(entry->d_name);
  closedir(open);
  return names;
}

/// Returns the names in /dev/shm of this package and of UCX, but for the table of what processes
/// use: it belongs to no process. Other tests have names there too.
std::set<std::string> shared_entries() {
  std::set<std::string> names = entries("/dev/shm");
  std::erase_if(names, [](const std::string& name) {
    const bool ours = name.find("tranship") != std::string::npos;
    return !(ours || name.find("ucx") != std::string::npos) || name.starts_with("tranship-usage-");
  });
  return names;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A socket that listens and sends nothing of its own.
struct Stranger {
  Stranger() {
    socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(bind(socket, reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(listen(socket, 4) == 0);
    getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
    contact = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~Stranger() { close(); }
  void close() {
    if (socket >= 0) ::close(socket);
    socket = -1;
  }
  int socket = -1;
  std::string contact;
};

ExportedArray plain_export(const std::string& name, std::vector<std::byte>& data) {
  ExportedArray array;
  array.name = name;
  array.place.address = data.data();
  array.bytes = static_cast<std::int64_t>(data.size());
  return array;
}

}  // namespace

TEST(names_and_lookup) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Pair pair(transport);
    auto data = pattern(1000, 1);
    auto array = plain_export("density", data);
    array.description = R"({"shape": [10, 100]})";
    array.writable = false;
    REQUIRE(pair.exporter->export_array(array).ok());
    array.name = "energy";
    REQUIRE(pair.exporter->export_array(array).ok());
    const auto names = pair.requester->names(pair.peer, patience);
    REQUIRE(names.ok());
    EXPECT(*names == (std::vector<std::string>{"density", "energy"}));
    const auto found = look_up(*pair.requester, pair.peer, "density");
    EXPECT_EQ(found->name(), "density");
    EXPECT_EQ(found->description(), array.description);
    EXPECT_EQ(found->bytes(), 1000);
    EXPECT(!found->writable());
    EXPECT(found->mapped() == nullptr);
    EXPECT(found->peer() == pair.peer);
    const auto missing = pair.requester->lookup(pair.peer, "pressure", patience);
    REQUIRE(!missing);
    EXPECT(missing.error().code == ErrorCode::not_found);
    EXPECT(contains(missing.error().text(), "'density', 'energy'"));
    EXPECT(contains(pair.requester->describe(pair.peer), std::to_string(getpid())));
  }
}

TEST(exports_are_checked) {
  Pair pair(Transport::automatic);
  auto data = pattern(100, 1);
  EXPECT(!pair.exporter->export_array(plain_export("", data)).ok());
  EXPECT(pair.exporter->export_array(plain_export("a", data)).ok());
  const auto twice = pair.exporter->export_array(plain_export("a", data));
  REQUIRE(!twice);
  EXPECT(contains(twice.error().text(), "withdraw it first"));
  auto array = plain_export("b", data);
  array.memory = *SharedMemory::allocate({4096, false});
  EXPECT(!pair.exporter->export_array(array).ok());
  EXPECT(!pair.exporter->withdraw("nothing").ok());
  for (int k = 1; k < exports_max; ++k) {
    REQUIRE(pair.exporter->export_array(plain_export(std::to_string(k), data)).ok());
  }
  const auto full = pair.exporter->export_array(plain_export("more", data));
  REQUIRE(!full);
  EXPECT(full.error().code == ErrorCode::out_of_memory);
  EXPECT_EQ(pair.requester->names(pair.peer, patience)->size(), std::size_t{exports_max});
}

TEST(contact_file_is_written_and_removed) {
  TemporaryFolder folder;
  auto options = options_for(Transport::automatic);
  options.contact_file = folder.file("contact");
  auto exporter = open_fabric(options);
  auto requester = open_fabric(options_for(Transport::automatic));
  connect_to(*requester, options.contact_file);
  EXPECT(exporter->close().ok());
  EXPECT(access(options.contact_file.c_str(), F_OK) != 0);
  options.contact_file = "/nonexistent/contact";
  const auto failed = Fabric::open(options);
  REQUIRE(!failed);
  EXPECT(contains(failed.error().text(), "/nonexistent/contact"));
}

TEST(contact_file_of_a_dead_process) {
  TemporaryFolder folder;
  Child child(folder.file("contact"), Transport::automatic);
  child.kill_now();
  auto requester = open_fabric(options_for(Transport::automatic));
  const auto peer = requester->connect(folder.file("contact"), patience);
  REQUIRE(!peer);
  EXPECT(peer.error().code == ErrorCode::peer_lost);
  EXPECT(contains(peer.error().text(), "the file can be removed"));
}

TEST(contact_files_of_the_living_are_left_alone_and_private) {
  TemporaryFolder folder;
  auto options = options_for(Transport::automatic);
  options.contact_file = folder.file("contact");
  auto first = open_fabric(options);
  struct stat info {};
  REQUIRE(stat(options.contact_file.c_str(), &info) == 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  const auto second = Fabric::open(options);
  REQUIRE(!second);
  EXPECT(contains(second.error().text(), "which runs"));
}

TEST(contact_that_leads_nowhere) {
  TemporaryFolder folder;
  auto requester = open_fabric(options_for(Transport::automatic));
  const auto nothing = requester->connect(folder.file("nothing"), 1s);
  REQUIRE(!nothing);
  EXPECT(nothing.error().code == ErrorCode::not_found);
  std::ofstream(folder.file("other")) << "hello\n";
  EXPECT(
      contains(requester->connect(folder.file("other"), 1s).error().text(), "not a contact file"));
  Stranger stranger;
  const auto silent = requester->connect(stranger.contact, 300ms);
  REQUIRE(!silent);
  EXPECT(silent.error().code == ErrorCode::timeout);
  EXPECT(contains(silent.error().text(), stranger.contact));
  stranger.close();
  const auto begin = std::chrono::steady_clock::now();
  const auto refused = requester->connect(stranger.contact, patience);
  REQUIRE(!refused);
  EXPECT(refused.error().code == ErrorCode::peer_lost);
  EXPECT(std::chrono::steady_clock::now() - begin < soon);
}

TEST(a_stranger_at_the_door_disturbs_nobody) {
  Pair pair(Transport::network);
  const std::string contact = pair.exporter->contact();
  const int port = std::atoi(contact.substr(contact.rfind(':') + 1).c_str());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const int stranger = ::socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(connect(stranger, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const std::string words = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nand many more words to read";
  EXPECT(write(stranger, words.data(), words.size()) > 0);
  EXPECT(pair.requester->names(pair.peer, patience).ok());
  char answer = 0;
  EXPECT(read(stranger, &answer, 1) <= 0);  // the connection ends without an answer
  close(stranger);
  EXPECT(pair.requester->names(pair.peer, patience).ok());
}

TEST(nothing_listens_on_a_network_unless_it_is_asked_for) {
  auto fabric = open_fabric(options_for(Transport::automatic));
  EXPECT(fabric->contact().rfind("unix:@", 0) == 0);
  EXPECT(!contains(fabric->contact(), "tcp"));
  auto options = options_for(Transport::automatic);
  options.accept = false;
  EXPECT_EQ(open_fabric(options)->contact(), std::string());
}

TEST(another_key_lets_nobody_in) {
  auto options = options_for(Transport::network);
  options.key = Key{std::byte{1}};
  auto exporter = open_fabric(options);
  options.key = Key{std::byte{2}};
  auto requester = open_fabric(options);
  const auto peer = requester->connect(exporter->contact(), patience);
  REQUIRE(!peer);
  EXPECT(peer.error().code == ErrorCode::permission);
  EXPECT(contains(peer.error().text(), "another key"));
}

TEST(another_version_is_named) {
  auto options = options_for(Transport::automatic);
  options.protocol = 77;
  options.version = "9.9.9";
  auto exporter = open_fabric(options);
  auto requester = open_fabric(options_for(Transport::automatic));
  const auto peer = requester->connect(exporter->contact(), patience);
  REQUIRE(!peer);
  EXPECT(peer.error().code == ErrorCode::unsupported);
  EXPECT(contains(peer.error().text(), "9.9.9"));
  EXPECT(contains(peer.error().text(), "0.1.0"));
  EXPECT(contains(peer.error().text(), "protocol 77"));
}

TEST(connecting_to_oneself) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    auto fabric = open_fabric(options_for(transport));
    auto data = pattern(50000, 3);
    REQUIRE(fabric->export_array(plain_export("self", data)).ok());
    const PeerId peer = connect_to(*fabric, fabric->contact());
    const auto array = look_up(*fabric, peer, "self");
    RemoteChannel channel(*fabric, {});
    std::vector<std::byte> out(50000);
    const LoopNest nest = run_of(50000);
    EXPECT(carry(channel, read_request({&nest, 1}, *array, out.data())).ok());
    EXPECT(out == data);
  }
}

TEST(a_clean_close_is_told_from_a_death) {
  for (const auto transport : {Transport::automatic, Transport::network}) {
    Pair pair(transport);
    EXPECT(pair.exporter->close().ok());
    EXPECT(eventually([&] { return !pair.requester->connected(pair.peer); }));
    const auto names = pair.requester->names(pair.peer, patience);
    REQUIRE(!names);
    EXPECT_EQ(to_string(names.error().code), std::string("closed"));
    EXPECT(contains(names.error().text(), "closed its engine"));
    EXPECT(pair.requester->close().ok());
    EXPECT(!pair.requester->names(pair.peer, 100ms).ok());
    EXPECT(!pair.exporter->export_array({}).ok());
  }
}

TEST(disconnecting_ends_one_connection) {
  Pair pair(Transport::automatic);
  EXPECT(pair.requester->disconnect(pair.peer).ok());
  EXPECT(!pair.requester->connected(pair.peer));
  const auto names = pair.requester->names(pair.peer, patience);
  REQUIRE(!names);
  EXPECT_EQ(to_string(names.error().code), std::string("closed"));
  EXPECT(contains(names.error().text(), "connect again"));
  const auto never = pair.requester->names(PeerId{1000}, patience);
  REQUIRE(!never);
  EXPECT_EQ(to_string(never.error().code), std::string("invalid_argument"));
  const PeerId again = connect_to(*pair.requester, pair.exporter->contact());
  EXPECT(pair.requester->names(again, patience).ok());
}

TEST(closing_ends_connects_that_are_on_their_way) {
  auto exporter = open_fabric(options_for(Transport::automatic));
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    auto requester = open_fabric(options_for(Transport::automatic));
    const auto begin = std::chrono::steady_clock::now();
    std::atomic<bool> begun{false};
    std::thread connecting([&] {
      while (true) {
        begun.store(true);
        const auto peer = requester->connect(exporter->contact(), patience);
        if (peer) continue;
        EXPECT_EQ(to_string(peer.error().code), std::string("closed"));
        return;
      }
    });
    while (!begun.load()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(300)));
    EXPECT(requester->close().ok());
    connecting.join();
    EXPECT(std::chrono::steady_clock::now() - begin < soon);
  }
}

TEST(closing_leaves_nothing) {
  { Pair warm_up(Transport::automatic); }
  const std::size_t descriptors = entries("/proc/self/fd").size();
  const std::size_t threads = entries("/proc/self/task").size();  // one may be about to end
  const std::set<std::string> shared = shared_entries();
  for (const auto transport : {Transport::automatic, Transport::network}) {
    const auto begin = std::chrono::steady_clock::now();
    {
      auto exporter = open_fabric(patient_options_for(transport));
      auto requester = open_fabric(patient_options_for(transport));
      auto data = pattern(100, 1);
      REQUIRE(exporter->export_array(plain_export("a", data)).ok());
      look_up(*requester, connect_to(*requester, exporter->contact()), "a");
    }
    EXPECT(std::chrono::steady_clock::now() - begin < soon);
    EXPECT(eventually([&] { return entries("/proc/self/fd").size() <= descriptors; }));
    EXPECT(eventually([&] { return entries("/proc/self/task").size() <= threads; }));
    EXPECT(eventually([&] { return std::ranges::includes(shared, shared_entries()); }));
  }
}

TEST(shared_memory_is_mapped_by_a_peer) {
  TemporaryFolder folder;
  Child child(folder.file("contact"), Transport::automatic);
  auto requester = open_fabric(options_for(Transport::automatic));
  const PeerId peer = connect_to(*requester, folder.file("contact"));
  const auto array = look_up(*requester, peer, "mapped");
  REQUIRE(array->mapped() != nullptr);
  EXPECT(array->mapped()[child_bytes - 1] == std::byte{7});
  const auto again = look_up(*requester, peer, "mapped");
  EXPECT(again->mapped() == array->mapped());
  child.kill_now();
  array->mapped()[0] = std::byte{1};  // the memory outlives the process
  EXPECT(array->mapped()[0] == std::byte{1});
}

TEST(shared_memory_refuses_what_it_is_not) {
  const auto memory = SharedMemory::allocate({5000, false});
  REQUIRE(memory.ok());
  EXPECT_EQ((*memory)->bytes(), 8192);
  EXPECT((*memory)->contains((*memory)->data() + 8191, 1));
  EXPECT(!(*memory)->contains((*memory)->data() + 8191, 2));
  const auto copy = [&] { return FileDescriptor(dup((*memory)->descriptor())); };
  const auto other = SharedMemory::map(copy(), 5000);
  REQUIRE(other.ok());
  (*memory)->data()[17] = std::byte{9};
  EXPECT((*other)->data()[17] == std::byte{9});
  EXPECT(!SharedMemory::map(copy(), 8193).ok());
  EXPECT(!SharedMemory::map(copy(), 0).ok());
  EXPECT(!SharedMemory::map(FileDescriptor(memfd_create("unsealed", MFD_ALLOW_SEALING)), 1).ok());
  EXPECT(!SharedMemory::map(FileDescriptor(open("/dev/null", O_RDWR)), 1).ok());
  EXPECT(!SharedMemory::allocate({0, false}).ok());
}

TEST(an_idle_fabric_takes_no_time) {
  Pair pair(Transport::automatic);
  EXPECT(pair.requester->names(pair.peer, patience).ok());
  EXPECT(succeeds_once([] {
    timespec before{};
    timespec after{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    std::this_thread::sleep_for(500ms);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const double seconds = static_cast<double>(after.tv_sec - before.tv_sec) +
                           static_cast<double>(after.tv_nsec - before.tv_nsec) / 1e9;
    return seconds < 0.05;
  }));
}

TEST(who_listens_everywhere_says_an_address_that_others_can_reach) {
  FabricOptions options = options_for(Transport::automatic);
  options.listen = "0.0.0.0:0";
  auto fabric = open_fabric(std::move(options));
  EXPECT(contains(fabric->contact(), ",tcp:") && !contains(fabric->contact(), "0.0.0.0"));
  auto other = open_fabric(options_for(Transport::automatic));
  const auto peer = fabric->connect(other->contact(), patience);
  EXPECT(peer.ok());
}
