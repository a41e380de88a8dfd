#include "app/cli/commands.h"

namespace tributary::app {

const std::vector<Command>& all_commands() {
  static const std::vector<Command> commands{
      {"train", Purpose::kTrain, "Train the model that a configuration describes", declare_train},
      {"launch", Purpose::kTrain,
       "Run a verb as several ranks on this machine, and restart them when one fails",
       declare_launch},
      {"config", Purpose::kTrain,
       "Check a run's YAML file and print it with every default filled in", declare_config},
      {"data inspect", Purpose::kTrain, "Read a data set: counts, sizes, bad records and why",
       declare_data_inspect},
      {"data make-demo", Purpose::kTrain,
       "Render the demo data: five sources of questions about pictures", declare_data_make_demo},
      {"doctor", Purpose::kTrain, "Say what this build and machine can do, and what would not work",
       declare_doctor},
      {"report", Purpose::kLook, "Draw a run as one HTML file that needs nothing else",
       declare_report},
      {"generate", Purpose::kLook,
       "Answer a prompt about images, by a model or by the newest state of a run",
       declare_generate},
      {"evaluate", Purpose::kLook, "Answer all questions of a data set and score the answers",
       declare_evaluate},
      {"chat", Purpose::kLook, "Talk to a model or to the newest state of a run", declare_chat},
      {"checkpoint inspect", Purpose::kLook,
       "List what a checkpoint, or a directory of weights, holds", declare_checkpoint_inspect},
      {"checkpoint verify", Purpose::kLook, "Hold every block of a checkpoint against its checksum",
       declare_checkpoint_verify},
      {"checkpoint export", Purpose::kLook,
       "Write a checkpoint's model as a directory that transformers loads",
       declare_checkpoint_export},
      {"forward", Purpose::kLook, "Run a model on processed tensors; write logits, loss, gradients",
       declare_forward},
      {"plan", Purpose::kPlan,
       "Find the best degrees for an encoder and a backbone, by any published method",
       declare_plan},
      {"simulate", Purpose::kPlan,
       "Predict a plan's step on a cluster: time, memory, idle time and why", declare_simulate},
      {"compare", Purpose::kPlan,
       "Set published methods side by side: models, clusters and data of a study", declare_compare},
      {"profile", Purpose::kPlan, "Measure a run's layers and collectives on this machine",
       declare_profile},
      {"calibrate", Purpose::kPlan,
       "Fit the constants of a cluster to measured steps and all-reduces", declare_calibrate},
      {"predict", Purpose::kPlan, "Predict the step times of configurations on a cluster",
       declare_predict},
      {"pack", Purpose::kPlan,
       "Pack samples into sequences and deal them to replicas, with the distance to a bound",
       declare_pack},
      {"balance", Purpose::kPlan,
       "Share items over buckets in several dimensions, with the distance to a bound",
       declare_balance},
  };
  return commands;
}

}  // namespace tributary::app
