#include "reel/app/app.h"

int main(int argc, char** argv) { return reel::app::run(argc, argv); }
