#pragma once

#include "app/cli/verb.h"

namespace tributary::app {

// One function per verb, in `<verb>_command.cpp` or the file of its group, for all_commands.cpp.
Run declare_balance(Verb& verb);
Run declare_calibrate(Verb& verb);
Run declare_chat(Verb& verb);
Run declare_checkpoint_export(Verb& verb);
Run declare_checkpoint_inspect(Verb& verb);
Run declare_checkpoint_verify(Verb& verb);
Run declare_compare(Verb& verb);
Run declare_completion(Verb& verb);
Run declare_config(Verb& verb);
Run declare_data_inspect(Verb& verb);
Run declare_data_make_demo(Verb& verb);
Run declare_doctor(Verb& verb);
Run declare_encoder(Verb& verb);
Run declare_evaluate(Verb& verb);
Run declare_forward(Verb& verb);
Run declare_generate(Verb& verb);
Run declare_launch(Verb& verb);
Run declare_metrics_export(Verb& verb);
Run declare_pack(Verb& verb);
Run declare_plan(Verb& verb);
Run declare_predict(Verb& verb);
Run declare_profile(Verb& verb);
Run declare_report(Verb& verb);
Run declare_serve(Verb& verb);
Run declare_simulate(Verb& verb);
Run declare_train(Verb& verb);

}  // namespace tributary::app
