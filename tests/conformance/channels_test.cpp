// The conformance suite, run over every channel of the engine.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "channels/file/file_channel.hpp"
#include "channels/gpu/gpu_channel.hpp"
#include "channels/gpu_file/gpu_file_channel.hpp"
#include "channels/host/copy.hpp"
#include "channels/host/host_channel.hpp"
#include "channels/host/runs.hpp"
#include "channels/remote/remote_channel.hpp"
#include "channels/sim/sim_channel.hpp"
#include "conformance/suite.hpp"
#include "fabric/ucx_support.hpp"
#include "support/test.hpp"
#include "support/waiting.hpp"

using namespace tranship;
using namespace tranship::fabric;
using test::Backend;
using test::conforms;

namespace {

using Bytes = std::vector<std::byte>;

/// Plain memory as one end of a channel.
struct MemoryEnd {
  Bytes content;
  Place set(const Bytes& bytes) {
    content = bytes;
    return {content.data(), nullptr};
  }
};

/// A file as one end of a channel, with `offset` bytes before the array.
struct FileEnd {
  static constexpr std::int64_t offset = 137;
  std::string path;
  std::shared_ptr<File> file;

  FileEnd() {
    char name[] = "/tmp/tranship-conformance-XXXXXX";
    close(mkstemp(name));
    path = name;
  }
  ~FileEnd() { unlink(path.c_str()); }

  Place set(const Bytes& bytes) {
    file.reset();
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    const std::string before(offset, '#');
    out << before;
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out.close();
    FileOptions options;
    options.mode = FileMode::read_write;
    options.bytes_min = offset + static_cast<std::int64_t>(bytes.size());
    file = File::open(path, options).value();
    return {reinterpret_cast<std::byte*>(offset), file.get()};
  }

  Bytes read() const {
    std::ifstream in(path, std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    Bytes bytes(all.size() - offset);
    std::memcpy(bytes.data(), all.data() + offset, bytes.size());
    return bytes;
  }
};

/// An array exported by one fabric, reached through another fabric of this process.
struct RemoteEnd {
  RemoteEnd(FabricOptions::Transport transport, int carriers,
            const std::function<std::shared_ptr<BulkCarrier>()>& open_carrier) {
    FabricOptions options;
    options.copy = {copy_nests, copy_runs};
    options.transport = transport;
    if (open_carrier) options.carrier = open_carrier();
    there = std::move(*Fabric::open(options));
    if (open_carrier) options.carrier = open_carrier();
    here = std::move(*Fabric::open(options));
    peer = here->connect(there->contact(), test::patience).value();
    RemoteChannel::Options way;
    way.carriers = carriers;
    if (open_carrier) way = every_run_by_carrier();
    channel = std::make_unique<RemoteChannel>(*here, way);
  }
  ~RemoteEnd() {
    channel.reset();
    (void)here->close();
    (void)there->close();
  }

  Place set(const Bytes& bytes) {
    if (array) {
      array.reset();
      (void)there->withdraw("array");
    }
    content = bytes;
    ExportedArray exported;
    exported.name = "array";
    exported.description.assign(2, ' ');
    exported.place.address = content.data();
    exported.bytes = static_cast<std::int64_t>(content.size());
    const Status status = there->export_array(exported);
    if (!status) test::record_failure(__FILE__, __LINE__, status.error().text());
    array = here->lookup(peer, "array", test::patience).value();
    return {nullptr, array.get()};
  }

  /// Returns options by which carriers take every run, however short.
  static RemoteChannel::Options every_run_by_carrier() {
    RemoteChannel::Options way;
    way.carrier_threads = 2;
    way.carrier_run_bytes = 0;
    return way;
  }

  std::unique_ptr<Fabric> there;
  std::unique_ptr<Fabric> here;
  PeerId peer;
  std::unique_ptr<RemoteChannel> channel;
  std::shared_ptr<RemoteArray> array;
  Bytes content;
};

void remote_conforms(const std::string& name, FabricOptions::Transport transport, int carriers = 0,
                     const std::function<std::shared_ptr<BulkCarrier>()>& open_carrier = {}) {
  RemoteEnd remote(transport, carriers, open_carrier);
  MemoryEnd memory;
  conforms({name + " write", remote.channel.get(),
            [&](const Bytes& bytes) { return memory.set(bytes); },
            [&](const Bytes& bytes) { return remote.set(bytes); }, [&] { return remote.content; }});
  conforms({name + " read", remote.channel.get(),
            [&](const Bytes& bytes) { return remote.set(bytes); },
            [&](const Bytes& bytes) { return memory.set(bytes); }, [&] { return memory.content; }});
}

void file_conforms() {
  FileChannelOptions options;
  options.copy = copy_nests;
  FileChannel channel(options);
  FileEnd file;
  MemoryEnd memory;
  const std::string name = "file";
  conforms({name + " write", &channel, [&](const Bytes& bytes) { return memory.set(bytes); },
            [&](const Bytes& bytes) { return file.set(bytes); }, [&] { return file.read(); }});
  conforms({name + " read", &channel, [&](const Bytes& bytes) { return file.set(bytes); },
            [&](const Bytes& bytes) { return memory.set(bytes); }, [&] { return memory.content; }});
}

/// Pinned memory or GPU memory as one end of a channel.
class GpuEnd {
 public:
  static constexpr int pinned = -1;

  GpuEnd(std::shared_ptr<Gpus> gpus, int device)
      : gpus_(std::move(gpus)), device_(device), stream_(*gpus_->make_stream(of(device), false)) {
    event_ = *gpus_->make_event(of(device));
  }
  ~GpuEnd() {
    free();
    gpus_->release(event_);
    gpus_->release(stream_);
  }

  Place set(const Bytes& bytes) {
    free();
    bytes_ = static_cast<std::int64_t>(bytes.size());
    memory_ =
        *(device_ == pinned ? gpus_->allocate_pinned(bytes_) : gpus_->allocate(device_, bytes_));
    carry(bytes.data(), memory_);
    return {memory_, nullptr};
  }

  Bytes read() const {
    Bytes bytes(static_cast<std::size_t>(bytes_));
    carry(memory_, bytes.data());
    return bytes;
  }

 private:
  static int of(int device) { return device == pinned ? 0 : device; }

  void carry(const std::byte* from, std::byte* to) const {
    if (bytes_ == 0) return;
    if (device_ == pinned) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes_));
      return;
    }
    const bool ok = gpus_->copy(stream_, from, to, bytes_) && gpus_->record(event_, stream_);
    if (!ok) return test::record_failure(__FILE__, __LINE__, "a bare copy failed");
    for (auto reached = gpus_->reached(event_); reached && !*reached;
         reached = gpus_->reached(event_)) {
      std::this_thread::yield();
    }
  }

  void free() {
    if (memory_ == nullptr) return;
    if (device_ == pinned) {
      gpus_->release_pinned(memory_);
    } else {
      gpus_->release(device_, memory_);
    }
    memory_ = nullptr;
  }

  std::shared_ptr<Gpus> gpus_;
  int device_;
  GpuStream stream_;
  GpuEvent event_;
  std::byte* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

void gpus_conform(const std::string& name, const std::shared_ptr<Gpus>& gpus) {
  struct Ends {
    const char* name;
    int source;
    int target;
  };
  for (const Ends& ends :
       {Ends{" gpu_write", GpuEnd::pinned, 0}, Ends{" gpu_read", 0, GpuEnd::pinned},
        Ends{" gpu_copy", 0, 0}, Ends{" gpu_peer", 0, 1}}) {
    if (ends.target == 1 && (gpus->list().size() < 2 || !gpus->peers(0, 1))) continue;
    GpuChannel::Options options;
    options.name = name + ends.name;
    options.gpus = gpus;
    options.over_link = ends.source != ends.target && ends.target != 1;
    const auto channel = GpuChannel::open(options).value();
    GpuEnd source(gpus, ends.source);
    GpuEnd target(gpus, ends.target);
    conforms({options.name, channel.get(), [&](const Bytes& bytes) { return source.set(bytes); },
              [&](const Bytes& bytes) { return target.set(bytes); },
              [&] { return target.read(); }});
  }
}

}  // namespace

TEST(emulated_gpus_conform) { gpus_conform("emulated", Gpus::emulate(2)); }

/// Runs only on a machine with GPUs; tools/gpu-check runs it there.
TEST(gpus_of_this_machine_conform) {
  const auto gpus = Gpus::open();
  if (gpus.ok()) gpus_conform((*gpus)->list()[0].name, *gpus);
}

/// Tests GPUDirect Storage with a stand-in for libcufile.
TEST(files_to_gpus_conform) {
  const auto gpus = Gpus::emulate(1);
  GpuFileChannel::Options options;
  options.name = "gpu file";
  options.gpus = gpus;
  options.library = CuFile::open(FAKE_CUFILE).value();
  GpuFileChannel channel(options);
  FileEnd file;
  GpuEnd memory(gpus, 0);
  conforms({"gpu file write", &channel, [&](const Bytes& bytes) { return memory.set(bytes); },
            [&](const Bytes& bytes) { return file.set(bytes); }, [&] { return file.read(); }});
  conforms({"gpu file read", &channel, [&](const Bytes& bytes) { return file.set(bytes); },
            [&](const Bytes& bytes) { return memory.set(bytes); }, [&] { return memory.read(); }});
}

TEST(host_conforms) {
  HostChannel channel(2);
  MemoryEnd source;
  MemoryEnd target;
  conforms({"host", &channel, [&](const Bytes& bytes) { return source.set(bytes); },
            [&](const Bytes& bytes) { return target.set(bytes); }, [&] { return target.content; }});
}

TEST(sim_conforms) {
  SimWorld world({});
  SimChannel::Options options;
  options.spec.name = "sim";
  options.spec.throughput = Throughput({{1, 1, 1e9}});
  options.jitter = 0.3;
  SimChannel channel(world, options);
  MemoryEnd source;
  MemoryEnd target;
  conforms({"sim", &channel, [&](const Bytes& bytes) { return source.set(bytes); },
            [&](const Bytes& bytes) { return target.set(bytes); }, [&] { return target.content; }});
}

TEST(file_conforms_to_the_suite) { file_conforms(); }
TEST(shared_memory_conforms) {
  remote_conforms("remote shared", FabricOptions::Transport::automatic);
}
TEST(straight_copies_conform) {
  remote_conforms("remote straight", FabricOptions::Transport::automatic, 2);
}
TEST(ucx_conforms_over_shared_memory) {
  const auto counter = std::make_shared<test::CarrierCounter>();
  remote_conforms("ucx", FabricOptions::Transport::automatic, 0, [&] {
    return std::make_shared<test::CountedCarrier>(test::ucx_or_skip(), counter);
  });
  EXPECT_EQ(counter->reads.load(), 140);  // the suite has one large request more
  EXPECT_EQ(counter->writes.load(), 140);
  EXPECT_EQ(counter->failures.load(), 0);
  // the large transpose of single floats, in both directions
  EXPECT_EQ(counter->declined.load(), 2);
}
TEST(network_conforms) { remote_conforms("remote network", FabricOptions::Transport::network); }
