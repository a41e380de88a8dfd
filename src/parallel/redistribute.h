#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mesh/transport/group.h"

namespace tributary::parallel {

/// One side of an edge. The ranks of a seat are its tp ranks: they hold the same rows.
struct EdgeSide {
  std::vector<std::vector<int>> seats;  // [seats][tp] indices in the groups of the edge
  int seat = -1;                        // of this rank; -1: it is on the other side only
  const mesh::Group* tp = nullptr;      // the ranks of this rank's seat; null where seat is -1
};

/// How messages of one kind travel. Messages of a pair share a stream on CUDA devices, where one
/// that waits holds up those that go the other way; so each way has a group of its own.
struct EdgeLink {
  const mesh::Group* to_higher;  // to a rank with a higher index; on CPU both may be one group
  const mesh::Group* to_lower;

  [[nodiscard]] const mesh::Group& between(int from, int to) const {
    return from < to ? *to_higher : *to_lower;
  }
};

/// Features go from the ranks of one module to those of another, and gradients the way back. The
/// groups hold all ranks of both sides in one order, and nothing else uses them. On CUDA devices
/// each pair has met once, in one order on all ranks: NCCL connects it at its first message, and
/// both ends wait for that.
struct Edge {
  EdgeLink features;
  EdgeLink gradients;
  EdgeSide source;
  EdgeSide destination;
};

/// Consecutive rows that a seat of the source makes and a seat of the destination keeps.
struct RowRun {
  int from = 0;            // seat of the source
  std::int64_t first = 0;  // row there
  int to = 0;              // seat of the destination
  std::int64_t place = 0;  // row there
  std::int64_t rows = 0;
};

/// The rows of one microbatch. A row that is made may be kept by several seats, or by none; each
/// row that is kept lies in exactly one run.
struct EdgeRows {
  std::vector<std::int64_t> made;  // [seats of the source] rows
  std::vector<std::int64_t> kept;  // [seats of the destination] rows
  std::vector<RowRun> runs;        // in any order
};

/// Rows, or their gradients, on the way to this rank.
struct Arriving {
  at::Tensor rows;                     // [arriving rows, width], by the rank that sends them
  std::vector<mesh::Pending> pending;  // a message from each of those ranks
};

/// Moves feature rows of one microbatch between two modules that lie on different meshes, and
/// their gradients the exact way back. Made alike on all ranks, from numbers that the host knows.
///
/// Rank t of the T ranks of a seat with R rows owns rows [t*h, (t+1)*h) of it, with h = ceil(R/T).
/// Owners send to owners, one message for each pair and direction; then the ranks of the receiving
/// seat gather their slices. Rows that stay on a rank are copied. A rank that is not on a side has
/// 0 rows there.
///
/// shape:      rows and gradients are [rows of the seat, width], the same on its tp ranks; 0 rows
///             are legal. Their dtype is any, and the same on both sides
/// owns:       tensors that are sent stay unchanged until their messages are waited for; on a rank
///             of both sides, until they are taken
/// stream:     the current one; the host knows all counts, so it waits for no device
/// collective: takes gather over the tp group of the receiving seat, in one order on its ranks;
///             seats without rows do nothing. Where messages have no tags (NCCL), both ends of a
///             pair post their microbatches in one order
/// errors:     Fault::kBug when a row of the destination does not lie in exactly one run, naming
///             it, or rows do not fit their seat; those of mesh::Group
/// cost:       each direction sends `rows of the runs * width` elements between the sides, whatever
///             their tp, and (T-1)*h*width from each rank inside of a receiving seat
/// source:     docs/theory/parallelism.md, "Features between two meshes"
class Redistribute {
 public:
  /// tag: of the messages; differs between microbatches that are under way at once
  Redistribute(const Edge& edge, EdgeRows rows, int tag);

  [[nodiscard]] std::int64_t source_rows() const { return source_.rows; }  // of this rank's seat
  [[nodiscard]] std::int64_t destination_rows() const { return destination_.rows; }

  /// On the source, after its forward. Several tensors of one microbatch follow each other, and are
  /// received and taken in the same order.
  [[nodiscard]] std::vector<mesh::Pending> send(const at::Tensor& rows) {
    return post(source_, features_, rows);
  }
  /// On the destination, before or after the rows are sent.
  [[nodiscard]] Arriving receive(std::int64_t width, at::TensorOptions options) const {
    return await(destination_, features_, width, options);
  }
  /// Waits, and returns the rows that the seat keeps. A rank of both sides sends first.
  [[nodiscard]] at::Tensor take(Arriving arriving) {
    return finish(destination_, features_, std::move(arriving));
  }

  /// On the destination, after its backward: gradients that are complete, hence equal on the ranks
  /// of a seat, each of which returns its own slice.
  [[nodiscard]] std::vector<mesh::Pending> send_gradient(const at::Tensor& gradient) {
    return post(destination_, gradients_, gradient);
  }
  /// On the source.
  [[nodiscard]] Arriving receive_gradient(std::int64_t width, at::TensorOptions options) const {
    return await(source_, gradients_, width, options);
  }
  /// Waits, and returns the gradients of all rows that the seat made: the sum over the seats that
  /// keep a row, added in ascending order of (seat, place), and 0 for a row that nobody keeps.
  [[nodiscard]] at::Tensor take_gradient(Arriving arriving) {
    return finish(source_, gradients_, std::move(arriving));
  }

 private:
  struct Span {
    std::int64_t row;  // in the seat
    std::int64_t rows;
  };
  /// What this rank exchanges with another one, or keeps to itself.
  struct Share {
    int rank;
    std::int64_t rows;
    std::vector<Span> spans;
  };
  /// Consecutive rows of the slice, the sum of those that begin at `arrived` in Arriving.
  struct Part {
    std::int64_t rows;
    std::vector<std::int64_t> arrived;
  };
  /// This rank on one side.
  struct Side {
    Side(const EdgeSide& side, const std::vector<std::int64_t>& seat_rows, int rank);
    void add(int other, Span span);
    void cut_parts();

    std::int64_t rows = 0;            // of the seat
    std::int64_t height = 0;          // of a slice
    Span slice{0, 0};                 // that this rank owns
    const mesh::Group* tp = nullptr;  // null where this rank is not on the side
    std::vector<Share> shares;        // as their first rows come in the order of (seat, place)
    std::vector<Part> parts;          // of the slice
  };
  struct Direction {
    EdgeLink link;
    std::deque<at::Tensor> own = {};  // from this rank to itself, until they are taken
  };

  std::vector<mesh::Pending> post(const Side& from, Direction& direction, const at::Tensor& rows);
  [[nodiscard]] Arriving await(const Side& to, const Direction& direction, std::int64_t width,
                               at::TensorOptions options) const;
  at::Tensor finish(const Side& to, Direction& direction, Arriving arriving) const;

  int tag_;
  int rank_;  // in the groups of the edge
  Side source_;
  Side destination_;
  Direction features_;
  Direction gradients_;
};

}  // namespace tributary::parallel
