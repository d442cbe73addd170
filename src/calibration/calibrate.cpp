#include "calibration/calibrate.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "calibration/measure_gpus.hpp"
#include "channels/file/file.hpp"
#include "engine/engine.hpp"
#include "engine/gpu_side.hpp"
#include "engine/processes.hpp"
#include "os/caches.hpp"
#include "os/other_load.hpp"
#include "plan/tile.hpp"

namespace tranship {
namespace {

constexpr std::array<std::int64_t, 5> request_sizes{16 * KiB, 64 * KiB, 256 * KiB, 1 * MiB,
                                                    4 * MiB};
constexpr std::array<std::int64_t, 7> converted_runs{1, 4, 8, 16, 64, 512, 4 * KiB};
constexpr std::array<std::int64_t, 4> file_requests{256 * KiB, 1 * MiB, 4 * MiB, 16 * MiB};
constexpr std::array<std::int64_t, 5> file_runs{64, 512, 4 * KiB, 64 * KiB, 512 * KiB};
constexpr std::array<std::int64_t, 4> remote_requests{64 * KiB, 256 * KiB, 1 * MiB, 4 * MiB};
constexpr std::array<std::int64_t, 3> remote_runs{4, 64, 512};
constexpr int repeats = 3;
constexpr int handoffs = 60;
/// Bytes of the copies whose latency is measured.
constexpr std::int64_t latency_bytes = 1 * MiB;
constexpr std::int64_t cached_bytes = 4 * KiB;  ///< the same of a small file that is written
constexpr int plans = 60;

enum MemoryNumber { host0, file0, shared0, host1, far_host0 };

/// Returns the time in UTC in the form of ISO 8601.
std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[32];
  (void)std::strftime(text, sizeof text, "%FT%T+00:00", gmtime_r(&now, &parts));
  return text;
}

/// Returns the profile of this machine with placeholders for the rates.
Profile bootstrap(const CalibrationOptions& options) {
  Profile profile;
  profile.host = machine_name();
  profile.date = date_now();
  profile.cache_bytes = cache_bytes_at_hand();
  profile.memories = {{"node0/host0", MemoryKind::host, options.config.buffer_bytes},
                      {"node0/file0", MemoryKind::file, 0},
                      {"node0/shared0", MemoryKind::host, 0},
                      {"node0/host1", MemoryKind::host, 0},
                      {"node1/host0", MemoryKind::host, 0}};
  const auto add = [&](const char* name, ChannelKind kind, int source, int target) {
    ChannelSpec channel;
    channel.name = name;
    channel.kind = kind;
    channel.source = source;
    channel.target = target;
    channel.throughput = Throughput({{1, 1, 1.0}});
    channel.gathers = traits_of(kind).file;
    profile.channels.push_back(std::move(channel));
  };
  add("memcpy", ChannelKind::memcpy, host0, host0);
  add("file_read", ChannelKind::file_read, file0, host0);
  add("file_write", ChannelKind::file_write, host0, file0);
  add("memcpy to shared", ChannelKind::memcpy, host0, shared0);
  add("memcpy from shared", ChannelKind::memcpy, shared0, host0);
  add("memcpy in shared", ChannelKind::memcpy, shared0, shared0);
  add("remote_write node0", ChannelKind::remote_write, host0, host1);
  add("remote_read node0", ChannelKind::remote_read, host1, host0);
  add("remote_write node1", ChannelKind::remote_write, host0, far_host0);
  add("remote_read node1", ChannelKind::remote_read, far_host0, host0);
  return profile;
}

/// Returns a matrix of x by y elements of `run` bytes.
Array matrix(std::byte* data, std::int64_t run, std::int64_t x, std::int64_t y,
             const char* layout) {
  Array array;
  const IndexSpace space{{"x", x}, {"y", y}};
  const FieldSpace fields{{"f0", "V", run}};
  array.view = View::whole(Mapping::make(space, fields, Layout::parse(layout).value()).value());
  array.place.address = data;
  array.named = true;
  array.name = "a calibration buffer";
  return array;
}

class Calibration {
 public:
  explicit Calibration(const CalibrationOptions& options)
      : options_(options),
        profile_(bootstrap(options)),
        source_(static_cast<std::size_t>(options.sample_bytes)),
        target_(static_cast<std::size_t>(options.sample_bytes)) {}

  Result<Profile> run() {
    auto gpu_side = GpuSide::open(options_.config);
    if (!gpu_side) return gpu_side.error();
    if (*gpu_side) (*gpu_side)->extend(profile_, options_.config.buffer_bytes);
    gpu_side->reset();
    Engine::Options options;
    options.config = options_.config;
    options.config.lanes = 1;  // one channel is measured at a time
    options.profile = profile_;
    auto engine = Engine::open(std::move(options));
    if (!engine) return engine.error();
    engine_ = std::move(*engine);
    std::memset(source_.data(), 1, source_.size());
    std::memset(target_.data(), 2, target_.size());
    for (const auto& step :
         {&Calibration::measure_handoff, &Calibration::measure_memcpy, &Calibration::measure_files,
          &Calibration::measure_gpu_channels, &Calibration::measure_processes}) {
      if (Status status = (this->*step)(); !status) return status.error();
    }
    profile_.others_share = std::round(load_.share() * 100) / 100;
    report(1, "done");
    fill_pinned();
    add_resources();
    measure_planning();
    return profile_;
  }

 private:
  void report(double share, const std::string& what) {
    if (options_.progress) options_.progress(share, what);
  }

  ChannelSpec& channel(ChannelKind kind, int source, int target) {
    const auto found = std::find_if(
        profile_.channels.begin(), profile_.channels.end(), [&](const ChannelSpec& spec) {
          return spec.kind == kind && spec.source == source && spec.target == target;
        });
    return *found;
  }

  /// Whether a copy to a file is timed until its data are on the disk, as a large one is that does
  /// not fit the page cache, or until the copy has ended, as its caller waits for it.
  enum class Until { on_disk, copied };

  /// Returns the median seconds of one copy in tiles of about `request` bytes, from submission to
  /// its end. The copy must use one channel only: the time of another hop would count as the
  /// channel's.
  Result<double> time(const Array& source, const Array& target, std::int64_t request,
                      Until until = Until::on_disk) {
    CopyOptions shortest;
    shortest.planner = PlannerKind::spsl;
    auto made = engine_->plan(source, target, shortest);
    if (!made) return made.error();
    auto plan = std::make_shared<Plan>(**made);
    CHECK(plan->hops.size() == 1, "a sample of a channel that takes another one, too");
    const Throughput& rates = engine_->profile().channels[0].throughput;
    const Order from = Order::of(*source.view.mapping);
    const Order to = Order::of(*target.view.mapping);
    retile(*plan, choose_tile({&from, &rates}, {&to, &rates}, plan->extents, request).tile);
    std::vector<double> seconds;
    for (int k = 0; k < repeats; ++k) {
      if (file_ != nullptr) file_->forget_cached();
      const std::int64_t begin = clock_.now_ns();
      const Event event = engine_->copy_along(plan, source, target);
      if (Status status = event.wait(std::chrono::seconds(60)); !status) return status.error();
      const std::int64_t copied_ns = clock_.now_ns();
      // Data that are still in the page cache have not been written to the disk.
      if (target.memory_kind == MemoryKind::file) {
        if (Status status = file_->flush(); !status) return status.error();
      }
      const std::int64_t end = until == Until::copied ? copied_ns : clock_.now_ns();
      seconds.push_back(static_cast<double>(end - begin) * 1e-9);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

  /// Adds the rate of one shape to `samples`.
  Status sample(std::vector<Sample>& samples, const Array& source, const Array& target,
                std::int64_t request, std::int64_t run) {
    auto seconds = time(source, target, request);
    if (!seconds) return seconds.error();
    samples.push_back({request, run, static_cast<double>(source.view.bytes()) / *seconds});
    return {};
  }

  /// Sets the channel's latency to the part of a short copy's time that its rate does not explain.
  Status measure_latency(ChannelSpec& spec, const Array& source, const Array& target) {
    auto seconds = time(source, target, latency_bytes, Until::copied);
    if (!seconds) return seconds.error();
    const std::int64_t bytes = source.view.bytes();
    const double moving_s = static_cast<double>(bytes) / spec.throughput.at(bytes, bytes);
    spec.latency_s = std::max(profile_.handoff_s, *seconds - moving_s);
    return {};
  }

  Status measure_handoff() {
    report(0, "hand-off to a worker");
    const Array source = matrix(source_.data(), 1, 4096, 1, "F, x, y");
    const Array target = matrix(target_.data(), 1, 4096, 1, "F, x, y");
    CopyOptions shortest;
    shortest.planner = PlannerKind::simple;
    auto made = engine_->plan(source, target, shortest);
    if (!made) return made.error();
    auto plan = std::make_shared<Plan>(**made);
    plan->direct = false;
    std::vector<double> seconds;
    for (int k = 0; k < handoffs; ++k) {
      // The pause lets the worker fall asleep, and the wait does not poll, which would help the
      // worker.
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      const std::int64_t begin = clock_.now_ns();
      const auto ended = engine_->copy_along(plan, source, target).completion();
      if (Status status = ended->wait(std::chrono::seconds(10)); !status) return status.error();
      seconds.push_back(static_cast<double>(clock_.now_ns() - begin) * 1e-9);
    }
    std::sort(seconds.begin(), seconds.end());
    profile_.handoff_s = seconds[seconds.size() / 2];
    for (ChannelSpec& spec : profile_.channels) spec.latency_s = profile_.handoff_s;
    return {};
  }

  /// Measures the time of a full plan, from a transposed matrix in host memory to each memory in
  /// turn.
  void measure_planning() {
    const Planner planner(profile_);
    std::vector<double> seconds;
    for (int k = 0; k < plans; ++k) {
      PlanQuery query;
      query.source = matrix(source_.data(), 8, 4096, 1024, "F, x, y").view;
      query.target = matrix(source_.data(), 8, 4096, 1024, "F, y, x").view;
      query.source_memory = host0;
      query.target_memory = k % static_cast<int>(profile_.memories.size());
      query.planner = PlannerKind::full;
      const std::int64_t begin = clock_.now_ns();
      if (!planner.plan(query)) continue;  // no path leads to this memory
      seconds.push_back(static_cast<double>(clock_.now_ns() - begin) * 1e-9);
    }
    if (seconds.empty()) return;
    std::sort(seconds.begin(), seconds.end());
    profile_.planning_s = seconds[seconds.size() / 2];
  }

  Status measure_memcpy() {
    std::vector<Sample> samples;
    for (const std::int64_t request : request_sizes) {
      report(0.05 + 0.1 * static_cast<double>(samples.size()) / 10, "host memory");
      const std::int64_t bytes = std::min(options_.sample_bytes, request * 1024);
      const Array source = matrix(source_.data(), 1, bytes, 1, "F, x, y");
      const Array target = matrix(target_.data(), 1, bytes, 1, "F, x, y");
      if (Status s = sample(samples, source, target, request, request); !s) return s;
      for (const std::int64_t run : converted_runs) {
        const std::int64_t side = square_side(bytes / run);
        const std::int64_t other = bytes / run / side;
        const Array rows = matrix(source_.data(), run, side, other, "F, x, y");
        const Array columns = matrix(target_.data(), run, side, other, "F, y, x");
        if (Status s = sample(samples, rows, columns, request, run); !s) return s;
      }
    }
    // The same threads copy into memory that is mapped from another process.
    for (ChannelSpec& spec : profile_.channels) {
      if (spec.kind != ChannelKind::memcpy) continue;
      spec.throughput = Throughput(samples);
      spec.width = engine_->threads();
    }
    return {};
  }

  Status measure_files() {
    if (options_.folder.empty()) return drop_memory(file0);
    std::string path = options_.folder + "/tranship-calibration-XXXXXX";
    const int descriptor = mkstemp(path.data());
    if (descriptor < 0) return drop_memory(file0);
    ::close(descriptor);
    Status status = measure_file(path);
    unlink(path.c_str());
    // A disk without room must not prevent the other measurements.
    return status ? status : drop_memory(file0);
  }

  Status measure_file(const std::string& path) {
    FileOptions options;
    options.mode = FileMode::read_write;
    options.bytes_min = options_.sample_bytes;
    options.direct = options_.config.file_direct;
    auto file = File::open(path, options);
    if (!file) return file.error();
    file_ = file->get();
    Array memory;
    memory.place.address = source_.data();
    for (const bool reads : {false, true}) {
      report(reads ? 0.6 : 0.4, reads ? "reading the disk" : "writing the disk");
      ChannelSpec& spec = reads ? channel(ChannelKind::file_read, file0, host0)
                                : channel(ChannelKind::file_write, host0, file0);
      if (Status s = measure_disk(spec, *file, reads, memory); !s) return s;
    }
    measure_disk_of_gpus(*file);
    file_ = nullptr;
    return {};
  }

  /// Measures the same rates for GPUDirect Storage, with memory on each GPU. A channel that the
  /// library refuses, for example on a file system that it does not support, is removed: files then
  /// go through pinned memory.
  void measure_disk_of_gpus(const std::shared_ptr<File>& file) {
    auto& channels = profile_.channels;
    for (std::size_t k = 0; k < channels.size();) {
      ChannelSpec& spec = channels[k];
      const bool reads = traits_of(spec.kind).reads;
      const Memory& end =
          profile_.memories[static_cast<std::size_t>(reads ? spec.target : spec.source)];
      if (traits_of(spec.kind).gpu || end.kind != MemoryKind::device) {
        ++k;
        continue;
      }
      report(reads ? 0.65 : 0.45, spec.name);
      const Status status = measure_disk_of_gpu(spec, file, reads, GpuSide::device_of(end));
      if (status) {
        ++k;
        continue;
      }
      report(reads ? 0.65 : 0.45, spec.name + " is left out: " + status.error().text());
      channels.erase(channels.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }

  Status measure_disk_of_gpu(ChannelSpec& spec, const std::shared_ptr<File>& file, bool reads,
                             int device) {
    Array memory;
    memory.memory_kind = MemoryKind::device;
    memory.device = device;
    auto owner = engine_->allocate(MemoryKind::device, device, options_.sample_bytes);
    if (!owner) return owner.error();
    memory.owner = *owner;
    memory.place.address = static_cast<std::byte*>(owner->get());
    return measure_disk(spec, file, reads, memory);
  }

  /// Measures the rates between a file and memory of the kind of `memory`.
  Status measure_disk(ChannelSpec& spec, const std::shared_ptr<File>& file, bool reads,
                      const Array& memory) {
    std::vector<Sample> samples;
    for (const std::int64_t request : file_requests) {
      if (Status s = file_sample(samples, file, reads, memory, request, request); !s) return s;
      for (const std::int64_t run : file_runs) {
        if (run > request || request != 4 * MiB) continue;
        if (Status s = file_sample(samples, file, reads, memory, request, run); !s) return s;
      }
    }
    spec.throughput = Throughput(std::move(samples));
    // What is written to a small file stays in the page cache when the copy ends.
    const std::int64_t row = reads ? 64 * KiB : cached_bytes;
    const std::int64_t rows = reads ? latency_bytes / row : 1;
    const Array disk = on_disk(file, row, rows);
    const Array lines = placed_as(memory, row, rows);
    return reads ? measure_latency(spec, disk, lines) : measure_latency(spec, lines, disk);
  }

  static Array placed_as(const Array& memory, std::int64_t x, std::int64_t y) {
    Array made = matrix(memory.place.address, 1, x, y, "F, x, y");
    made.memory_kind = memory.memory_kind;
    made.device = memory.device;
    made.owner = memory.owner;
    return made;
  }

  static Array on_disk(const std::shared_ptr<File>& file, std::int64_t x, std::int64_t y) {
    Array disk = matrix(nullptr, 1, x, y, "F, x, y");
    disk.place.attachment = file.get();
    disk.memory_kind = MemoryKind::file;
    disk.owner = file;
    return disk;
  }

  /// Adds the rate of an array with runs like a box of a row-major array, with gaps between them,
  /// or of a contiguous array if run == request.
  Status file_sample(std::vector<Sample>& samples, const std::shared_ptr<File>& file, bool reads,
                     const Array& place, std::int64_t request, std::int64_t run) {
    const bool whole = run == request;
    const std::int64_t row = whole ? 64 * KiB : std::max(64 * KiB, 2 * run);
    Array disk = on_disk(file, row, options_.sample_bytes / row);
    if (!whole) disk.view.extents[0] = run;
    const Array memory = placed_as(place, disk.view.extents[0], disk.view.extents[1]);
    return reads ? sample(samples, disk, memory, request, run)
                 : sample(samples, memory, disk, request, run);
  }

  Status measure_gpu_channels() {
    return measure_gpus(*engine_, profile_, options_.sample_bytes,
                        [this](const std::string& channel) { report(0.7, channel); });
  }
  void fill_pinned();
  Status measure_processes();
  Status measure_peer(Engine& other, int memory, const char* name);
  Status remote_sample(std::vector<Sample>& samples, const Array& remote, bool reads,
                       std::int64_t request, std::int64_t run);

  /// Removes the channels of a memory that could not be measured.
  Status drop_memory(int memory) {
    auto& channels = profile_.channels;
    channels.erase(std::remove_if(channels.begin(), channels.end(),
                                  [&](const ChannelSpec& spec) {
                                    return spec.source == memory || spec.target == memory;
                                  }),
                   channels.end());
    return {};
  }

  /// Adds the shared resources. Copies in memory and to a process on this machine run on the same
  /// cores. Both directions of a file share the disk, whose rate is that of the faster direction;
  /// each direction also has its own rate, for all channels together.
  void add_resources() {
    enum { cores, disk, disk_reads, disk_writes };
    profile_.resources = {{"host0 cores", 0}, {"disk", 0}, {"disk reads", 0}, {"disk writes", 0}};
    for (ChannelSpec& spec : profile_.channels) {
      const ChannelTraits& traits = traits_of(spec.kind);
      const bool far = spec.source == far_host0 || spec.target == far_host0;
      if (!traits.file) {
        if (!far && !traits.gpu) spec.resources = {cores};
        continue;
      }
      spec.resources = {disk, traits.reads ? disk_reads : disk_writes};
      for (const int resource : spec.resources) {
        double& rate = profile_.resources[static_cast<std::size_t>(resource)].bytes_per_second;
        rate = std::max(rate, spec.throughput.peak());
      }
    }
    add_gpu_links(profile_);
  }

  const CalibrationOptions& options_;
  Profile profile_;
  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
  std::unique_ptr<Engine> engine_;
  File* file_ = nullptr;  ///< set while the disk is measured
  SteadyClock clock_;
  const OtherLoad load_;
};

/// Adds for each channel of host memory an equal one for pinned memory: the same threads, disks and
/// processes serve both at the same rate.
void Calibration::fill_pinned() {
  const int pinned = profile_.find_memory("node0/pinned0");
  if (pinned < 0) return;
  const std::vector<ChannelSpec> channels = profile_.channels;
  const auto add = [&](ChannelSpec channel, const char* words, int source, int target) {
    channel.name += words;
    channel.source = source;
    channel.target = target;
    profile_.channels.push_back(std::move(channel));
  };
  for (const ChannelSpec& spec : channels) {
    if (spec.source == host0) add(spec, " from pinned", pinned, spec.target);
    if (spec.target == host0) add(spec, " to pinned", spec.source, pinned);
    if (spec.source == host0 && spec.target == host0) add(spec, " in pinned", pinned, pinned);
  }
}

Status Calibration::measure_processes() {
  if (!options_.processes) {
    (void)drop_memory(host1);
    return drop_memory(far_host0);
  }
  for (const bool network : {false, true}) {
    report(network ? 0.9 : 0.8, network ? "the network" : "another process");
    const int memory = network ? far_host0 : host1;
    Engine::Options options;
    options.config = options_.config;
    options.config.transport = network ? "network" : "automatic";
    options.profile = bootstrap(options_);
    options.accept = true;
    auto other = Engine::open(std::move(options));
    Status status = other ? measure_peer(**other, memory, "calibration") : Status(other.error());
    if (!status) (void)drop_memory(memory);  // `tranship topology` shows that the memory is missing
  }
  return {};
}

/// Adds the rate of a copy of the whole array in its own layout, or, with a shorter run, of a
/// transpose of a quarter of it.
Status Calibration::remote_sample(std::vector<Sample>& samples, const Array& remote, bool reads,
                                  std::int64_t request, std::int64_t run) {
  const bool whole = run == request;
  const std::int64_t bytes = whole ? options_.sample_bytes : options_.sample_bytes / 4;
  const std::int64_t element = whole ? 1 : run;
  const std::int64_t x = whole ? bytes : square_side(bytes / run);
  const std::int64_t y = bytes / element / x;
  Array far = matrix(nullptr, element, x, y, "F, x, y");
  far.place = remote.place;
  far.memory_kind = remote.memory_kind;
  far.owner = remote.owner;
  const Array near = matrix(source_.data(), element, x, y, whole ? "F, x, y" : "F, y, x");
  return reads ? sample(samples, far, near, request, run)
               : sample(samples, near, far, request, run);
}

Status Calibration::measure_peer(Engine& other, int memory, const char* name) {
  auto there = other.processes();
  if (!there) return there.error();
  const std::int64_t bytes = options_.sample_bytes;
  Array exported = matrix(target_.data(), 1, bytes, 1, "F, x, y");
  if (Status status = (*there)->export_array(name, exported); !status) return status;
  const auto here = engine_->processes();
  if (!here) return here.error();
  const auto patience = std::chrono::seconds(5);
  auto peer = (*here)->connect((*there)->contact(), patience);
  if (!peer) return peer.error();
  auto remote = (*here)->lookup(*peer, name, patience);
  if (!remote) return remote.error();
  for (const bool reads : {false, true}) {
    std::vector<Sample> samples;
    for (const std::int64_t request : remote_requests) {
      if (Status s = remote_sample(samples, *remote, reads, request, request); !s) return s;
      for (const std::int64_t run : remote_runs) {
        if (Status s = remote_sample(samples, *remote, reads, request, run); !s) return s;
      }
    }
    ChannelSpec& spec = reads ? channel(ChannelKind::remote_read, memory, host0)
                              : channel(ChannelKind::remote_write, host0, memory);
    spec.throughput = Throughput(std::move(samples));
    if (memory == host1) spec.width = std::max(peer_threads(options_.config), 1);
    Array far = matrix(nullptr, 1, latency_bytes, 1, "F, x, y");
    far.place = remote->place;
    far.memory_kind = remote->memory_kind;
    far.owner = remote->owner;
    const Array near = matrix(source_.data(), 1, latency_bytes, 1, "F, x, y");
    Status s = reads ? measure_latency(spec, far, near) : measure_latency(spec, near, far);
    if (!s) return s;
  }
  return (*here)->disconnect(*peer);
}

}  // namespace

std::string machine_name() {
  utsname names{};
  return uname(&names) == 0 && names.nodename[0] != 0 ? names.nodename : "machine";
}

Result<Profile> calibrate(const CalibrationOptions& options) {
  if (options.sample_bytes < 1 * MiB) {
    return Error{ErrorCode::invalid_argument, "a calibration needs samples of at least 1MiB",
                 "take 64MiB for steady figures"};
  }
  return Calibration(options).run();
}

}  // namespace tranship
