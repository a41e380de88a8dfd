#include "train/optimizer/gradient_norm.h"

#include <algorithm>
#include <map>
#include <vector>

#include <ATen/ATen.h>

namespace tributary::train {
namespace {

constexpr std::int64_t kRow = 4096;

/// Norms of the rows of 4096 of a flat buffer, and of what is left.
void append_row_norms(const at::Tensor& flat, std::vector<at::Tensor>& norms) {
  const std::int64_t rows = flat.numel() / kRow;
  const at::Tensor whole = flat.narrow(0, 0, rows * kRow).view({rows, kRow});
  const at::Tensor rest = flat.narrow(0, rows * kRow, flat.numel() - rows * kRow);
  if (rows > 0) norms.push_back(at::linalg_vector_norm(whole, 2, {1}, false, at::kFloat));
  if (rest.numel() > 0)
    norms.push_back(at::linalg_vector_norm(rest, 2, {0}, /*keepdim=*/true, at::kFloat));
}

double sum_of(const std::vector<at::Tensor>& norms) {
  if (norms.empty()) return 0;
  const at::Tensor all = at::cat(norms).to(at::kCPU, at::kDouble);
  const std::span<const double> values(all.const_data_ptr<double>(),
                                       static_cast<std::size_t>(all.numel()));
  double sum = 0;
  for (const double norm : values) sum += norm * norm;
  return sum;
}

/// Row norms of this rank's gradients, by the number of ranks that hold the same.
std::map<int, std::vector<at::Tensor>> norms_by_copies(
    std::span<const std::unique_ptr<parallel::Unit>> units) {
  std::map<int, std::vector<at::Tensor>> norms;
  for (const auto& unit : units) {
    if (!unit->trainable()) continue;
    const mesh::Mesh& mesh = *unit->layout().mesh;
    const int replicas = mesh.replicate().size();
    const bool has_copies = std::ranges::any_of(
        unit->parameters(), [](const auto& each) { return each->split.copies != nullptr; });
    if (!has_copies) {
      append_row_norms(unit->shard_gradient(), norms[replicas]);
      continue;
    }
    for (const auto& parameter : unit->parameters()) {
      const parallel::Range own = unit->range_of(*parameter);
      const mesh::Group* copies = parameter->split.copies;
      append_row_norms(unit->shard_gradient().narrow(0, own.first, own.count),
                       norms[replicas * (copies != nullptr ? copies->size() : 1)]);
    }
  }
  return norms;
}

}  // namespace

double sum_squared_gradients(std::span<const std::unique_ptr<parallel::Unit>> units) {
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (const auto& [copies, norms] : norms_by_copies(units)) sum += sum_of(norms) / copies;
  return sum;
}

double clip_factor(double norm, double most) {
  if (most <= 0 || norm <= most) return 1;
  return most / norm;
}

}  // namespace tributary::train
