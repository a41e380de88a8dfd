#include "train/start/load_section.h"

namespace tributary::train {

std::function<void()> progress_of(mesh::Health* health) {
  if (health == nullptr) return {};
  return [health] { health->progress(); };
}

LoadSection::LoadSection(mesh::Health* health) : health_(health) {
  if (health_ != nullptr) health_->enter(mesh::Section::kLoad, 0);
}

LoadSection::~LoadSection() {
  if (health_ != nullptr) health_->enter(mesh::Section::kSetup, 0);
}

}  // namespace tributary::train
