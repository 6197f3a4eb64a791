#include "reel/comm/mpi.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/launched.h"
#include "reel/base/timer.h"

#ifdef REEL_WITH_MPI
#include <mpi.h>
#endif

namespace reel::comm {

#ifdef REEL_WITH_MPI

namespace {

void check(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw Error(fmt::format("{} failed: {}", what, text), "another rank, or the network to it, is gone");
}

class Requests final : public Pending {
 public:
  bool poll() override {
    int all = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE), "MPI_Testall");
    return all != 0;
  }
  std::vector<int> missing() override {
    std::vector<int> found;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      int done = 0;
      if (MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0) continue;
      if (std::find(found.begin(), found.end(), peers[i]) == found.end()) found.push_back(peers[i]);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  std::vector<MPI_Request> requests;
  std::vector<int> peers;
};

// Waits until all ranks of `comm` are here, no longer than `limit` seconds. What follows is a call of MPI's own that
// would wait for ever where a rank cannot be reached.
void meet(MPI_Comm comm, double limit, const char* what) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(comm, &request), "MPI_Ibarrier");
  const Timer timer;
  for (int done = 0; done == 0;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return;
    if (timer.seconds() > limit) {
      throw Error(fmt::format("{} waited {:.0f} s for the other ranks", what, timer.seconds()),
                  "one of them is stuck, or the network between them is down");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(timer.seconds() < 0.01 ? 0 : 100));
  }
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}
int size_of(MPI_Comm comm) {
  int size = 1;
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

int most_tag_of(MPI_Comm comm) {
  void* most = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&most), &found), "MPI_Comm_get_attr");
  return found != 0 ? *static_cast<int*>(most) : 32767;  // what MPI promises
}

class Mpi final : public Carrier {
 public:
  // Takes over `comm`, whose ranks are those of MPI_COMM_WORLD.
  Mpi(MPI_Comm comm, std::int64_t piece_bytes)
      : Carrier(rank_in(comm), size_of(comm)), comm_(comm), piece_bytes_(piece_bytes), most_tag_(most_tag_of(comm)) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~Mpi() override {
    if (std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);  // waits for the others
  }

  std::unique_ptr<Pending> start(std::span<const Message> outgoing, std::span<const Message> incoming) override {
    if (outgoing.empty() && incoming.empty()) return nullptr;
    auto pending = std::make_unique<Requests>();
    const auto each = [&](std::span<const Message> messages, const auto& post) {
      for (const Message& m : messages) {
        for (std::int64_t at = 0; at < std::max<std::int64_t>(m.bytes, 1); at += piece_bytes_) {
          // NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): Requests::poll waits for it
          MPI_Request request = MPI_REQUEST_NULL;
          const auto bytes = static_cast<int>(std::min(piece_bytes_, m.bytes - at));
          post(static_cast<char*>(m.data) + at, bytes, m, &request);
          pending->requests.push_back(request);
          pending->peers.push_back(m.peer);
          // NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)
        }
      }
    };
    // Receives first: what arrives early has its place.
    each(incoming, [&](char* data, int bytes, const Message& m, MPI_Request* request) {
      check(MPI_Irecv(data, bytes, MPI_BYTE, m.peer, m.tag, comm_, request), "MPI_Irecv");
    });
    each(outgoing, [&](char* data, int bytes, const Message& m, MPI_Request* request) {
      check(MPI_Isend(data, bytes, MPI_BYTE, m.peer, m.tag, comm_, request), "MPI_Isend");
    });
    return pending;
  }

  void progress() override {  // one probe moves the messages of all groups
    int found = 0;
    check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
  }
  int most_tag() const override { return most_tag_; }

 private:
  MPI_Comm comm_;
  std::int64_t piece_bytes_;
  int most_tag_;
};

}  // namespace

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "";
  const std::string version(text);
  return version.substr(0, version.find(','));
}

Session::Session(std::int64_t piece_bytes) : exceptions_(std::uncaught_exceptions()) {
  if (launched().ranks == 1) {
    world_ = make_self();
    return;
  }
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  meet(MPI_COMM_WORLD, Shared().limit, "the start");
  MPI_Comm own = MPI_COMM_NULL;  // nobody else's messages come here
  check(MPI_Comm_dup(MPI_COMM_WORLD, &own), "MPI_Comm_dup");
  world_ = std::make_unique<Comm>(std::make_shared<Mpi>(own, piece_bytes));
}

Session::~Session() {
  if (std::uncaught_exceptions() > exceptions_) return;
  world_ = nullptr;
  int started = 0;
  if (MPI_Initialized(&started) == MPI_SUCCESS && started != 0) MPI_Finalize();
}

void abort_all(int status) {
  int started = 0, ended = 0;
  if (MPI_Initialized(&started) != MPI_SUCCESS || started == 0) return;
  if (MPI_Finalized(&ended) != MPI_SUCCESS || ended != 0) return;
  MPI_Abort(MPI_COMM_WORLD, status);
}

#else

std::string mpi_version() { return ""; }

Session::Session(std::int64_t) : world_(make_self()), exceptions_(0) {
  if (launched().ranks > 1) {
    throw Error(fmt::format("started as one of {} ranks, but this build has no MPI", launched().ranks),
                "install libopenmpi-dev and build again, or run it without mpirun");
  }
}

Session::~Session() = default;

void abort_all(int) {}

#endif

}  // namespace reel::comm
