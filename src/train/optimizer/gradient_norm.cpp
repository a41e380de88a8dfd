#include "train/optimizer/gradient_norm.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace tributary::train {

std::vector<std::string> trained_modules(std::span<const std::unique_ptr<parallel::Unit>> units) {
  std::vector<std::string> modules;
  for (const auto& unit : units)
    if (unit->trainable() && std::ranges::find(modules, unit->module()) == modules.end())
      modules.push_back(unit->module());
  return modules;
}

void SquareSums::add(const parallel::Unit& unit, const at::Tensor& shard) {
  const at::NoGradGuard no_grad;
  const auto module =
      static_cast<std::size_t>(std::ranges::find(modules_, unit.module()) - modules_.begin());
  const int replicas = unit.layout().mesh->replicate().size();
  const bool has_copies = std::ranges::any_of(
      unit.parameters(), [](const auto& each) { return each->split.copies != nullptr; });
  if (!has_copies) {
    add_rows(shard, module, by_copies_[replicas]);
    return;
  }
  for (const auto& parameter : unit.parameters()) {
    const parallel::Range own = unit.range_of(*parameter);
    const mesh::Group* copies = parameter->split.copies;
    add_rows(shard.narrow(0, own.first, own.count), module,
             by_copies_[replicas * (copies != nullptr ? copies->size() : 1)]);
  }
}

void SquareSums::add_rows(const at::Tensor& flat, std::size_t module, Rows& rows) {
  constexpr std::int64_t kRow = 4096;
  const std::int64_t whole = flat.numel() / kRow * kRow;
  const auto add_norms = [&](const at::Tensor& part, std::int64_t dim) {
    if (part.numel() == 0) return;
    rows.norms.push_back(
        at::linalg_vector_norm(part, 2, {dim}, /*keepdim=*/false, at::kFloat).view({-1}));
    rows.modules.push_back(module);
  };
  add_norms(flat.narrow(0, 0, whole).view({-1, kRow}), 1);
  add_norms(flat.narrow(0, whole, flat.numel() - whole), 0);
}

ModuleSquares SquareSums::sums() const {
  ModuleSquares sums{.by_module = std::vector<double>(modules_.size())};
  for (const auto& [copies, rows] : by_copies_) {
    if (rows.norms.empty()) continue;
    const at::Tensor all = at::cat(rows.norms).to(at::kCPU, at::kDouble);
    const auto* norm = all.const_data_ptr<double>();
    double sum = 0;
    for (std::size_t i = 0; i < rows.norms.size(); ++i) {
      double of_part = 0;
      for (std::int64_t k = 0; k < rows.norms[i].numel(); ++k, ++norm) {
        sum += *norm * *norm;
        of_part += *norm * *norm;
      }
      sums.by_module[rows.modules[i]] += of_part / copies;
    }
    sums.all += sum / copies;
  }
  return sums;
}

ModuleSquares square_gradients(std::span<const std::unique_ptr<parallel::Unit>> units) {
  SquareSums squares(units);
  for (const auto& unit : units)
    if (unit->trainable()) squares.add(*unit, unit->shard_gradient());
  return squares.sums();
}

double clip_factor(double norm, double max) {
  if (max <= 0 || norm <= max) return 1;
  return max / norm;
}

}  // namespace tributary::train
