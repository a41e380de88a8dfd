#pragma once

#include <span>
#include <vector>

namespace tributary::studies {

/// FLOP/s of one device, by the shape of a microbatch (tiles or tokens).
///
/// Either a law `peak * shape / (shape + half)`, or measured points: linear between them, constant
/// before the first and after the last.
class Throughput {
 public:
  struct Point {
    double shape;
    double flops_per_second;
  };

  /// errors: Fault::kInput when peak is not above 0 or half is below 0
  [[nodiscard]] static Throughput saturating(double peak, double half);
  /// errors: Fault::kInput when there is no point, shapes do not ascend or a value is not above 0
  [[nodiscard]] static Throughput table(std::vector<Point> points);

  [[nodiscard]] double at(double shape) const;
  /// The max at any shape up to this one.
  [[nodiscard]] double most_up_to(double shape) const;
  /// The max at any shape.
  [[nodiscard]] double peak() const { return peak_; }

 private:
  std::vector<Point> points_;    // empty: the law
  std::vector<double> running_;  // [points] max up to each
  double peak_ = 0;
  double half_ = 0;
};

}  // namespace tributary::studies
