#include "app/engine/engine_verbs.h"
#include "config/family/model_config.h"
#include "model/model.h"
#include "train/start/session.h"

namespace tributary::app {

AdaptedRun resolve_adapters(const config::RunConfig& run) {
  return {.run = train::resolve_adapter(run),
          .maps = model::list_linear_maps(config::read_model_config(run.model.path))};
}

}  // namespace tributary::app
