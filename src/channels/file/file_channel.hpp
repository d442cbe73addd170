// The channel between files and plain memory.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "channels/file/carrier.hpp"
#include "channels/file/file.hpp"
#include "channels/file/pieces.hpp"
#include "runtime/channel.hpp"

namespace tranship {

/// Options of a file channel.
struct FileChannelOptions {
  std::string name = "file";
  /// Function that copies nests between two memories of this process on the calling thread; its
  /// last argument is `cold`.
  file::Carrier::Copy copy;
  /// Function that copies lists in the same way. Null: the channel carries no lists.
  file::Carrier::CopyLists copy_lists{};
  /// Number of reads and writes at the same time, each on a thread. Raise it on disk arrays and
  /// network storage.
  int queue_depth = 4;
  /// Largest single read or write, in bytes. Raise it on network storage; lower it to spread small
  /// requests over more threads.
  std::int64_t io_bytes = 1 << 20;
  /// Bytes of requests that may be in flight; enough to keep all threads busy.
  std::int64_t bytes_in_flight_max = 64 << 20;
};

/// Carries requests with exactly one end in a File: on that side Place.address is a byte offset in
/// the file. Divides each request into pieces (pieces.hpp), which its threads carry in the order of
/// submission, several at the same time; a request has ended when its last piece has.
/// Owns its threads and one scratch buffer of `io_bytes` for each, from the first request on.
/// The destructor finishes all submitted requests.
/// Threads: as Channel says, with width 1. The bytes of a file range that is written are never
/// read, so requests may write neighbouring bytes at the same time.
class FileChannel : public Channel {
 public:
  /// @throws std::bad_alloc
  explicit FileChannel(FileChannelOptions options);
  ~FileChannel() override;

  const std::string& name() const override { return options_.name; }
  const Capabilities& capabilities() const override { return capabilities_; }

  /// @error permission if the target was opened for reading, or the source for writing only
  /// @error out_of_range if the request reaches before the start of the file
  /// @error out_of_memory if not even one thread can be started
  /// Through poll(), for each request: what the disk refused, or a file shorter than the request.
  Status submit(const Request& request) override;
  std::size_t poll(std::span<Finished> finished) override;

 private:
  struct Job;

  /// Jobs chained through Job::next.
  struct Chain {
    Job* first = nullptr;
    Job* last = nullptr;
    void append(Job& job);
    Job* take();
  };

  Status start_threads();
  void serve(file::Carrier& carrier);
  static bool find_span(Job& job);
  static void look_at(Job& job);
  void add_nests(Job& job) const;
  bool plan_group(Job& job);
  Job* take_piece(file::PieceTask& piece);
  void end_piece(Job& job, Status status);
  void finish(Job& job);

  const FileChannelOptions options_;
  Capabilities capabilities_;
  file::PieceLimits limits_;

  std::mutex mutex_;
  std::condition_variable work_;
  bool stopping_ = false;
  Chain waiting_;   ///< jobs with pieces that no thread has taken
  Chain finished_;  ///< jobs that poll() has not returned yet
  Chain spare_;
  std::vector<std::unique_ptr<Job>> jobs_;  ///< all jobs ever made; reused
  std::vector<file::FileNest> planned_;     ///< nests of the group that is being divided
  std::vector<std::thread> threads_;
};

}  // namespace tranship
