// The kinds that have nobody to talk to: one rank, and ghosts.
#include <cstring>

#include "reel/base/error.h"
#include "reel/comm/comm.h"

namespace reel::comm {

namespace {

class Self final : public Comm {
 public:
  Self(std::string name, std::shared_ptr<Shared> shared) : Comm(0, 1, std::move(name), std::move(shared)) {}
  std::unique_ptr<Comm> split(const std::function<int(int)>&, const std::string& name) override {
    return std::make_unique<Self>(name, shared_state());
  }

 protected:
  std::unique_ptr<Pending> start(std::span<const Message> outgoing, std::span<const Message> incoming) override {
    REEL_CHECK(outgoing.empty() && incoming.empty());
    return nullptr;
  }
};

class Ghost final : public Comm {
 public:
  Ghost(int rank, int size, std::string name, std::shared_ptr<Shared> shared)
      : Comm(rank, size, std::move(name), std::move(shared)) {}

  std::unique_ptr<Comm> split(const std::function<int(int)>& color, const std::string& name) override {
    int before = 0, members = 0;
    for (int r = 0; r < size(); ++r) {
      if (color(r) != color(rank())) continue;
      if (r < rank()) ++before;
      ++members;
    }
    return std::make_unique<Ghost>(before, members, name, shared_state());
  }

 protected:
  std::unique_ptr<Pending> start(std::span<const Message>, std::span<const Message> incoming) override {
    for (const Message& m : incoming) {
      if (m.data != nullptr) std::memset(m.data, 0, static_cast<std::size_t>(m.bytes));
    }
    return nullptr;
  }
};

}  // namespace

std::unique_ptr<Comm> make_self() { return std::make_unique<Self>("world", std::make_shared<Shared>()); }

std::unique_ptr<Comm> make_ghost(int rank, int size) {
  REEL_CHECK(rank >= 0 && rank < size);
  return std::make_unique<Ghost>(rank, size, "world", std::make_shared<Shared>());
}

}  // namespace reel::comm
