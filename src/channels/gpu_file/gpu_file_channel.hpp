// file_read and file_write between a file and a GPU: GPUDirect Storage.
#pragma once

#include <memory>
#include <string>

#include "channels/gpu_file/cufile.hpp"
#include "gpu/gpus.hpp"
#include "runtime/channel.hpp"

namespace tranship {

/// Each thread that submits reads or writes the runs of a request, one after another. Requests end
/// in submit().
class GpuFileChannel : public Channel {
 public:
  struct Options {
    std::string name;  ///< such as "file_read device0"
    std::shared_ptr<Gpus> gpus;
    std::shared_ptr<const CuFile> library;
    int device = 0;
    int threads = 8;
  };
  explicit GpuFileChannel(Options options);

  const std::string& name() const override { return options_.name; }
  const Capabilities& capabilities() const override { return capabilities_; }
  /// @error io: what the library or the disk refused; out_of_range if the file ends before the run
  Status submit(const Request& request) override;

 private:
  Options options_;
  Capabilities capabilities_;
};

}  // namespace tranship
