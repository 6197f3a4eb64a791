#include "reel/train/objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reel/base/testing.h"
#include "reel/train/testing.h"

namespace reel::train {
namespace {

using diffusion::Draws;
using diffusion::Purpose;
using testing::copy_of;
using testing::expect_close;
using testing::expect_same_bits;
using testing::small_run;

// A model that answers random numbers and keeps what it was asked and the gradient of its answer.
class Probe : public model::Denoiser {
 public:
  explicit Probe(const model::ModelConfig& config) : Denoiser(config) {
    if (config.family == "stdit3") {
      parameters_.add("y_embedder.y_embedding", {config.text_tokens, config.text_width}, false);
    }
    parameters_.allocate(tape::Parameters::With::kGradients);
    for (tape::Parameter& p : parameters_.all()) Random(1, 1).fill_normal(p.values());
  }

  tape::Tensor forward(model::Context& context, const model::Input& in) override {
    input = in;
    latents = copy_of(in.latents.span());
    text = copy_of(in.text.span());
    tape::Shape shape = in.latents.shape();
    shape[1] = config_.out_channels();
    answer.resize(static_cast<std::size_t>(tape::elements(shape)));
    Random(1, 2).fill_normal(answer);
    output = context.tape.differentiable(shape, answer);
    return output;
  }

  model::Input input;
  std::vector<float> latents, text, answer;
  tape::Tensor output;
};

// The objective of a run on clips of its data, and everything that it should have computed.
struct Pass {
  Pass(const RunConfig& c, std::int64_t clips, const Draws& draws, bool drop_text = true)
      : shape(clip_shape(c, clips)), probe(c.model), noise(shape.size()) {
    testing::Clips source(c);
    EXPECT_EQ(c.train.batch, clips);
    batch = source();
    Threads threads(1);
    tape::Pool pool;
    tape::Tape tape(threads, pool, {});
    model::Context context(tape);
    const tape::Tensor tensor = Objective(c).loss(context, probe, batch, clips, draws, drop_text);
    loss = static_cast<double>(tensor.item());
    tape.backward(tensor);
    gradient = copy_of(tape.gradient(probe.output).span());
    probe.output = {};
    probe.input.latents = probe.input.text = {};
    diffusion::fill_noise(Purpose::kTrainingNoise, draws, shape, noise);
  }

  diffusion::ClipShape shape;
  Probe probe;
  data::Batch batch;
  double loss = 0;
  std::vector<float> gradient, noise;
};

// What flow training with `given` conditioning frames should show, ask and answer, in double.
void expect_flow(const RunConfig& c, const Pass& pass, const Draws& draws, double sign, std::int64_t given) {
  const diffusion::ClipShape& shape = pass.shape;
  const diffusion::ClipShape out = shape.with_channels(c.model.out_channels());
  const std::vector<float> times = diffusion::draw_flow_times(c.diffusion, draws, shape.batch);
  std::vector<double> x(shape.size()), gradient(out.size());
  double sum = 0;
  const double count =
      static_cast<double>(shape.batch * shape.channels * (shape.frames - given)) * static_cast<double>(shape.plane());
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const double t = times[static_cast<std::size_t>(b)];
    EXPECT_FLOAT_EQ(pass.probe.input.times[static_cast<std::size_t>(b)], static_cast<float>(1000 * t));
    for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
      for (std::int64_t f = 0; f < shape.frames; ++f) {
        for (std::size_t i = 0; i < shape.plane(); ++i) {
          const std::size_t at = shape.at(b, channel, f) + i, out_at = out.at(b, channel, f) + i;
          const double data = pass.batch.values[at], noise = pass.noise[at];
          x[at] = f < given ? data : (1 - t) * data + t * noise;
          if (f < given) continue;
          const double difference = pass.probe.answer[out_at] - sign * (noise - data);
          sum += difference * difference;
          gradient[out_at] = 2 * difference / count;
        }
      }
    }
  }
  expect_close(pass.probe.latents, x, 1e-6, 1e-6);  // one rounding of numbers of size one
  EXPECT_NEAR(pass.loss, sum / count, 1e-6 * sum / count);
  expect_close(pass.gradient, gradient, 1e-9, 1e-5);
}

TEST(Objective, FlowLossIsTheMeanSquareOfTheVelocitysError) {
  const Draws draws{5, 7, 3};
  const RunConfig wan = small_run("wan", {"train.batch=3", "diffusion.shift=3"});
  expect_flow(wan, Pass(wan, 3, draws), draws, 1, 0);
  // stdit3 predicts the other sign; of its channels for the variance nothing is asked.
  const RunConfig stdit3 = small_run("stdit3", {"train.batch=3", "model.sigma=true", "diffusion.timesteps=uniform"});
  expect_flow(stdit3, Pass(stdit3, 3, draws), draws, -1, 0);
}

TEST(Objective, ConditioningFramesAreShownCleanAndHaveNoLoss) {
  const Draws draws{5, 7, 0};
  for (const std::string family : {"wan", "stdit3"}) {
    SCOPED_TRACE(family);
    const RunConfig c = small_run(family, {"video.frames=4", "diffusion.conditioning_frames=2"});
    const Pass pass(c, 2, draws);
    expect_flow(c, pass, draws, family == "wan" ? 1 : -1, 2);
    EXPECT_EQ(pass.probe.input.given_frames, (std::vector<std::uint8_t>{1, 1, 0, 0, 1, 1, 0, 0}));
  }
  // A patch of two frames is given as a whole.
  const RunConfig c = small_run("wan", {"video.frames=4", "diffusion.conditioning_frames=2", "model.patch=[2,4,4]"});
  EXPECT_EQ(Pass(c, 2, draws).probe.input.given_frames, (std::vector<std::uint8_t>{1, 0, 1, 0}));
  EXPECT_TRUE(Pass(small_run("wan"), 2, draws).probe.input.given_frames.empty());
}

TEST(Objective, LatteTakesNoConditioningFrames) {
  const std::string message = message_of([] { step_need(small_run("latte", {"diffusion.conditioning_frames=1"})); });
  EXPECT_NE(message.find("latte cannot be given clean frames | use wan or stdit3"), std::string::npos) << message;
}

TEST(Objective, LatteIsTrainedOnNoiseAndVariance) {
  const RunConfig c = small_run("latte");
  const Draws draws{5, 7, 3};
  const Pass pass(c, 2, draws);
  const diffusion::DdpmSchedule schedule = diffusion::ddpm_schedule();
  const std::vector<std::int64_t> steps = diffusion::draw_ddpm_steps(schedule, draws, 2);
  std::vector<double> x;
  for (std::size_t i = 0; i < pass.noise.size(); ++i) {
    const double bar = schedule[static_cast<std::size_t>(steps[i / pass.shape.sample()])].alpha_bar;
    x.push_back(std::sqrt(bar) * pass.batch.values[i] + std::sqrt(1 - bar) * pass.noise[i]);
  }
  expect_close(pass.probe.latents, x, 1e-6, 1e-6);
  for (std::size_t b = 0; b < 2; ++b) EXPECT_EQ(pass.probe.input.times[b], static_cast<float>(steps[b]));

  const auto noised = diffusion::ddpm_noise(schedule, pass.shape, pass.batch.values, pass.noise, steps, 0);
  std::vector<float> gradient(pass.gradient.size());
  const diffusion::DdpmLoss loss =
      diffusion::ddpm_loss(schedule, pass.shape, pass.probe.answer, pass.batch.values, noised, steps, gradient);
  EXPECT_FLOAT_EQ(static_cast<float>(pass.loss), static_cast<float>(loss.total()));
  expect_same_bits(pass.gradient, gradient);
}

TEST(Objective, DdpmNeedsChannelsForTheVariance) {
  const std::string message = message_of([] { Objective objective(small_run("latte", {"model.sigma=false"})); });
  EXPECT_NE(message.find("| set model.sigma = true"), std::string::npos) << message;
}

TEST(Objective, SomeTextsAreReplacedByNoText) {
  const Draws draws{5, 7, 0};
  for (const std::string family : {"wan", "stdit3"}) {
    SCOPED_TRACE(family);
    const RunConfig c = small_run(family, {"train.batch=32", "diffusion.text_dropout=0.4"});
    const Pass pass(c, 32, draws);
    const Buffer<float> null = null_text(pass.probe, c);
    EXPECT_EQ(std::any_of(null.begin(), null.end(), [](float x) { return x != 0; }), family == "stdit3");
    const std::vector<std::uint8_t> dropped = diffusion::draw_text_dropout(0.4, draws, 32);
    const auto count = std::count(dropped.begin(), dropped.end(), 1);
    EXPECT_TRUE(count > 3 && count < 29) << count;
    for (std::size_t b = 0; b < 32; ++b) {
      const std::span<const float> given = std::span(pass.batch.text).subspan(b * null.size(), null.size());
      expect_same_bits(std::span(pass.probe.text).subspan(b * null.size(), null.size()),
                       dropped[b] != 0 ? std::span<const float>(null) : given);
    }
    expect_same_bits(Pass(c, 32, draws, false).probe.text, pass.batch.text);
  }
}

TEST(Objective, Stdit3IsToldRateAndSizeOfTheVideo) {
  const Pass pass(small_run("stdit3", {"video.fps=12.5", "video.width=16"}), 2, {});
  EXPECT_EQ(pass.probe.input.fps, (std::vector<float>{12.5, 12.5}));
  EXPECT_EQ(pass.probe.input.height, (std::vector<float>{8, 8}));
  EXPECT_EQ(pass.probe.input.width, (std::vector<float>{16, 16}));
}

}  // namespace
}  // namespace reel::train
