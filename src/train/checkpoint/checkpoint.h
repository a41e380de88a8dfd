#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/box.h"
#include "core/file/file_system.h"
#include "core/file/safetensors.h"
#include "core/units.h"
#include "mesh/transport/group.h"
#include "train/checkpoint/compatibility.h"

namespace tributary::train {

/// Where a part lies in the whole tensor.
struct TensorPart {
  std::vector<std::int64_t> shape;  // of the whole tensor
  Box box;
  bool is_written = true;  // by this rank: one rank writes each of equal copies
};

/// A tensor, or this rank's part of one, under the name that it has in files. On load the tensor is
/// filled.
struct NamedTensor {
  std::string name;
  at::Tensor value;                     // of the box
  std::optional<TensorPart> part = {};  // null: the whole, written by this rank

  [[nodiscard]] std::vector<std::int64_t> whole_shape() const {
    return part ? part->shape : value.sizes().vec();
  }
  [[nodiscard]] Box box() const { return part ? part->box : whole_box(value.sizes()); }
};

/// Everything that a checkpoint holds beside tensors.
struct CheckpointFacts {
  std::int64_t step = 0;        // steps done
  std::string config;           // the resolved run configuration, YAML
  std::string model_directory;  // absolute; gives config.json and the tokenizer at export
  RunIdentity identity;         // what must be equal to go on
  std::string state;            // JSON object: loader, plan position, counters, schedule
  std::map<std::string, std::string> generators;  // name -> state of a random generator, bytes
};

/// All state after a step. Tensors may be views of flat buffers, on any device.
struct CheckpointContent : CheckpointFacts {
  std::vector<NamedTensor> model;  // names of released checkpoints
  /// `exp_avg.<name>`, `exp_avg_sq.<name>`, `step.<name>`; `master.<name>` where used
  std::vector<NamedTensor> optimizer;
};

struct CheckpointWriterOptions {
  std::string root;                       // <run>/checkpoints, made when missing
  int keep_latest = 2;                    // at least 2
  bool keep_best = true;                  // also the one with the highest score
  bool async = true;                      // write in a background thread
  int max_failed_saves = 3;               // in a row; then save() raises. 1: raise at the next call
  std::int64_t start_step = 0;            // of this run: 0, or the step that it resumed from
  std::vector<std::string> damaged = {};  // later ones; set_damaged_aside() renames them
  /// The ranks that write together, on a group of their own; null: only this rank.
  const mesh::Group* ranks = nullptr;
  /// Called when this rank has written its part of a step and nothing is committed yet, by the
  /// thread that writes; what it throws fails the save.
  std::function<void(std::int64_t step)> on_written = {};
};

/// Saves checkpoints into one directory, which rank 0 locks as long as it lives.
///
/// With `async`, `save` copies the content and returns, and a thread writes it. Rank 0 commits
/// what all ranks wrote by one rename (docs/formats/checkpoint.md), and only then retires older
/// checkpoints. A save that fails on one rank fails on all.
///
/// collective: construction, save and finish over `ranks`, which see one file system
/// owns:   with `async` host memory as large as the content; the lock; a thread while saving
/// errors: at construction Fault::kInput when another job holds the directory, or when it holds
///         steps after start_step
class CheckpointWriter {
 public:
  explicit CheckpointWriter(CheckpointWriterOptions options,
                            FileSystem& files = real_file_system());
  /// Waits for the save under way.
  ~CheckpointWriter();

  /// Renames each checkpoint of `damaged` to `<path>.damaged-<start>`: once, before the first save,
  /// and not before it is sure that the run begins. Only on rank 0. errors: Fault::kResource
  void set_damaged_aside();

  /// Waits for the save under way, then stages this one. A step that is committed is not written
  /// again. The content may change as soon as this returns. `score`: higher is better.
  ///
  /// stream: tensors are copied on the current one; the host waits for the copies
  /// errors: a failed save is logged and counted, and training goes on; after max_failed_saves in
  ///         a row the last failure is raised here (Fault::kResource)
  void save(const CheckpointContent& content, std::optional<double> score = {});
  /// Waits for the save under way. errors: the failure of the last save, if it failed
  void finish();
  /// Gives a committed step the score that was measured after its save, by replacing its manifest
  /// in one rename, and retires what is no longer to be kept. A score that is not finite, or a step
  /// that is not there, changes nothing; what fails is logged.
  void rate(std::int64_t step, double score);

  [[nodiscard]] int failed_saves() const;
  /// Time for which the last save held up its caller.
  [[nodiscard]] Nanoseconds last_stall() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Which blocks of a checkpoint are compared with their checksums: all, those that are read, none.
enum class Verify { kFull, kTouched, kSizes };

/// Finds a checkpoint: PATH is one (`step-<n>`), a directory of them, or a run; of several the
/// newest.
///
/// errors: Fault::kInput when there is none
[[nodiscard]] std::string find_checkpoint(const std::string& path,
                                          FileSystem& files = real_file_system());
/// As find_checkpoint, for `--resume auto`: null when the run has no checkpoint yet.
[[nodiscard]] std::optional<std::string> newest_checkpoint(const std::string& root,
                                                           FileSystem& files = real_file_system());

/// The newest checkpoint of which every byte is as it was written, and the damaged ones after it.
struct IntactCheckpoint {
  std::string path;                  // empty: there is no checkpoint at all
  std::vector<std::string> damaged;  // newest first
};
/// For `--fallback=previous`.
///
/// errors: that of the newest when all are damaged
/// cost:   reads each checkpoint that it looks at
[[nodiscard]] IntactCheckpoint newest_intact_checkpoint(const std::string& root,
                                                        FileSystem& files = real_file_system());

/// Reads what lies beside the tensors, to compare configurations before anything is built.
///
/// errors: Fault::kInput with ExitCode::kCheckpointRefused, naming the file, the tensor, the block
///         and the previous checkpoint, which is never taken by itself
[[nodiscard]] CheckpointFacts read_checkpoint_facts(const std::string& directory,
                                                    FileSystem& files = real_file_system());

struct LoadReport {
  Bytes needed;  // of the tensors asked for, as they are stored
  Bytes read;
  std::set<StoredDtype> converted;  // types in the file that became another on the way
};

/// Fills the tensors of model and optimizer. Both lists must name exactly what the checkpoint
/// holds, with equal shapes and dtypes.
///
/// errors: as read_checkpoint_facts; lists every missing, unexpected and mis-shaped tensor
LoadReport load_checkpoint(const std::string& directory, std::span<const NamedTensor> model,
                           std::span<const NamedTensor> optimizer, Verify verify = Verify::kTouched,
                           FileSystem& files = real_file_system());
/// Fills only the model, to answer and not to go on training: a float tensor may be stored in
/// another float type, and is converted.
LoadReport load_model(const std::string& directory, std::span<const NamedTensor> model,
                      Verify verify = Verify::kTouched, FileSystem& files = real_file_system());

}  // namespace tributary::train
