// Writes an event file into the directory given; event_file_live.py reads it with TensorBoard.
#include <cmath>
#include <iostream>

#include "train/metrics/event_file.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  tributary::train::EventFile events(argv[1]);
  for (int step = 0; step < 1000; ++step) {
    events.scalar("loss", step, 1.0 / (1 + step));
    events.scalar("nested/learning rate ü", step, std::sin(step));
  }
  events.text("answers", 1000, std::string(300, 'x') + "\nsecond line");
  std::cout << events.path() << "\n";
}
