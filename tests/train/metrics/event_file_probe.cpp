// Writes an event file into the directory given; event_file_live.py reads it with TensorBoard.
#include <cmath>
#include <filesystem>
#include <iostream>

#include "core/text.h"
#include "train/metrics/event_file.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  tributary::train::EventFile events(argv[1]);
  for (int step = 0; step < 1000; ++step) {
    events.scalar("loss", step, 1.0 / (1 + step));
    events.scalar("nested/learning rate ü", step, std::sin(step));
  }
  events.text("answers", 1000, std::string(300, 'x') + "\nsecond line");
  // A run that was killed at step 9 goes on from the checkpoint of step 5.
  const std::string resumed = std::string(argv[1]) + "/../resumed";
  for (const auto& [first, last] : {std::pair{0, 9}, std::pair{6, 12}}) {
    tributary::train::EventFile part(resumed);
    if (first > 0) part.restart_at(first);
    for (int step = first; step <= last; ++step) part.scalar("loss", step, first);
    std::filesystem::rename(part.path(), tributary::str(resumed, "/events.out.tfevents.", first));
  }
  std::cout << events.path() << "\n";
}
